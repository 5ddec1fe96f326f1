"""What a group adds to a job: CPU time, against a bare task for each behind a semaphore, and memory while it waits."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections.abc import AsyncIterator
from functools import partial

from asyncsched import AppDef, Role, Runner
from asyncsched.clock import Clock
from asyncsched.specs.copies import copied
from asyncsched.testing import FakeScheduler, FakeService
from benchmarks._harness import Claim, Count, at_most, in_turns_on_loop

JOBS = 10_000
LIMIT = 100

GROUP = "a group"
BARE = "a TaskGroup with a semaphore, `run` and `wait`"


async def claims() -> AsyncIterator[Claim]:
    """Run the same jobs of a scheduler in memory both ways, then look at what waiting jobs hold."""
    taken = await in_turns_on_loop({GROUP: partial(_cpu, _with_group), BARE: partial(_cpu, _bare)}, rounds=5)
    yield at_most(
        f"CPU time for each of {JOBS:,} jobs, {LIMIT} at a time",
        taken.ratio(GROUP, BARE),
        1.6,
        detail=taken.told(1e6 / JOBS, "us"),
    )
    yield at_most(
        f"bytes that a waiting job holds beside its app, of {JOBS:,}",
        Count(number=await _waiting_bytes(), of="bytes"),
        1024,
    )


def _app() -> AppDef:
    return AppDef("job", [Role("main", image="", entrypoint="sh", args=["-c", "exit 0"])])


async def _cpu(run: object) -> float:
    service = FakeService(Clock())
    scheduler = FakeScheduler("benchmark", service)
    async with Runner("benchmark", {"fake": scheduler}) as runner:
        began = time.process_time()
        await run(runner)  # type: ignore[operator]
        spent = time.process_time() - began
    await scheduler.close()
    service.close()
    return spent


async def _with_group(runner: Runner) -> None:
    async with runner.group(limit=LIMIT) as group:
        for _ in range(JOBS):
            group.start(_app())


async def _bare(runner: Runner) -> None:
    slots = asyncio.Semaphore(LIMIT)

    async def one() -> None:
        async with slots:
            await runner.wait(await runner.run(_app(), "fake"))

    async with asyncio.TaskGroup() as tasks:
        for _ in range(JOBS):
            tasks.create_task(one())


async def _waiting_bytes() -> int:
    """Return what one waiting job holds, without its own copy of the app."""
    service = FakeService(Clock(), start_delay=None)
    scheduler = FakeScheduler("benchmark", service)
    async with Runner("benchmark", {"fake": scheduler}) as runner:
        group = runner.group(limit=1)
        group.start(_app())
        tracemalloc.start()
        apps = [copied(_app()) for _ in range(JOBS)]  # as the group copies them
        of_apps, _ = tracemalloc.get_traced_memory()
        for app in apps:
            group.start(app)
        of_both, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    await scheduler.close()
    service.close()
    return (of_both - 2 * of_apps) // JOBS
