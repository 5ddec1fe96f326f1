"""How long a quiet replica's line waits beside replicas that flood."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import NamedTuple

from asyncsched.logs import LogOrigin, QueueSource, label
from benchmarks._floods import Flood, percentile, stream_of
from benchmarks._harness import Claim, at_most, in_turns_on_loop, on_loop
from benchmarks._reference import STEP, reference_work

LINES = 300
WARM = 50
"""Lines before those that are looked at: meanwhile the floods fill their buffers for the first time."""
QUIET = LogOrigin(app_id="app", role="quiet")


class Delay(NamedTuple):
    """Seconds that 99 of 100 lines have waited at most."""

    of_the_loop: float
    on_the_clock: float = 0.0


async def claims() -> AsyncIterator[Claim]:
    """Write a line every few milliseconds beside 1 and 64 floods, and see when it comes out.

    The loop is never idle meanwhile, so its thread's own CPU time is what the line waits for; time on the clock also
    holds what other processes take of the machine.
    """
    for floods in (1, 64):

        async def beside(floods: int = floods) -> Delay:
            return await _delay(floods)

        taken = await in_turns_on_loop({"a line": beside, STEP: on_loop(lambda: Delay(reference_work()))})
        yield at_most(
            f"beside {floods} flooding: CPU of the loop before a quiet replica's line is handed on (p99)",
            taken.ratio("a line", STEP, lambda delay: delay.of_the_loop),
            0.5,
            detail=f"{taken.told(1e3, 'ms', lambda delay: delay.of_the_loop)}; "
            f"on the clock {taken.median('a line', lambda delay: delay.on_the_clock) * 1e3:.3g} ms",
        )


async def _delay(floods: int) -> Delay:
    quiet = QueueSource(role="quiet")
    stream = stream_of([quiet, *(Flood(n) for n in range(floods))])
    delays: list[float] = []
    on_clock: list[float] = []
    written: list[float] = []

    async def write() -> None:
        for number in range(WARM + LINES):
            written.append(time.thread_time())
            quiet.put(label([f"{number}\n"], QUIET, time.perf_counter_ns()))
            await asyncio.sleep(0.003)

    writer = asyncio.create_task(write())
    async with stream:
        async for line in stream:
            if line.source is QUIET:
                delays.append(time.thread_time() - written[len(delays)])
                on_clock.append((time.perf_counter_ns() - (line.ns or 0)) / 1e9)
                if len(delays) == WARM + LINES:
                    break
    await writer
    return Delay(percentile(delays[WARM:], 0.99), percentile(on_clock[WARM:], 0.99))
