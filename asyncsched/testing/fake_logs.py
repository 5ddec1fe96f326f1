"""Sources of the fake scheduler's lines: a connection to each replica, a poll of each, or one query for all."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import cast

from asyncsched._typing import override
from asyncsched.clock import Clock
from asyncsched.errors import UnavailableError
from asyncsched.logs.connection import ConnectionSource, NotStarted
from asyncsched.logs.line import LogLine, LogOrigin, label
from asyncsched.logs.query import LogQuery
from asyncsched.logs.shared_query import HubEvent, LogHub
from asyncsched.logs.source import LogSource
from asyncsched.logs.split import LineSplitter
from asyncsched.specs.state import AppState, ReplicaStatus
from asyncsched.specs.stream import Stream
from asyncsched.testing.service import FakeReplica, FakeService, Record

__all__ = ["FakeHub", "FakePoll", "FakePush"]

HEADER = struct.Struct(">qBHI")  # time, stream, attempt, length
STREAMS = (Stream.STDOUT, Stream.STDERR)
POLL = 0.2
PAGE = 1000


class FakePush(ConnectionSource):
    """One replica's log over a connection that the service keeps open."""

    def __init__(
        self, service: FakeService, clock: Clock, app_id: str, replica: ReplicaStatus, query: LogQuery
    ) -> None:
        super().__init__(
            LogOrigin(app_id=app_id, role=replica.role, replica=replica.id),
            clock=clock,
            since_ns=query.since_ns,
            follow=query.tail,
        )
        self._service = service
        self._unread = b""
        self._past_until = clock.time_ns()
        self._reached_present = False

    @property
    @override
    def backlog(self) -> bool:
        return not self._reached_present

    @override
    async def connect(self, since_ns: int | None) -> AsyncGenerator[bytes]:
        await self._service.call("logs")
        replica = self._replica()
        if replica is None or (replica.state is AppState.PENDING and not replica.records):
            self._reached_present = True
            raise NotStarted
        changed = asyncio.Event()
        broken = False

        def cut() -> None:
            nonlocal broken
            broken = True
            changed.set()

        replica.listeners.add(changed.set)
        self._service.cuts.add(cut)
        self._service.connections += 1
        try:
            position = next((r.number for r in replica.readable() if since_ns is None or r.ns >= since_ns), None)
            position = replica.next_number if position is None else position
            while not broken:
                changed.clear()
                new = [record for record in replica.readable() if record.number >= position]
                if new:
                    position = new[-1].number + 1
                    yield b"".join(_encode(record) for record in new)
                elif not self.following or replica.state.is_terminal():
                    return
                else:
                    self._reached_present = True
                    self._wake()
                    await self._wait(changed)
            raise UnavailableError("the connection was cut", backend="fake", operation="log_iter")
        finally:
            self._service.connections -= 1
            replica.listeners.discard(changed.set)
            self._service.cuts.discard(cut)

    async def _wait(self, changed: asyncio.Event) -> None:
        await changed.wait()

    def _replica(self) -> FakeReplica | None:
        return self._service.replica(self.origin.app_id, self.role, self.replica)

    @override
    async def over(self) -> bool:
        replica = self._replica()
        return not self.following or replica is None or replica.state.is_terminal()

    @override
    def parse(self, data: bytes) -> Sequence[LogLine]:
        self._unread += data
        return [line for record in self._records() for line in _lines(record, self.origin)]

    def _records(self) -> Iterator[Record]:
        while len(self._unread) >= HEADER.size:
            ns, stream, attempt, length = cast("tuple[int, int, int, int]", HEADER.unpack_from(self._unread))
            end = HEADER.size + length
            if len(self._unread) < end:
                return
            yield Record(0, ns, STREAMS[stream], self._unread[HEADER.size : end], attempt)
            self._unread = self._unread[end:]

    @override
    def restart(self) -> None:
        self._unread = b""


class FakePoll(FakePush):
    """One replica's log, polled."""

    @override
    async def _wait(self, changed: asyncio.Event) -> None:
        await self._clock.sleep(POLL)
        await self._service.call("logs")


class FakeHub(LogHub):
    """One query for the logs of all apps of a service; each stream holds at most `room` lines."""

    def __init__(self, service: FakeService, clock: Clock, room: int) -> None:
        super().__init__(clock=clock, overlap=5.0)
        self._service = service
        self._room = room

    def follow(self, app_id: str, replicas: Sequence[ReplicaStatus], query: LogQuery) -> LogSource:
        """Return one source of these replicas' lines."""
        keys = [f"{app_id}/{replica.role}/{replica.id}" for replica in replicas]
        return self.source(keys, since_ns=query.since_ns, tail=query.tail, room=self._room)

    @override
    async def pages(self, keys: Sequence[str], since_ns: int | None) -> AsyncGenerator[Sequence[HubEvent]]:
        await self._service.call("logs")
        events = [event for key in keys for event in self._events(key, since_ns)]
        events.sort(key=lambda event: event.line.ns or 0)
        for start in range(0, len(events), PAGE):
            if start:
                await self._service.call("logs")
            yield events[start : start + PAGE]

    def _events(self, key: str, since_ns: int | None) -> Iterator[HubEvent]:
        app_id, role, number = key.rsplit("/", 2)
        replica = self._service.replica(app_id, role, int(number))
        visible = self._clock_ns() - self._service.log_delay_ns
        origin = LogOrigin(app_id=app_id, role=role, replica=int(number))
        for record in replica.readable() if replica is not None else ():
            if (since_ns is None or record.ns >= since_ns) and record.ns <= visible:
                for piece, line in enumerate(_lines(record, origin)):
                    yield HubEvent(key, f"{record.number}.{piece}", line)

    def _clock_ns(self) -> int:
        return self.clock.time_ns()


def _encode(record: Record) -> bytes:
    return HEADER.pack(record.ns, STREAMS.index(record.stream), record.attempt, len(record.data)) + record.data


def _lines(record: Record, origin: LogOrigin) -> list[LogLine]:
    splitter = LineSplitter()
    texts = [*splitter.feed(record.data), *splitter.flush()]
    source = LogOrigin(
        app_id=origin.app_id,
        role=origin.role,
        replica=origin.replica,
        stream=record.stream,
        attempt=record.attempt,
    )
    return label(texts, source, record.ns)
