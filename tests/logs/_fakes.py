"""Services and sources that the engine's tests are run against."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from typing import Any

from asyncsched.clock import Clock
from asyncsched.errors import UnavailableError
from asyncsched.logs import (
    ConnectionSource,
    HubEvent,
    LineSplitter,
    LogHub,
    LogLine,
    LogOrigin,
    LogQuery,
    LogSink,
    LogSource,
    LogStream,
    NotStarted,
    label,
)
from asyncsched.specs.stream import Stream

SECOND = 1_000_000_000
T0 = 1_700_000_000 * SECOND


def origin(replica: int = 0, role: str = "worker", **more: Any) -> LogOrigin:
    return LogOrigin(app_id="app", role=role, replica=replica, **more)


def lines(*texts: str, source: LogOrigin | None = None, ns: int | None = None) -> list[LogLine]:
    return label([f"{text}\n" for text in texts], source if source is not None else origin(), ns)


def numbered(count: int, replica: int = 0, start: int = 0) -> list[LogLine]:
    return lines(*(f"{replica}:{number}" for number in range(start, start + count)), source=origin(replica))


def stream_of(*sources: LogSource, then: Callable[[LogSink], Awaitable[None]] | None = None, **query: Any) -> LogStream:
    async def open_logs(_: LogQuery, sink: LogSink) -> None:
        for source in sources:
            sink.add(source)
        if then is not None:
            await then(sink)

    return LogStream(LogQuery(app_id="app", **query), open_logs)


async def drain(stream: LogStream, into: list[LogLine] | None = None) -> list[LogLine]:
    """Read a stream to its end; with `into`, what was read before it failed is kept."""
    got: list[LogLine] = [] if into is None else into
    async for line in stream:
        got.append(line)  # noqa: PERF401 - kept when a later step raises
    return got


class StampedLog:
    """A log that a service keeps and sends over connections which may break at any byte.

    Attributes:
        cuts: After how many bytes each next connection breaks; None for one that does not.
    """

    def __init__(self) -> None:
        self.records: list[tuple[int, Stream, str]] = []
        self.purged = 0
        self.ended = False
        self.exists = True
        self.cuts: list[int | None] = []
        self.asked: list[tuple[int | None, bool]] = []
        self.open = 0
        self.chunk = 64
        self.cut_now = False
        self._changed = asyncio.Event()

    def write(self, text: str, ns: int | None = None, stream: Stream = Stream.STDOUT) -> None:
        self.records.append((T0 + len(self.records) if ns is None else ns, stream, text))
        self.change()

    def end(self) -> None:
        self.ended = True
        self.change()

    def cut(self) -> None:
        self.cut_now = True
        self.change()

    def change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def connect(self, since_ns: int | None, follow: bool) -> AsyncGenerator[bytes]:
        self.asked.append((since_ns, follow))
        left = self.cuts.pop(0) if self.cuts else None
        if left == 0:
            raise UnavailableError("refused")
        self.open += 1
        try:
            async for data in self._send(since_ns, follow):
                if left is not None and left <= len(data):
                    yield data[:left]
                    raise UnavailableError("cut")
                left = None if left is None else left - len(data)
                yield data
        finally:
            self.open -= 1

    async def _send(self, since_ns: int | None, follow: bool) -> AsyncGenerator[bytes]:
        at = self.purged
        while True:
            if self.cut_now:
                self.cut_now = False
                raise UnavailableError("cut")
            part = self.records[at : at + 100]
            at += len(part)
            data = "".join(f"{ns} {s.value} {text}\n" for ns, s, text in part if since_ns is None or ns >= since_ns)
            for start in range(0, len(data), self.chunk):
                yield data[start : start + self.chunk].encode()
            if part:
                continue
            if not follow or self.ended:
                return
            await self._changed.wait()


class StampedSource(ConnectionSource):
    def __init__(self, log: StampedLog, clock: Clock, *, replica: int = 0, **more: Any) -> None:
        super().__init__(origin(replica), clock=clock, **more)
        self.log = log
        self._splitter = LineSplitter()
        self._origins = {
            stream: LogOrigin(app_id="app", role="worker", replica=replica, stream=stream) for stream in Stream
        }

    async def connect(self, since_ns: int | None) -> AsyncGenerator[bytes]:
        if not self.log.exists:
            raise NotStarted
        async for data in self.log.connect(since_ns, self.following):
            yield data

    def parse(self, data: bytes) -> Sequence[LogLine]:
        return [self._line(text) for text in self._splitter.feed(data)]

    def _line(self, text: str) -> LogLine:
        ns, stream, rest = text.split(" ", 2)
        return label([rest], self._origins[Stream(stream)], int(ns))[0]

    def restart(self) -> None:
        self._splitter = LineSplitter()


class EventService:
    """A service that keeps lines as events, and shows each only some time after its stamp.

    Attributes:
        calls: What was asked: the keys and the time from which on.
        failures: What the next calls raise.
    """

    def __init__(self, clock: Clock, page: int = 50) -> None:
        self.clock = clock
        self.page = page
        self.events: list[tuple[int, HubEvent]] = []  # with the time from which on it is visible
        self.calls: list[tuple[Sequence[str], int | None]] = []
        self.failures: list[BaseException] = []
        self.latency = 0.0
        self.reading = 0

    def write(self, key: str, text: str, *, ns: int | None = None, delay: float = 0.0) -> None:
        now = self.clock.time_ns()
        stamp = now if ns is None else ns
        event = HubEvent(key, f"{len(self.events)}", lines(text, source=origin(int(key or 0)), ns=stamp)[0])
        self.events.append((now + round(delay * SECOND), event))

    async def read(self, keys: Sequence[str], since_ns: int | None) -> AsyncGenerator[Sequence[HubEvent]]:
        self.calls.append((keys, since_ns))
        after: tuple[int, int] = (-1, -1)
        while True:
            await self.clock.sleep(self.latency)
            if self.failures:
                raise self.failures.pop(0)
            found = sorted((place, event) for place, event in self._visible(keys, since_ns) if place > after)[
                : self.page
            ]
            if not found:
                return
            after = found[-1][0]
            self.reading += 1
            yield [event for _, event in found]

    def _visible(self, keys: Iterable[str], since_ns: int | None) -> Iterable[tuple[tuple[int, int], HubEvent]]:
        wanted, now = set(keys), self.clock.time_ns()
        for number, (visible, event) in enumerate(self.events):
            ns = event.line.ns or 0
            if visible <= now and event.key in wanted and (since_ns is None or ns >= since_ns):
                yield (ns, number), event


class EventHub(LogHub):
    def __init__(self, service: EventService, **more: Any) -> None:
        super().__init__(clock=service.clock, **more)
        self.service = service

    def pages(self, keys: Sequence[str], since_ns: int | None) -> AsyncGenerator[Sequence[HubEvent]]:
        return self.service.read(keys, since_ns)
