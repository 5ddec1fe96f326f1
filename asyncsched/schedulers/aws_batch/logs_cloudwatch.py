"""Read CloudWatch Logs with one FilterLogEvents for up to a hundred streams, shared by all readers."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from asyncsched._typing import NamedTuple, override
from asyncsched.clock import Clock
from asyncsched.errors import InvalidRequestError, NotFoundError, PermissionDeniedError
from asyncsched.logs.line import LogGap, LogOrigin, gap_line, label, utc
from asyncsched.logs.shared_query import HubEvent, LogHub
from asyncsched.schedulers.aws_batch.client import AWSConnection
from asyncsched.schedulers.aws_batch.logs_discovery import Group, StreamDiscovery

__all__ = ["CloudWatchHub", "StreamKey"]

Page = Mapping[str, Any]

MAX_STREAMS = 100
"""Most streams in one query."""

PAGE = 1000
"""Events per answer: decoding more would block the loop for too long."""

MAX_TRIES = 4
"""Most failed queries in one round for streams that may not exist yet."""

MAX_SEARCHED = 4
"""Most pages of a search for streams; streams not found by then are queried by name."""

_SKEW = 60_000
"""The tolerated difference between the clocks of two hosts, in milliseconds, for the first line of a stream."""


class StreamKey(NamedTuple):
    """A stream and its app, as one string, because a hub's keys are strings."""

    app_id: str
    stream: str

    @property
    def text(self) -> str:
        """The key."""
        return f"{self.app_id}\0{self.stream}"


