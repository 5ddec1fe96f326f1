"""How soon `Runner.wait` returns after a job's end, and what waiting for many costs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial

from asyncsched import AppDef, Role, Runner
from asyncsched.clock import Clock
from asyncsched.schedulers.local import LocalScheduler
from asyncsched.testing import FakeScheduler, FakeService
from benchmarks._floods import percentile
from benchmarks._harness import Claim, at_most, in_turns_on_loop
from benchmarks._idle import until_idle

JOB = 0.2
ENDS = 20
"""Ends in each round."""

WAIT = "`Runner.wait`"


async def claims() -> AsyncIterator[Claim]:
    """Measure against what is least: a child that is waited for, and a future on which a task waits."""
    bare = "a bare child process of the same job"
    async with _runner() as runner:
        taken = await in_turns_on_loop({WAIT: lambda: _wait_for_a_job(runner), bare: _bare_job})
    yield at_most(
        f"time to run and wait for a job of {JOB} s",
        taken.ratio(WAIT, bare),
        1.95,
        detail=taken.told(1e3, "ms"),
    )
    for waiters in (1, 1000):
        bare = "a bare task that waits for a future" + (f" among {waiters}" if waiters > 1 else "")
        late = await in_turns_on_loop({WAIT: partial(_ends, waiters), bare: partial(_bare_ends, waiters)})
        yield at_most(
            f"time from a pushed end to the return of wait, with {waiters} waiters (p95 of one end at a time)",
            late.ratio(WAIT, bare),
            250.0,
            detail=late.told(1e3, "ms"),
        )


def _runner() -> Runner:
    return Runner("benchmark", {"local_cwd": LocalScheduler("benchmark")})


async def _wait_for_a_job(runner: Runner) -> float:
    role = Role("main", image="", entrypoint="sh", args=["-c", f"sleep {JOB}"])
    began = time.perf_counter()
    await runner.wait(await runner.run(AppDef("sleeper", [role]), "local_cwd"))
    return time.perf_counter() - began


async def _bare_job() -> float:
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec("sh", "-c", f"sleep {JOB}")
    await process.wait()
    return time.perf_counter() - began


async def _ends(waiters: int) -> float:
    """Let jobs end one at a time, and return how late the slowest but one of twenty was told."""
    service = FakeService(Clock(), start_delay=None)
    scheduler = FakeScheduler("benchmark", service)
    async with Runner("benchmark", {"fake": scheduler}) as runner:
        app = AppDef("job", [Role("main", image="", entrypoint="work")])
        handles = [await runner.run(app, "fake") for _ in range(max(waiters, ENDS))]
        waiting = [asyncio.create_task(_returned(runner.wait(handle))) for handle in handles]
        await until_idle()
        late = await _each([partial(service.exit, handle.app_id) for handle in handles[:ENDS]], waiting)
    await scheduler.close()
    await asyncio.gather(*waiting, return_exceptions=True)
    service.close()
    return late


async def _bare_ends(waiters: int) -> float:
    loop = asyncio.get_running_loop()
    futures: list[asyncio.Future[None]] = [loop.create_future() for _ in range(max(waiters, ENDS))]
    waiting = [asyncio.create_task(_returned(future)) for future in futures]
    late = await _each([partial(future.set_result, None) for future in futures[:ENDS]], waiting)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    return late


async def _returned(awaited: Awaitable[object]) -> float:
    await awaited
    return time.perf_counter()


async def _each(end: Sequence[Callable[[], object]], waiting: Sequence[asyncio.Task[float]]) -> float:
    late: list[float] = []
    for end_it, each in zip(end, waiting, strict=False):
        await asyncio.sleep(0.01)
        ended = time.perf_counter()
        end_it()
        late.append(await each - ended)
    return percentile(late, 0.95)
