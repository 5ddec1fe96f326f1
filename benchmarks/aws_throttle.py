"""Two hundred calls at once against a service that takes twenty a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from asyncsched.schedulers.aws_batch import create_scheduler
from benchmarks._aws import QUEUE, emulator, scripted
from benchmarks._harness import Claim, Count, at_most

CALLS = 200
RATE = 20


async def claims() -> AsyncIterator[Claim]:
    """Describe one job two hundred times, all at once."""
    with emulator() as aws:
        scheduler = create_scheduler("bench")
        app_id = await scheduler.submit(scripted(["sleep", 120]), {"queue": QUEUE})
        aws.set("throttle", DescribeJobs=[RATE, RATE])
        aws.set("calls", reset=True)
        began = time.perf_counter()
        found = await asyncio.gather(*(scheduler.describe(app_id) for _ in range(CALLS)), return_exceptions=True)
        seconds = time.perf_counter() - began
        counts = aws.set("calls")
        await scheduler.close()
    failed = sum(isinstance(each, BaseException) for each in found)
    detail = f"{counts['calls']['DescribeJobs']} calls in {seconds:.1f} s, throttled {counts['throttled']}"
    wasted = counts["throttled"].get("DescribeJobs", 0)
    name = f"{CALLS} calls against {RATE} a second"
    yield at_most(name, Count(number=failed, of="failures"), 0, detail=detail)
    yield at_most(name, Count(number=wasted, of="calls that were throttled"), 0)
