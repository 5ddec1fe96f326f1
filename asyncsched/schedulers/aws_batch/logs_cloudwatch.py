"""CloudWatch Logs as a hub: one FilterLogEvents for up to a hundred streams, whoever reads them."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

from asyncsched._typing import override
from asyncsched.clock import Clock
from asyncsched.errors import InvalidRequestError, NotFoundError, PermissionDeniedError
from asyncsched.logs.line import LogGap, LogOrigin, gap_line, label, utc
from asyncsched.logs.shared_query import HubEvent, LogHub
from asyncsched.schedulers.aws_batch.client import AWSConnection
from asyncsched.schedulers.aws_batch.logs_discovery import Births, Group

__all__ = ["CloudWatchHub", "StreamKey"]

Page = Mapping[str, Any]

MAX_STREAMS = 100
"""Streams in one query, as CloudWatch accepts them."""

PAGE = 1000
"""Events in one answer: more would hold the loop for too long while they are decoded."""

MAX_TRIES = 4
"""Queries in vain for streams that do not exist yet, in one round."""

MAX_SEARCHED = 4
"""Pages of a search for streams that may exist: what is not found on so many is asked for by name."""

_SKEW = 60_000
"""How far the clocks of two hosts may differ, in milliseconds, for the first line of a stream to be found."""


class StreamKey(NamedTuple):
    """A stream and whose it is, as one string, since a hub's keys are strings."""

    app_id: str
    stream: str

    @property
    def text(self) -> str:
        """The key."""
        return f"{self.app_id}\0{self.stream}"


