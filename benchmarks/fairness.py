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
    """Write a line every few milliseconds beside 1 and 64 floods, and see when it comes out.

    The loop is never idle meanwhile, so its thread's own CPU time is what the line waits for; time on the clock also
    holds what other processes take of the machine.
    """
    _, alone = await _delays(0)
    for floods in (1, 64):
        delays, on_clock = await _delays(floods)
        yield at_most(
            f"beside {floods} flooding: a quiet replica's line is handed on within 10 ms of the loop's time (p99)",
            percentile(delays, 0.99) * 1e3,
            10,
            unit=" ms",
            detail=f"p50 {percentile(delays, 0.5) * 1e3:.2f} ms; on the clock {_both(on_clock)}; alone {_both(alone)}",
        )


def _both(delays: list[float]) -> str:
    return f"p50 {percentile(delays, 0.5) * 1e3:.2f}, p99 {percentile(delays, 0.99) * 1e3:.2f} ms"


async def _delays(floods: int) -> tuple[list[float], list[float]]:
    quiet = QueueSource(role="quiet")
    stream = stream_of([quiet, *(Flood(n) for n in range(floods))])
    delays: list[float] = []
    on_clock: list[float] = []
    written: list[float] = []

    async def write() -> None:
        for number in range(LINES):
            written.append(time.thread_time())
            quiet.put(label([f"{number}\n"], QUIET, time.perf_counter_ns()))
            await asyncio.sleep(0.003)

    writer = asyncio.create_task(write())
    async with stream:
        async for line in stream:
            if line.source is QUIET:
                delays.append(time.thread_time() - written[len(delays)])
                on_clock.append((time.perf_counter_ns() - (line.ns or 0)) / 1e9)
                if len(delays) == LINES:
                    break
    await writer
    return delays, on_clock
