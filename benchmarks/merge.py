"""What the log engine costs a line, beside a bare loop over the same prepared batches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from asyncsched.logs import LogLine, LogOrigin, LogQuery, LogSink, LogStream, QueueSource, label
from benchmarks._harness import Claim, at_least, in_turns

LINES = 400_000
BATCH = 256
ROUNDS = 7


def claims() -> Iterator[Claim]:
    """Count the same lines in both ways, in turns, for 1, 64 and 1,000 sources."""
    for sources in (1, 64, 1000):
        batches = _prepare(sources)
        took = in_turns({"bare": _timed(_bare, batches), "engine": _timed(_engine, batches)}, ROUNDS)
        rates = {name: LINES / seconds for name, seconds in took.items()}
        yield at_least(
            f"{sources} sources: the engine hands on at least half as many lines as a native async generator",
            rates["engine"] / rates["bare"],
            0.5,
            detail=", ".join(f"{name}: {rate / 1e6:.2f} M lines/s" for name, rate in rates.items()),
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
