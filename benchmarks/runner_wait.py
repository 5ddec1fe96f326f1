"""How soon `Runner.wait` returns after a job's end, and what waiting for many costs."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator

from asyncsched import AppDef, Role, Runner
from asyncsched.clock import Clock
from asyncsched.schedulers.local import LocalScheduler
from asyncsched.testing import FakeScheduler, FakeService
from benchmarks._harness import Claim, at_most

JOB = 0.2
ROUNDS = 20


async def claims() -> AsyncIterator[Claim]:
    """Measure against the job's own length, and the latency where the end is known to the microsecond."""
    async with _runner() as runner:
        took = [await _wait_for_a_job(runner) for _ in range(5)]
    yield at_most(
        f"waiting for a job of {JOB} s takes at most twice as long as the job (the peer: 10.02 s, 50 times)",
        statistics.median(took) / JOB,
        2.0,
        detail=f"{statistics.median(took):.3f} s, submitted and ended",
    )
    late = await _latencies(waiters=1)
    yield at_most(
        "wait returns within 10 ms of a pushed end (p95)", _p95(late) * 1000, 10.0, unit=" ms", detail=_spread(late)
    )
    late = await _latencies(waiters=1000)
    yield at_most(
        "with 1,000 waiters on 1,000 jobs, too (p95 of one end at a time)",
        _p95(late) * 1000,
        10.0,
        unit=" ms",
        detail=_spread(late),
    )


def _runner() -> Runner:
    return Runner("benchmark", {"local_cwd": LocalScheduler("benchmark")})


async def _wait_for_a_job(runner: Runner) -> float:
    role = Role("main", image="", entrypoint="sh", args=["-c", f"sleep {JOB}"])
    began = time.perf_counter()
    await runner.wait(await runner.run(AppDef("sleeper", [role]), "local_cwd"))
    return time.perf_counter() - began


async def _latencies(waiters: int) -> list[float]:
    service = FakeService(Clock(), start_delay=None)
    scheduler = FakeScheduler("benchmark", service)
    async with Runner("benchmark", {"fake": scheduler}) as runner:
        app = AppDef("job", [Role("main", image="", entrypoint="work")])
        handles = [await runner.run(app, "fake") for _ in range(max(waiters, ROUNDS))]
        late: list[float] = []
        waiting = [asyncio.create_task(_wait(runner, handle)) for handle in handles]
        await asyncio.sleep(1)  # until all of them wait, a thousand on a slow machine too
        for handle, each in zip(handles[:ROUNDS], waiting, strict=False):
            await asyncio.sleep(0.01)
            ended = time.perf_counter()
            service.exit(handle.app_id)
            late.append(await each - ended)
    await scheduler.close()
    await asyncio.gather(*waiting, return_exceptions=True)
    service.close()
    return late


async def _wait(runner: Runner, handle: str) -> float:
    await runner.wait(handle)
    return time.perf_counter()


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


def _spread(values: list[float]) -> str:
    return f"p50 {statistics.median(values) * 1000:.2f} ms, most {max(values) * 1000:.2f} ms"
