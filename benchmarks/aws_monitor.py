"""What it costs to watch ten thousand jobs of AWS Batch, and how soon an end is seen."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

from asyncsched.schedulers.aws_batch import AWSBatchScheduler, create_scheduler
from benchmarks._aws import QUEUE, Emulator, emulator
from benchmarks._floods import longest_step, percentile
from benchmarks._harness import Claim, at_most

JOBS = 10_000


async def claims() -> AsyncIterator[Claim]:
    """Submit ten thousand jobs that end over a minute, and watch them through HTTP."""
    with emulator() as aws:
        jobs = aws.set("jobs", count=JOBS, queue=QUEUE, first=45.0, spread=60.0)["ends"]
        scheduler = create_scheduler("bench")
        with longest_step() as steps:
            rate, delays = await _watch(scheduler, aws, jobs)
        await scheduler.close()
    yield at_most(f"{JOBS} jobs: 10 calls a second at most", rate, 10.0, unit=" calls/s")
    yield at_most(
        f"{JOBS} jobs that end over a minute: seen within 2.5 s (p95)",
        percentile(delays, 0.95),
        2.5,
        unit=" s",
        detail=f"p50 {percentile(delays, 0.5):.2f} s, longest {max(delays):.2f} s",
    )
    yield at_most(f"{JOBS} jobs: no step takes more than 20 ms of CPU", max(steps) * 1e3, 20, unit=" ms")


async def _watch(scheduler: AWSBatchScheduler, aws: Emulator, ends: dict[str, float]) -> tuple[float, list[float]]:
    """Return the calls for each second, and how long after its end each job was seen to have ended."""
    delays: list[float] = []
    began = time.time()
    aws.calls()
    async with scheduler.watch([f"{QUEUE}:{job}" for job in ends]) as watch:
        async for event in watch:
            if event.over:
                delays.append(time.time() - ends[event.app_id.rpartition(":")[2]])  # noqa: PERF401 - timed one by one
    return sum(aws.calls().values()) / (time.time() - began), delays
