"""How long after a container's end those who wait are told: against ``docker wait`` on the same containers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from asyncsched.schedulers.docker import DockerScheduler
from benchmarks._docker import daemon, ended, run, scheduler, shell
from benchmarks._harness import Claim, at_most

APPS = 40


async def claims() -> AsyncIterator[Claim]:
    """Let both wait for each of many short apps, and count from the end that the daemon has noted."""
    ours: list[float] = []
    theirs: list[float] = []
    with daemon():
        async with scheduler() as made:
            for _ in range(APPS):
                told, commanded = await _one(made)
                ours.append(told)
                theirs.append(commanded)
    yield at_most(
        "95 of 100 are told at most 20 ms after those of `docker wait`",
        (_p95(ours) - _p95(theirs)) * 1e3,
        20,
        unit=" ms",
        detail=f"{_p95(ours) * 1e3:.0f} against {_p95(theirs) * 1e3:.0f} ms after the end",
    )


async def _one(made: DockerScheduler) -> tuple[float, float]:
    app_id = await made.submit(shell("sleep 0.5"))
    status = await made.describe(app_id)
    assert status is not None
    host = status.replicas[0].hostname

    async def told() -> float:
        await ended(made, app_id)
        return time.time()

    async def commanded() -> float:
        await run("docker", "wait", host)
        return time.time()

    times = await asyncio.gather(told(), commanded())
    inspected = await (await made._docker()).inspect_container(host, operation="describe")
    finished = datetime.fromisoformat(f"{inspected['State']['FinishedAt'][:23]}").replace(tzinfo=UTC).timestamp()
    await made.delete(app_id)
    return times[0] - finished, times[1] - finished


def _p95(values: list[float]) -> float:
    return sorted(values)[round(0.95 * len(values)) - 1]
