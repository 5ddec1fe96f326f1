"""How long a quiet replica's line waits beside replicas that flood."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from asyncsched.logs import LogOrigin, QueueSource, label
from benchmarks._floods import Flood, percentile, stream_of
from benchmarks._harness import Claim, at_most

LINES = 500
QUIET = LogOrigin(app_id="app", role="quiet")


async def claims() -> AsyncIterator[Claim]:
    """Write a line every few milliseconds beside 1 and 64 floods, and see when it comes out."""
    alone = await _delays(0)
    for floods in (1, 64):
        delays = await _delays(floods)
        yield at_most(
            f"beside {floods} flooding: a quiet replica's line is handed on within 10 ms (p99)",
            percentile(delays, 0.99) * 1e3,
            10,
            unit=" ms",
            detail=f"p50 {percentile(delays, 0.5) * 1e3:.2f} ms; alone p50 {percentile(alone, 0.5) * 1e3:.2f} ms, "
            f"p99 {percentile(alone, 0.99) * 1e3:.2f} ms",
        )


async def _delays(floods: int) -> list[float]:
    quiet = QueueSource(role="quiet")
    stream = stream_of([quiet, *(Flood(n) for n in range(floods))])
    delays: list[float] = []

    async def write() -> None:
        for number in range(LINES):
            quiet.put(label([f"{number}\n"], QUIET, time.perf_counter_ns()))
            await asyncio.sleep(0.003)

    writer = asyncio.create_task(write())
    async with stream:
        async for line in stream:
            if line.source is QUIET:
                delays.append((time.perf_counter_ns() - (line.ns or 0)) / 1e9)
                if len(delays) == LINES:
                    break
    await writer
    return delays
