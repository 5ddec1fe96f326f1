"""CloudWatch Logs as a hub: one FilterLogEvents for up to a hundred streams, whoever reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from typing_extensions import override

from asyncsched.clock import Clock
from asyncsched.errors import InvalidRequestError, NotFoundError, PermissionDeniedError
from asyncsched.logs.hub import HubEvent, LogHub
from asyncsched.logs.line import LogGap, LogOrigin, gap_line, label, utc
from asyncsched.schedulers.aws_batch.births import Births
from asyncsched.schedulers.aws_batch.client import Connection

__all__ = ["CloudWatchHub", "StreamKey"]

Page = Mapping[str, Any]

#: Streams in one query, as CloudWatch accepts them.
MAX_STREAMS = 100
#: Events in one answer: more would hold the loop for too long while they are decoded.
PAGE = 1000
#: Queries in vain for streams that do not exist yet, in one round.
MAX_TRIES = 4


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
        self, connection: Connection, group: str, *, clock: Clock, retry_for: float, interval: float = 0.5
    ) -> None:
        super().__init__(clock=clock, retry_for=retry_for, shortest=interval)
        self._connection, self._group = connection, group
        self._origins: dict[str, LogOrigin] = {}
        self._readers: Counter[str] = Counter()
        self._since: dict[str, int] = {}  # in milliseconds
        self._births = Births(clock)
        self._last: dict[str, int] = {}  # the time of the newest event that anybody has had of a stream
        self._lost: dict[str, tuple[LogGap, int]] = {}  # streams that were there and are gone, and since when

    def __repr__(self) -> str:
        return f"<CloudWatchHub {self._group}: {len(self._origins)} streams>"

    def know(self, stream: str, origin: LogOrigin, since_ns: int) -> str:
        """Say who writes a stream, and since when, once for each reader of it; returns the key to ask for it by."""
        key = StreamKey(origin.app_id, stream).text
        self._origins[key] = origin
        since = since_ns // 1_000_000
        self._since[stream] = min(since, self._since.get(stream, since))
        self._readers[key] += 1
        return key

    def end(self, stream: str) -> None:
        """Say that nothing more will be written to a stream."""
        self._births.end(stream)

    def forget(self, keys: Iterable[str]) -> None:
        """Take note that a reader of these has gone."""
        for key in keys:
            self._readers[key] -= 1
            if not self._readers[key]:
                del self._readers[key], self._origins[key]
                self._births.forget(_stream(key))
                for of_streams in (self._since, self._last, self._lost):
                    of_streams.pop(_stream(key), None)

    @override
    def last_look(self, keys: Iterable[str]) -> bool:
        return self._births.settle(map(_stream, keys))

    @override
    async def pages(self, keys: Sequence[str], since_ns: int | None) -> AsyncGenerator[Sequence[HubEvent]]:
        by_stream: dict[str, list[str]] = {}
        for key in keys:
            by_stream.setdefault(_stream(key), []).append(key)
        start = max(0, (since_ns or 0) // 1_000_000)
        yield self._holes(by_stream)
        there, not_yet = self._births.divide(by_stream)
        for streams in _chunks(there):
            async for page in self._existing(streams, start):
                yield self._events(page, by_stream)
        async for page in self._perhaps(not_yet, start):
            yield self._events(page, by_stream)
        yield self._holes(by_stream)  # those that have been found just now

    async def _existing(self, streams: Sequence[str], start: int) -> AsyncGenerator[Page]:
        try:
            async for page in self._window(streams, start):
                yield page
        except NotFoundError:
            # One of them has been deleted: which one, the next round finds out.
            self._births.doubt(streams)

    async def _perhaps(self, streams: Sequence[str], start: int) -> AsyncGenerator[Page]:
        """Read streams of which some may not exist, which CloudWatch says only of all together.

        New ones are read from their beginning on: by the time that one is found, its first lines may be old.
        """
        tries = 0
        while group := self._births.next_group(streams, MAX_STREAMS):
            try:
                async for page in self._window(group, min(self._start_of(stream, start) for stream in group)):
                    yield page
            except NotFoundError:
                if self._births.missing(group):
                    self._lose(group[0])
                tries += not self._births.has_ended(group)
            else:
                self._births.exist(group)
            if tries >= MAX_TRIES:
                return  # Those that exist are not kept waiting for those that do not.

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
