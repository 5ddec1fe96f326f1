"""Create log sources, and update their streams whenever an app is described."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

from asyncsched._typing import override
from asyncsched.clock import Clock
from asyncsched.logs.line import LogLine, LogOrigin
from asyncsched.logs.query import LogQuery
from asyncsched.logs.shared_query import HubEvent
from asyncsched.logs.shared_source import HubSource
from asyncsched.schedulers.aws_batch.client import AWSConnection
from asyncsched.schedulers.aws_batch.logs_attempts import ARRIVED, AttemptOrder
from asyncsched.schedulers.aws_batch.logs_cloudwatch import CloudWatchHub
from asyncsched.schedulers.aws_batch.logs_streams import LogStreamRef, LogStreamRefs
from asyncsched.schedulers.aws_batch.lookup import AWSJobs, ReadAWSJob
from asyncsched.schedulers.aws_batch.status_rows import Row
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.specs.state import ReplicaStatus

__all__ = ["AWSLogSources"]

_EARLY = 600 * 1_000_000_000
"""The tolerated difference between the clocks of a job's host and AWS, in nanoseconds, for the first line's time."""

_ROOM = 2000

MAX_FROM_THE_END = 32
"""Up to this many streams, the last lines are read from the ends; for more, reading everything is faster."""


class AWSLogSources:
    """Creates log sources.

    Args:
        clock: The time source.
        retry_for: Seconds of failures after which readers get an error.
        interval: Seconds between two queries while lines arrive.
        settle_polls: Queries without a new line, after an app's end, that end its log.
    """

    def __init__(self, clock: Clock, *, retry_for: float, interval: float, settle_polls: int) -> None:
        self._clock, self._retry_for, self._interval = clock, retry_for, interval
        self._settle_polls = settle_polls
        self._apps: dict[str, dict[_Reader, None]] = {}
        self._hubs: dict[tuple[AWSConnection, str], CloudWatchHub] = {}

    def note(self, app_id: str, row: Row, nodes: Mapping[str, Row]) -> None:
        """Update the readers of a job that was described."""
        readers = self._apps.get(app_id)
        if readers:
            places = LogStreamRefs(row, nodes)
            for reader in list(readers):
                reader.look(places)

    async def sources(
        self, jobs: AWSJobs, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[HubSource]:
        """Return the sources of these replicas, one per log group: almost always one.

        Raises:
            NotImplementedError: The containers do not log to CloudWatch.
        """
        # The states of a watch do not include the job.
        job = app.native if isinstance(app.native, ReadAWSJob) else await jobs.look(query.app_id)
        if job is None:
            return []  # The job was deleted after it was described.
        places = LogStreamRefs(job.row, job.nodes)
        by_group: dict[str, list[tuple[str, int]]] = {}
        for replica in replicas:
            group = places.group(replica.role, replica.id)
            by_group.setdefault(group, []).append((replica.role, replica.id))
        connection = jobs.names.connection(job.known)
        return [
            self._source(self._hub(connection, group), wanted, query, job.row, places)
            for group, wanted in by_group.items()
        ]

    def _source(
        self,
        hub: CloudWatchHub,
        replicas: Sequence[tuple[str, int]],
        query: LogQuery,
        row: Row,
        places: LogStreamRefs,
    ) -> HubSource:
        age = self._age(row)
        fresh = age is None or age < ARRIVED
        reader = _Reader(
            hub,
            replicas,
            query,
            created_ns=row["createdAt"] * 1_000_000 - _EARLY,
            # Lines of a program that has just ended may still arrive.
            tail=query.tail or (age is not None and fresh),
            settle_polls=self._settle_polls if fresh else 1,
            settled=not fresh,
            closed=self._closed,
        )
        self._apps.setdefault(query.app_id, {})[reader] = None
        reader.look(places)
        if not query.tail:
            reader.finish()
        return reader

    def _age(self, row: Row) -> float | None:
        """Return the seconds since a job ended; None if it has not."""
        if row["status"] not in ("SUCCEEDED", "FAILED") or not row.get("stoppedAt"):
            return None
        return max(0.0, self._clock.time_ns() / 1e9 - float(row["stoppedAt"]) / 1000)

    def _closed(self, app_id: str, reader: _Reader) -> None:
        readers = self._apps.get(app_id, {})
        readers.pop(reader, None)
        if not readers:
            self._apps.pop(app_id, None)

    def _hub(self, connection: AWSConnection, group: str) -> CloudWatchHub:
        hub = self._hubs.get((connection, group))
        if hub is None:
            hub = CloudWatchHub(
                connection, group, clock=self._clock, retry_for=self._retry_for, interval=self._interval
            )
            self._hubs[connection, group] = hub
        return hub


class _Reader(HubSource):
    """Reads the streams of some replicas, of all their attempts, as they appear."""

    def __init__(
        self,
        hub: CloudWatchHub,
        replicas: Sequence[tuple[str, int]],
        query: LogQuery,
        *,
        created_ns: int,
        tail: bool,
        settle_polls: int,
        settled: bool,
        closed: Callable[[str, _Reader], None],
    ) -> None:
        role, replica = replicas[0] if len(replicas) == 1 else ("", -1)
        super().__init__(
            hub,
            (),
            since_ns=max(query.since_ns or 0, created_ns),
            tail=tail,
            role=role,
            replica=replica,
            room=_ROOM,
            settle_polls=settle_polls,
        )
        self._cloudwatch, self._query, self._closed = hub, query, closed
        self._settled, self._at_once, self._created = settled, not tail, created_ns
        self._since = max(query.since_ns or 0, created_ns)
        self._replicas = frozenset(replicas)
        self._attempts = AttemptOrder(settle_polls)
        self._streams: set[str] = set()
        self._keys: list[str] = []

    def look(self, places: LogStreamRefs) -> None:
        """Add the streams that have appeared."""
        new = [(replica, place) for replica, place in places if self._wants(replica, place)]
        if new:
            keys = [self._key(replica, place) for replica, place in new]
            self._streams |= {place.stream for _, place in new}
            self._keys += keys
            self.add_keys(keys)
            if self._tail and len(self.readable(keys)) < len(keys):
                self._cloudwatch.hurry()  # These wait until the earlier attempts are known to have been read.
        now = self._cloudwatch.clock.monotonic()
        for replica, place in places:
            if (ago := self._ended_ago(place)) is not None:
                self._attempts.end(replica, place.attempt, now - ago)

    @override
    def pages(self, keys: Sequence[str], since_ns: int | None) -> AsyncGenerator[Sequence[HubEvent]]:
        return self._cloudwatch.past(keys, since_ns, at_once=self._at_once)

    @property
    @override
    def one_at_a_time(self) -> bool:
        return self._query.tail_lines is not None and len(self._keys) <= MAX_FROM_THE_END

    @override
    async def beginning(self, key: str) -> int | None:
        return await self._cloudwatch.beginning(
            key, self._query.tail_lines or 0, since_ns=self._since, until_ns=self._query.until_ns
        )

    @override
    def readable(self, keys: Sequence[str]) -> Sequence[str]:
        return self._attempts.ready(keys)

    @override
    def arrange(self, lines: list[LogLine]) -> list[LogLine]:
        return self._attempts.arrange(lines)

    @override
    def polled(self, *, quiet: bool) -> None:
        now = self._cloudwatch.clock.monotonic()
        if self._attempts.looked(now, self._behind, self._cloudwatch.in_vain) and self._behind:
            self._cloudwatch.hurry()  # Read the next attempt to its end too.
        if missing := list(self._attempts.missing()):
            self._cloudwatch.hasten(missing)
        if absent := self._attempts.given_up(now):
            self._cloudwatch.last_look(absent)
        super().polled(quiet=quiet)

    @override
    async def aclose(self) -> None:
        self._closed(self._query.app_id, self)
        await super().aclose()
        self._cloudwatch.forget(self._keys)
        self._keys.clear()

    def _wants(self, replica: tuple[str, int], place: LogStreamRef) -> bool:
        attempts = self._query.attempts
        new = replica in self._replicas and place.stream not in self._streams
        return new and (attempts is None or place.attempt in attempts)

    def _key(self, replica: tuple[str, int], place: LogStreamRef) -> str:
        origin = LogOrigin(
            app_id=self._query.app_id,
            role=replica[0],
            replica=replica[1],
            attempt=place.attempt,
            container=place.container,
        )
        has_arrived = self._settled or (self._ended_ago(place) or 0.0) > ARRIVED
        if has_arrived:
            self._cloudwatch.end(place.stream)
        key = self._cloudwatch.know(place.stream, origin, since_ns=self._since, created_ns=self._created)
        now, is_over = self._cloudwatch.clock.monotonic(), has_arrived or self._at_once
        self._attempts.add(replica, place.attempt, key, now, is_over=is_over)
        return key

    def _ended_ago(self, place: LogStreamRef) -> float | None:
        """Return the seconds since an attempt ended; None if it is not known to have ended."""
        if place.stopped_ms is None:
            return None
        return max(0.0, self._cloudwatch.clock.time_ns() / 1e9 - place.stopped_ms / 1e3)