class CloudWatchHub(LogHub):
    """The streams of one log group.

    Args:
        connection: The connection to CloudWatch.
        group: The log group.
        clock: The time source for pauses.
        retry_for: Seconds of failures after which readers get an error.
        interval: Seconds between two queries while lines arrive.
    """

    def __init__(
        self, connection: AWSConnection, group: str, *, clock: Clock, retry_for: float, interval: float = 0.5
    ) -> None:
        super().__init__(clock=clock, retry_for=retry_for, shortest=interval)
        self._connection, self._group = connection, group
        self._origins: dict[str, LogOrigin] = {}
        self._readers: Counter[str] = Counter()
        self._since: dict[str, int] = {}  # in milliseconds
        self._created: dict[str, int] = {}  # in milliseconds: no event of a stream is older
        self._awaited: set[str] = set()  # streams that the shared query has not found yet
        self._discovery = StreamDiscovery(clock)
        self._last: dict[str, int] = {}  # the time of the newest delivered event of a stream
        self._lost: dict[str, tuple[LogGap, int]] = {}  # streams that existed and are gone, and since when

    def __repr__(self) -> str:
        return f"<CloudWatchHub {self._group}: {len(self._origins)} streams>"

    def know(self, stream: str, origin: LogOrigin, *, since_ns: int, created_ns: int) -> str:
        """Register a reader of a stream; return the stream's key.

        Args:
            stream: The log stream.
            origin: The origin of its lines.
            since_ns: The start of the lines that the reader wants.
            created_ns: The time before which there are no lines.
        """
        key = StreamKey(origin.app_id, stream).text
        self._origins[key] = origin
        since = since_ns // 1_000_000
        self._since[stream] = min(since, self._since.get(stream, since))
        self._created[stream] = created_ns // 1_000_000
        self._readers[key] += 1
        return key

    def end(self, stream: str) -> None:
        """Record that nothing more will be written to a stream."""
        self._discovery.end(stream)

    def in_vain(self, key: str) -> int | None:
        """Return the number of failed searches for a stream; None if it has been found, or never will be."""
        return self._discovery.in_vain(_stream(key))

    def hasten(self, keys: Iterable[str]) -> None:
        """Search for these in the next round if they have not been found, because others wait for them."""
        self._discovery.hasten(map(_stream, keys))

    def forget(self, keys: Iterable[str]) -> None:
        """Unregister a reader of these streams."""
        for key in keys:
            self._readers[key] -= 1
            if not self._readers[key]:
                del self._readers[key], self._origins[key]
                self._discovery.forget(_stream(key))
                self._awaited.discard(_stream(key))
                for of_streams in (self._since, self._created, self._last, self._lost):
                    of_streams.pop(_stream(key), None)

    @override
    def last_look(self, keys: Iterable[str]) -> bool:
        return self._discovery.settle(map(_stream, keys))

    @override
    async def pages(self, keys: Sequence[str], since_ns: int | None) -> AsyncGenerator[Sequence[HubEvent]]:
        there, not_yet = self._discovery.divide({_stream(key): None for key in keys})
        # Another query may have found them meanwhile, but their lines have not been delivered here.
        found = self._awaited.intersection(there)
        self._awaited -= found
        async with aclosing(self._pages(keys, since_ns, first_time=found)) as pages:
            async for events in pages:
                yield events
        self._awaited.update(stream for stream in not_yet if not self._discovery.exists(stream))

    async def past(
        self, keys: Sequence[str], since_ns: int | None, *, at_once: bool
    ) -> AsyncGenerator[Sequence[HubEvent]]:
        """Yield the events of these streams for one reader up to now, as `pages` does.

        Args:
            keys: The streams.
            since_ns: The start.
            at_once: Whether every stream that exists now must be found in this call, instead of soon.
        """
        async with aclosing(self._pages(keys, since_ns, at_once=at_once)) as pages:
            async for events in pages:
                yield events

    async def _pages(
        self, keys: Sequence[str], since_ns: int | None, *, first_time: Iterable[str] = (), at_once: bool = False
    ) -> AsyncGenerator[Sequence[HubEvent]]:
        by_stream: dict[str, list[str]] = {}
        for key in keys:
            by_stream.setdefault(_stream(key), []).append(key)
        start = max(0, (since_ns or 0) // 1_000_000)
        yield self._holes(by_stream)
        there, not_yet = self._discovery.divide(by_stream)
        new = list(first_time)
        for streams in _chunks(new):
            async for page in self._existing(streams, min(self._since.get(stream, 0) for stream in streams)):
                yield self._events(page, by_stream)
        for streams in _chunks([stream for stream in there if stream not in new]):
            async for page in self._existing(streams, start):
                yield self._events(page, by_stream)
        async for page in self._perhaps(not_yet, start, at_once=at_once):
            yield self._events(page, by_stream)
        yield self._holes(by_stream)  # gaps found in this round

    async def _existing(self, streams: Sequence[str], start: int) -> AsyncGenerator[Page]:
        try:
            async for page in self._window(streams, start):
                yield page
        except NotFoundError:
            # One of them was deleted; the next round finds out which one.
            self._discovery.doubt(streams)

    async def _perhaps(self, streams: Sequence[str], start: int, *, at_once: bool) -> AsyncGenerator[Page]:
        """Read streams of which some may not exist; CloudWatch does not say which of them.

        New streams are read from their beginning: by the time one is found, its first lines may be old.
        """
        left = dict.fromkeys(streams)
        tries = 0
        # Missing streams must not delay existing ones.
        while tries < MAX_TRIES and (group := self._discovery.next_group(left, MAX_STREAMS, at_once=at_once)):
            asked = list(group.streams)
            tries += not at_once and not self._discovery.has_ended(asked)
            if group.how == "search":
                for stream in await self._search(group):
                    left.pop(stream, None)
                continue
            try:
                async for page in self._window(asked, min(self._start_of(stream, start) for stream in asked)):
                    yield page
            except NotFoundError:
                if self._discovery.missing(group, asked, self._present(), at_once=at_once):
                    self._lose(asked[0])
                if len(asked) == 1:
                    left.pop(asked[0], None)
            else:
                self._discovery.exist(asked)
                for stream in asked:
                    left.pop(stream, None)
                tries = 0
        # Another query has found these meanwhile, and delivered their lines.
        for found in _chunks([stream for stream in left if self._discovery.exists(stream)]):
            async for page in self._existing(found, min(self._since.get(stream, 0) for stream in found)):
                yield page

    async def _search(self, group: Group) -> list[str]:
        """Search for streams by the events under their prefix; return those that do not exist."""
        asked, present = set(group.streams), self._present()
        since = min(self._created.get(stream, 0) for stream in asked) if group.since is None else group.since - _SKEW
        request: dict[str, object] = {
            "logGroupName": self._group,
            "logStreamNamePrefix": group.streams[0].rpartition("/")[0] + "/",
            "startTime": max(since, 0),
            "limit": PAGE,
            "interleaved": True,
        }
        found: set[str] = set()
        complete = False
        with contextlib.suppress(NotFoundError, PermissionDeniedError):
            for _ in range(MAX_SEARCHED):
                try:
                    page = await self._connection.try_once("logs", "FilterLogEvents", "events", **request)
                except InvalidRequestError:
                    if request.pop("nextToken", None) is None:
                        raise
                    continue  # The token has expired: start again.
                found |= asked.intersection(row["logStreamName"] for row in page["events"])
                complete = not page.get("nextToken") or found == asked
                if complete:
                    break
                request["nextToken"] = page["nextToken"]
        return self._discovery.searched(group, found, present, complete=complete)

    def _present(self) -> int | None:
        return None if self.newest is None else self.newest // 1_000_000

    def _start_of(self, stream: str, start: int) -> int:
        if stream not in self._last:
            return self._since.get(stream, 0)
        return min(start, (self._last[stream] - self.overlap_ns) // 1_000_000)

    def _lose(self, stream: str) -> None:
        last = self._last.get(stream)
        reason = f"the log stream {stream} is gone: it was deleted or has expired"
        gap = LogGap(after=None if last is None else utc(last), reason=reason)
        self._lost[stream] = gap, last or self.clock.time_ns()

    def _holes(self, by_stream: Mapping[str, Sequence[str]]) -> list[HubEvent]:
        """Return the gaps of lost streams, in each round: readers recognise known ones by their id."""
        return [
            HubEvent(key, f"gone {ns}", gap_line(gap, origin, ns))
            for stream, (gap, ns) in self._lost.items()
            for key in by_stream.get(stream, ())
            if (origin := self._origins.get(key)) is not None
        ]

    async def beginning(self, key: str, lines: int, *, since_ns: int, until_ns: int | None) -> int:
        """Return the time at which the last `lines` lines of a stream start, reading backward from its end."""
        request: dict[str, object] = {
            "logGroupName": self._group,
            "logStreamName": _stream(key),
            "startTime": since_ns // 1_000_000,
            "startFromHead": False,
            "limit": min(max(lines, 1), PAGE),
        }
        if until_ns is not None:
            request["endTime"] = -(-until_ns // 1_000_000)
        while True:
            try:
                page = await self._connection.try_once("logs", "GetLogEvents", "events", **request)
            except (NotFoundError, PermissionDeniedError):
                return since_ns  # It does not exist yet, or must be read from its beginning.
            self._discovery.exist([_stream(key)])
            lines -= sum(1 + row["message"].rstrip("\n").count("\n") for row in page["events"])
            if lines <= 0 and page["events"]:
                return int(page["events"][0]["timestamp"]) * 1_000_000
            if page["nextBackwardToken"] == request.get("nextToken"):
                return since_ns  # The beginning is reached.
            request["nextToken"] = page["nextBackwardToken"]

    async def _window(self, streams: Sequence[str], start: int) -> AsyncGenerator[Page]:
        """Yield all events from `start` (in milliseconds) to now."""
        request: dict[str, object] = {
            "logGroupName": self._group,
            "logStreamNames": list(streams),
            "startTime": start,
            "limit": PAGE,
            "interleaved": True,
        }
        reached = start
        while True:
            try:
                page = await self._connection.try_once("logs", "FilterLogEvents", "events", **request)
            except InvalidRequestError:
                if request.pop("nextToken", None) is None:
                    raise
                request["startTime"] = reached  # The token has expired; readers skip known events.
                continue
            if page["events"]:
                reached = page["events"][-1]["timestamp"]
            yield page
            if not page.get("nextToken"):
                return
            request["nextToken"] = page["nextToken"]

    def _events(self, page: Page, by_stream: Mapping[str, Sequence[str]]) -> list[HubEvent]:
        events: list[HubEvent] = []
        for row in page["events"]:
            self._last[row["logStreamName"]] = row["timestamp"] * 1_000_000
            for key in by_stream.get(row["logStreamName"], ()):
                origin = self._origins.get(key)
                if origin is not None:
                    events += _lines(key, row, origin)
        return events


def _lines(key: str, row: Mapping[str, Any], origin: LogOrigin) -> list[HubEvent]:
    """Return an event's lines; an event with line breaks has several."""
    message: str = row["message"]
    texts = [f"{text}\n" for text in message.removesuffix("\n").split("\n")]
    lines = label(texts, origin, row["timestamp"] * 1_000_000)
    return [HubEvent(key, f"{row['eventId']}/{number}", line) for number, line in enumerate(lines)]


def _stream(key: str) -> str:
    return key.partition("\0")[2]


def _chunks(streams: Sequence[str]) -> list[Sequence[str]]:
    return [streams[start : start + MAX_STREAMS] for start in range(0, len(streams), MAX_STREAMS)]
