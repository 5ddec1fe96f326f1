"""What it costs to open log streams, and to leave them in every way."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Iterator

from asyncsched.logs import LogStream, QueueSource
from benchmarks._floods import longest_step, stream_of
from benchmarks._harness import Claim, Count, at_most, in_turns
from benchmarks._reference import STEP, reference_work

FEW, MANY = 100, 2000

Leave = Callable[[list[LogStream]], Awaitable[object]]


def claims() -> Iterator[Claim]:
    """Leave few streams at a time, and many, by cancelling, closing and dropping them, in turns.

    There are as many in all, and what they leave is kept until the end: Python's collector has as much to do.
    """
    few, many = f"one among {FEW}", f"one among {MANY}"
    for name, leave in {"cancelled": _cancel, "closed": _close, "dropped": _drop}.items():
        taken = in_turns({many: _each(MANY, leave), few: _each(FEW, leave)})
        yield at_most(
            f"a stream that is {name} among {MANY}: its CPU",
            taken.ratio(many, few),
            1.5,
            detail=taken.told(1e6, "us"),
        )
    left = _each(MANY, _cancel, count_tasks=True)()
    yield at_most(f"{MANY} streams are cancelled", Count(number=round(left), of="tasks that are left"), 0)
    taken = in_turns({"the longest step": _longest, STEP: reference_work})
    yield at_most(
        f"{MANY} streams are cancelled: CPU of the longest step",
        taken.ratio("the longest step", STEP),
        1.0,
        detail=taken.told(1e3, "ms"),
    )


def _longest() -> float:
    with longest_step() as steps:
        _each(MANY, _cancel)()
    return max(steps)


def _each(at_once: int, leave: Leave, *, count_tasks: bool = False) -> Callable[[], float]:
    async def run() -> float:
        streams = [[stream_of([QueueSource()]) for _ in range(at_once)] for _ in range(MANY // at_once)]
        gc.collect()
        began = time.thread_time()
        kept = [await leave(some) for some in streams]
        took = (time.thread_time() - began) / MANY
        assert len(kept) == len(streams)
        return len(asyncio.all_tasks()) - 1 if count_tasks else took

    return lambda: asyncio.run(run())


async def _started(streams: list[LogStream]) -> list[asyncio.Task[None]]:
    async def read(stream: LogStream) -> None:
        async with stream:
            async for _ in stream:
                pass

    tasks: list[asyncio.Task[None]] = []
    for stream in streams:
        tasks.append(asyncio.create_task(read(stream)))
        if len(tasks) % 100 == 0:
            await asyncio.sleep(0)
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


async def _cancel(streams: list[LogStream]) -> object:
    tasks = await _started(streams)
    for task in tasks:
        task.cancel()
    return await asyncio.wait(tasks)


async def _close(streams: list[LogStream]) -> object:
    tasks = await _started(streams)
    for stream in streams:
        await stream.aclose()
    return await asyncio.wait(tasks)


async def _drop(streams: list[LogStream]) -> None:
    while streams:
        await _begin(streams.pop())
    while len(asyncio.all_tasks()) > 1:  # noqa: ASYNC110 - to hold a task is to hold the stream that it stepped
        await asyncio.sleep(0.001)


async def _begin(stream: LogStream) -> None:
    step = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    step.cancel()
