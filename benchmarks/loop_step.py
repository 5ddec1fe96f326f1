"""How long the log engine holds the loop while everything floods."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from asyncsched.logs import LogStream
from benchmarks._floods import Flood, longest_step, percentile, stream_of
from benchmarks._harness import Claim, at_most

SECONDS = 3.0


def claims() -> Iterator[Claim]:
    """Read floods as one stream and as many, and look at each callback and at each iteration."""
    shapes = {"64 floods in one stream": (1, 64), "64 streams of a flood each": (64, 1), "1,000 floods": (1, 1000)}
    for name, (streams, sources) in shapes.items():
        with longest_step() as steps:
            iterations, lines = asyncio.run(_read(streams, sources))
        detail = (
            f"{lines / SECONDS / 1e6:.2f} M lines/s, {len(steps)} steps, p99 {percentile(steps, 0.99) * 1e3:.1f} ms"
        )
        yield at_most(
            f"{name}: no step holds the loop's thread for more than 20 ms of CPU",
            max(steps) * 1e3,
            20,
            unit=" ms",
            detail=detail,
        )
        if sources > 64:  # that many connections fill their buffers at first, and that takes its time
            continue
        yield at_most(
            f"{name}: 99 % of the loop's iterations take less than 20 ms of CPU in all",
            percentile(iterations, 0.99) * 1e3,
            20,
            unit=" ms",
            detail=f"median {percentile(iterations, 0.5) * 1e3:.1f} ms, longest {max(iterations) * 1e3:.1f} ms",
        )


async def _read(streams: int, sources: int) -> tuple[list[float], int]:
    opened = [stream_of([Flood(n) for n in range(sources)]) for _ in range(streams)]
    counts = [0] * streams

    async def read(number: int, stream: LogStream) -> None:
        async for _ in stream:
            counts[number] += 1

    iterations: list[float] = []

    async def beat() -> None:
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            iterations.append(time.thread_time() - began)

    tasks = [asyncio.create_task(read(number, stream)) for number, stream in enumerate(opened)]
    tasks.append(asyncio.create_task(beat()))
    await asyncio.sleep(SECONDS)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for stream in opened:
        await stream.aclose()
    return iterations, sum(counts)
