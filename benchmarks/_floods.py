"""Sources that are always ahead of their reader, for the benchmarks of the log engine."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager

from typing_extensions import override

from asyncsched.clock import Clock
from asyncsched.logs import (
    ConnectionSource,
    LineSplitter,
    LogLine,
    LogOrigin,
    LogQuery,
    LogSink,
    LogSource,
    LogStream,
    StampReader,
)

LINE = b"2026-11-21T03:15:43.%09dZ " + b"x" * 60 + b"\n"
CHUNK = b"".join(LINE % number for number in range(64 * 1024 // len(LINE)))
"""What the service sends at a time, made once: its work is not what is measured."""


class Flood(ConnectionSource):
    """A connection over which a service sends as fast as it is read."""

    def __init__(self, replica: int, *, chunks: int | None = None) -> None:
        super().__init__(LogOrigin(app_id="app", role="worker", replica=replica), clock=Clock(), follow=chunks is None)
        self._splitter = LineSplitter()
        self._stamps = StampReader()
        self._left = chunks

    @override
    async def connect(self, since_ns: int | None) -> AsyncGenerator[bytes]:
        while self._left is None or self._left:
            if self._left is not None:
                self._left -= 1
            yield CHUNK

    @override
    def parse(self, data: bytes) -> Sequence[LogLine]:
        split, origin = self._stamps.split, self.origin
        lines: list[LogLine] = []
        for text in self._splitter.feed(data):
            ns, text = split(text)
            line = LogLine(text)
            line.source, line.ns = origin, ns
            lines.append(line)
        return lines


def stream_of(sources: Sequence[LogSource]) -> LogStream:
    """Return a stream over these sources."""

    async def open_logs(_: LogQuery, sink: LogSink) -> None:
        for number, source in enumerate(sources):
            sink.add(source)
            if number % 50 == 49:
                await asyncio.sleep(0)

    return LogStream(LogQuery(app_id="app"), open_logs)


@contextmanager
def longest_step() -> Iterator[list[float]]:
    """Measure the CPU time of the loop's thread in each callback; the list holds them all at the end.

    The garbage collector's own time is taken out: a full collection falls into any step, and is nobody's fault.
    """
    run = asyncio.Handle._run
    steps: list[float] = []
    collecting = 0.0

    def on_collection(phase: str, info: object) -> None:
        nonlocal collecting
        collecting += time.thread_time() * (-1 if phase == "start" else 1)

    def measured(self: asyncio.Handle) -> None:
        nonlocal collecting
        collecting = 0.0
        began = time.thread_time()
        run(self)
        steps.append(time.thread_time() - began - collecting)

    asyncio.Handle._run = measured  # type: ignore[method-assign]  # asyncio has no hook for this
    gc.callbacks.append(on_collection)
    try:
        yield steps
    finally:
        gc.callbacks.remove(on_collection)
        asyncio.Handle._run = run  # type: ignore[method-assign]  # as above


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of the others lies."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]
