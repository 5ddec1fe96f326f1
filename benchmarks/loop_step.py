"""How long the log engine holds the loop while everything floods."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from asyncsched.logs import LogStream
from benchmarks._floods import Flood, longest_step, percentile, stream_of
from benchmarks._harness import Claim, at_most, in_turns
from benchmarks._reference import STEP, reference_work

ITERATIONS = 200
WARM = 2000
"""Lines of each stream before iterations are looked at."""


class Flooded(NamedTuple):
    """CPU seconds of the loop's thread while everything floods."""

    step: float
    """Of the longest step."""
    iteration: float = 0.0
    """Of 99 of 100 iterations of the loop at most."""


def claims() -> Iterator[Claim]:
    """Read floods as one stream and as many, and look at each callback and at each iteration."""
    shapes = {"64 floods in one stream": (1, 64), "64 streams of a flood each": (64, 1), "1,000 floods": (1, 1000)}
    for name, (streams, sources) in shapes.items():
        measures: dict[str, Callable[[], Flooded]] = {"ours": partial(_flooded, streams, sources), STEP: _reference}
        taken = in_turns(measures)
        yield at_most(
            f"{name}: CPU of the longest step",
            taken.ratio("ours", STEP, lambda flooded: flooded.step),
            1.0,
            detail=taken.told(1e3, "ms", lambda flooded: flooded.step),
        )
        if sources > 64:  # that many connections fill their buffers at first, and that takes its time
            continue
        yield at_most(
            f"{name}: CPU of an iteration of the loop (p99)",
            taken.ratio("ours", STEP, lambda flooded: flooded.iteration),
            1.0,
            detail=taken.told(1e3, "ms", lambda flooded: flooded.iteration),
        )


def _reference() -> Flooded:
    took = reference_work()
    return Flooded(took, took)


def _flooded(streams: int, sources: int) -> Flooded:
    with longest_step() as steps:
        iterations = asyncio.run(_read(streams, sources))
    return Flooded(max(steps), percentile(iterations, 0.99))


async def _read(streams: int, sources: int) -> list[float]:
    under_way = 0
    opened = [stream_of([Flood(n) for n in range(sources)]) for _ in range(streams)]

    async def read(stream: LogStream) -> None:
        nonlocal under_way
        for _ in range(WARM):
            await anext(stream)
        under_way += 1
        async for _ in stream:
            pass

    iterations: list[float] = []

    async def beat() -> None:
        while len(iterations) < ITERATIONS:
            began = time.thread_time()
            await asyncio.sleep(0)
            if under_way == streams:  # buffers fill once, and that is no iteration like the others
                iterations.append(time.thread_time() - began)

    tasks = [asyncio.create_task(read(stream)) for stream in opened]
    await beat()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for stream in opened:
        await stream.aclose()
    return iterations