class CloudWatchHub(LogHub):
    """The streams of one log group.

    Args:
        connection: Where CloudWatch is.
        group: The log group.
        clock: Tells the time of pauses.
        retry_for: Seconds of failures after which the readers are told.
        interval: Seconds between two looks while lines come.
    """

    def __init__(
        self, connection: AWSConnection, group: str, *, clock: Clock, retry_for: float, interval: float = 0.5
    ) -> None:
        super().__init__(clock=clock, retry_for=retry_for, shortest=interval)
        self._connection, self._group = connection, group
        self._origins: dict[str, LogOrigin] = {}
        self._readers: Counter[str] = Counter()
        self._since: dict[str, int] = {}  # in milliseconds
        self._born: dict[str, int] = {}  # in milliseconds: no event of a stream is older
        self._awaited: set[str] = set()  # streams that the shared query has not come by yet
        self._births = Births(clock)
        self._last: dict[str, int] = {}  # the time of the newest event that anybody has had of a stream
        self._lost: dict[str, tuple[LogGap, int]] = {}  # streams that were there and are gone, and since when

    def __repr__(self) -> str:
        return f"<CloudWatchHub {self._group}: {len(self._origins)} streams>"

    def know(self, stream: str, origin: LogOrigin, *, since_ns: int, born_ns: int) -> str:
        """Say who writes a stream, once for each reader of it; returns the key to ask for it by.

        Args:
            stream: The log stream.
            origin: What its lines are marked with.
            since_ns: The reader wants no older lines.
            born_ns: There are no older lines.
        """
        key = StreamKey(origin.app_id, stream).text
        self._origins[key] = origin
        since = since_ns // 1_000_000
        self._since[stream] = min(since, self._since.get(stream, since))
        self._born[stream] = born_ns // 1_000_000
        self._readers[key] += 1
        return key

    def end(self, stream: str) -> None:
        """Say that nothing more will be written to a stream."""
        self._births.end(stream)

    def in_vain(self, key: str) -> int | None:
        """Return how often a stream was looked for and not found; None if it has been found, or never will be."""
        return self._births.in_vain(_stream(key))

    def hasten(self, keys: Iterable[str]) -> None:
        """Look for these in the next round, if they have not been found: others wait for them."""
        self._births.hasten(map(_stream, keys))

    def forget(self, keys: Iterable[str]) -> None:
        """Take note that a reader of these has gone."""
        for key in keys:
            self._readers[key] -= 1
            if not self._readers[key]:
                del self._readers[key], self._origins[key]
                self._births.forget(_stream(key))
                self._awaited.discard(_stream(key))
                for of_streams in (self._since, self._born, self._last, self._lost):
                    of_streams.pop(_stream(key), None)

    @override
    def last_look(self, keys: Iterable[str]) -> bool:
        return self._births.settle(map(_stream, keys))

    @override
    async def pages(self, keys: Sequence[str], since_ns: int | None) -> AsyncGenerator[Sequence[HubEvent]]:
        there, not_yet = self._births.divide({_stream(key): None for key in keys})
        # Others may have found them meanwhile: who has waited for them here has had nothing of them yet.
        found = self._awaited.intersection(there)
        self._awaited -= found
        async with aclosing(self._pages(keys, since_ns, first_time=found)) as pages:
            async for events in pages:
                yield events
        self._awaited.update(stream for stream in not_yet if not self._births.exists(stream))

    async def past(
        self, keys: Sequence[str], since_ns: int | None, *, at_once: bool
    ) -> AsyncGenerator[Sequence[HubEvent]]:
        """Yield the events of these streams for one reader, up to the present, as `pages` does.

        Args:
            keys: The streams.
            since_ns: From when on.
            at_once: Whether every stream that exists now must be found, and not only before long.
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
        there, not_yet = self._births.divide(by_stream)
        new = list(first_time)
        for streams in _chunks(new):
            async for page in self._existing(streams, min(self._since.get(stream, 0) for stream in streams)):
                yield self._events(page, by_stream)
        for streams in _chunks([stream for stream in there if stream not in new]):
            async for page in self._existing(streams, start):
                yield self._events(page, by_stream)
        async for page in self._perhaps(not_yet, start, at_once=at_once):
            yield self._events(page, by_stream)
        yield self._holes(by_stream)  # those that have been found just now

    async def _existing(self, streams: Sequence[str], start: int) -> AsyncGenerator[Page]:
        try:
            async for page in self._window(streams, start):
                yield page
        except NotFoundError:
            # One of them has been deleted: which one, the next round finds out.
            self._births.doubt(streams)

    async def _perhaps(self, streams: Sequence[str], start: int, *, at_once: bool) -> AsyncGenerator[Page]:
        """Read streams of which some may not exist, which CloudWatch says only of all together.

        New ones are read from their beginning on: by the time that one is found, its first lines may be old.
        """
        left = dict.fromkeys(streams)
        tries = 0
        # Those that exist are not kept waiting for those that do not.
        while tries < MAX_TRIES and (group := self._births.next_group(left, MAX_STREAMS, at_once=at_once)):
            asked = list(group.streams)
            tries += not at_once and not self._births.has_ended(asked)
            if group.how == "search":
                for stream in await self._search(group):
                    left.pop(stream, None)
                continue
            try:
                async for page in self._window(asked, min(self._start_of(stream, start) for stream in asked)):
                    yield page
            except NotFoundError:
                if self._births.missing(group, asked, self._present(), at_once=at_once):
                    self._lose(asked[0])
                if len(asked) == 1:
                    left.pop(asked[0], None)
            else:
                self._births.exist(asked)
                for stream in asked:
                    left.pop(stream, None)
                tries = 0
        # Somebody else has found these meanwhile, and has had their lines.
        for found in _chunks([stream for stream in left if self._births.exists(stream)]):
            async for page in self._existing(found, min(self._since.get(stream, 0) for stream in found)):
                yield page

    async def _search(self, group: Group) -> list[str]:
        """Look for streams through whatever was written in their folder; returns those that do not exist."""
        asked, present = set(group.streams), self._present()
        since = min(self._born.get(stream, 0) for stream in asked) if group.since is None else group.since - _SKEW
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
                    continue  # The token has expired: from the beginning again.
                found |= asked.intersection(row["logStreamName"] for row in page["events"])
                complete = not page.get("nextToken") or found == asked
                if complete:
                    break
                request["nextToken"] = page["nextToken"]
        return self._births.searched(group, found, present, complete=complete)

    def _present(self) -> int | None:
        return None if self.newest is None else self.newest // 1_000_000

    def _start_of(self, stream: str, start: int) -> int:
        if stream not in self._last:
            return self._since.get(stream, 0)
        return min(start, (self._last[stream] - self.overlap_ns) // 1_000_000)

    def _lose(self, stream: str) -> None:
        last = self._last.get(stream)
        reason = f"the log stream {stream} is gone: deleted, or expired"
        gap = LogGap(after=None if last is None else utc(last), reason=reason)
        self._lost[stream] = gap, last or self.clock.time_ns()

    def _holes(self, by_stream: Mapping[str, Sequence[str]]) -> list[HubEvent]:
        """Tell of the streams that are gone, in each round: readers know by the id what they have been told."""
        return [
            HubEvent(key, f"gone {ns}", gap_line(gap, origin, ns))
            for stream, (gap, ns) in self._lost.items()
            for key in by_stream.get(stream, ())
            if (origin := self._origins.get(key)) is not None
        ]

    async def beginning(self, key: str, lines: int, *, since_ns: int, until_ns: int | None) -> int:
        """Return when the last so many lines of a stream begin, read from its end: no more pages than hold those."""
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
                return since_ns  # It does not exist yet, or is read from its beginning.
            self._births.exist([_stream(key)])
            lines -= sum(1 + row["message"].rstrip("\n").count("\n") for row in page["events"])
            if lines <= 0 and page["events"]:
                return int(page["events"][0]["timestamp"]) * 1_000_000
            if page["nextBackwardToken"] == request.get("nextToken"):
                return since_ns  # It has no more than these.
            request["nextToken"] = page["nextBackwardToken"]

    async def _window(self, streams: Sequence[str], start: int) -> AsyncGenerator[Page]:
        """Yield everything from `start` (in milliseconds) to the present end."""
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
                request["startTime"] = reached  # The token has expired; readers know what they have had.
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
    """Make an event's lines: more than one where a program's own line breaks were kept together."""
    message: str = row["message"]
    texts = [f"{text}\n" for text in message.removesuffix("\n").split("\n")]
    lines = label(texts, origin, row["timestamp"] * 1_000_000)
    return [HubEvent(key, f"{row['eventId']}/{number}", line) for number, line in enumerate(lines)]


def _stream(key: str) -> str:
    return key.partition("\0")[2]


def _chunks(streams: Sequence[str]) -> list[Sequence[str]]:
    return [streams[start : start + MAX_STREAMS] for start in range(0, len(streams), MAX_STREAMS)]
