"""What the log engine costs a line, beside a bare loop over the same prepared batches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from asyncsched.logs import LogLine, LogOrigin, LogQuery, LogSink, LogStream, QueueSource, label
from benchmarks._harness import Claim, at_most, in_turns

LINES = 400_000
BATCH = 256
BARE = "a native async generator over the same batches"


def claims() -> Iterator[Claim]:
    """Count the same lines in both ways, in turns, for 1, 64 and 1,000 sources."""
    for sources in (1, 64, 1000):
        batches = _prepare(sources)
        taken = in_turns({"the engine": _timed(_engine, batches), BARE: _timed(_bare, batches)})
        yield at_most(
            f"{sources} sources: CPU of the engine for a line",
            taken.ratio("the engine", BARE),
            2.0,
            detail=taken.told(1e9 / LINES, "ns"),
        )


Batches = Sequence[Sequence[Sequence[LogLine]]]


def _prepare(sources: int) -> Batches:
    """Return, for each source, batches of its lines."""
    each = LINES // sources
    prepared: list[list[list[LogLine]]] = []
    for replica in range(sources):
        origin = LogOrigin(app_id="app", role="worker", replica=replica)
        lines = label([f"step {number} of {replica}: {'x' * 60}\n" for number in range(each)], origin, 1)
        prepared.append([lines[start : start + BATCH] for start in range(0, each, BATCH)])
    return prepared


def _timed(read: Callable[[Batches], AsyncIterator[LogLine]], batches: Batches) -> Callable[[], float]:
    async def count() -> float:
        lines = read(batches)
        began = time.thread_time()
        total = 0
        async for _ in lines:
            total += 1
        took = time.thread_time() - began
        assert total == LINES, total
        return took

    return lambda: asyncio.run(count())


async def _bare(batches: Batches) -> AsyncIterator[LogLine]:
    for of_source in batches:
        for batch in of_source:
            for line in batch:
                yield line


def _engine(batches: Batches) -> AsyncIterator[LogLine]:
    async def open_logs(_: LogQuery, sink: LogSink) -> None:
        for of_source in batches:
            source = QueueSource(room=LINES + 1)
            for batch in of_source:
                source.put(batch)
            source.end()
            sink.add(source)

    return LogStream(LogQuery(app_id="app"), open_logs)
