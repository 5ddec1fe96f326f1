"""Where the fake scheduler's lines come from: a connection to each replica, a poll of each, or one query for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from typing_extensions import override

from asyncsched.clock import Clock
from asyncsched.logs.line import LogLine, LogOrigin, label
from asyncsched.logs.select import LogQuery
from asyncsched.logs.source import LogSource
from asyncsched.logs.split import LineSplitter
from asyncsched.specs.state import ReplicaStatus
from asyncsched.specs.stream import Stream
from asyncsched.testing.service import FakeReplica, FakeService, Record

__all__ = ["FakeHub", "FakePoll", "FakePush"]


class RecordLines:
    """Turns what one replica wrote into lines."""

    def __init__(self, app_id: str, role: str, replica: int) -> None:
        self._app_id = app_id
        self._role = role
        self._replica = replica
        self._attempt = 0
        self._splitters: dict[Stream, LineSplitter] = {}
        self._origins: dict[Stream, LogOrigin] = {}
        self._ns: int | None = None

    def feed(self, record: Record) -> list[LogLine]:
        """Return the lines that a record completes."""
        lines = self.flush() if record.attempt != self._attempt else []
        self._attempt = record.attempt
        if record.stream not in self._splitters:
            self._splitters[record.stream] = LineSplitter()
            self._origins[record.stream] = self.origin(record.stream)
        self._ns = record.ns
        return lines + label(self._splitters[record.stream].feed(record.data), self._origins[record.stream], record.ns)

    def flush(self) -> list[LogLine]:
        """Return what the attempt that has ended wrote without a newline."""
        lines = [
            line
            for stream, splitter in self._splitters.items()
            for line in label(splitter.flush(), self._origins[stream], self._ns)
        ]
        self._splitters.clear()
        return lines

    def origin(self, stream: Stream) -> LogOrigin:
        """Return who writes to a stream in the present attempt."""
        return LogOrigin(
            app_id=self._app_id, role=self._role, replica=self._replica, stream=stream, attempt=self._attempt
        )


class FakePush(LogSource):
    """One replica's log, read as it is written."""

    def __init__(
        self, service: FakeService, clock: Clock, app_id: str, replica: ReplicaStatus, query: LogQuery
    ) -> None:
        self.role, self.replica = replica.role, replica.id
        self._service, self._app_id, self._tail = service, app_id, query.tail
        self._lines = RecordLines(app_id, replica.role, replica.id)
        self._ready: list[LogLine] = []
        self._position = 0
        self._end = False
        self._wake: Callable[[], None] | None = None
        self._past = 0

    @property
    def _log(self) -> FakeReplica | None:
        return self._service.replica(self._app_id, self.role, self.replica)

    @override
    def start(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        if (log := self._log) is not None:
            log.listeners.add(wake)
            self._past = len(log.records)

    @override
    def read(self, limit: int) -> Sequence[LogLine]:
        log = self._log
        while log is not None and len(self._ready) < limit and self._position < len(log.records):
            self._ready += self._lines.feed(log.records[self._position])
            self._position += 1
        if self._finished():
            self._ready += self._lines.flush()
        lines, self._ready = self._ready[:limit], self._ready[limit:]
        return lines

    def _finished(self) -> bool:
        log = self._log
        drained = log is None or self._position >= len(log.records)
        return drained and (not self._tail or self._end or log is None or log.state.is_terminal())

    @property
    @override
    def ended(self) -> bool:
        return self._finished() and not self._ready

    @property
    @override
    def backlog(self) -> bool:
        return self._position < self._past

    @override
    def finish(self) -> None:
        self._end = True
        if self._wake is not None:
            self._wake()

    @override
    async def aclose(self) -> None:
        if self._wake is not None and (log := self._log) is not None:
            log.listeners.discard(self._wake)


FakePoll = FakePush


class FakeHub:
    """One query for the logs of all apps."""

    def __init__(self, service: FakeService, clock: Clock) -> None: ...

    async def aclose(self) -> None:
        """End the query."""
