"""Read a replica's log: the files of each attempt, one attempt after the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from asyncsched._typing import override
from asyncsched.clock import Clock
from asyncsched.logs.files import FileSource
from asyncsched.logs.line import LogLine, LogOrigin
from asyncsched.logs.query import LogQuery
from asyncsched.logs.source import LogSource
from asyncsched.schedulers.slurm import names
from asyncsched.schedulers.slurm.lookup import StoredApp
from asyncsched.specs.state import ReplicaStatus
from asyncsched.specs.stream import Stream

__all__ = ["SlurmReplicaLog", "log_sources"]

STREAMS = {Stream.STDOUT: "out", Stream.STDERR: "err"}

_STAMP = re.compile(r"(\d{1,11})[.,](\d{6}) ", re.ASCII)


class SlurmReplicaLog(LogSource):
    """Reads a replica's attempts in order: the streams of each at once, and the next attempt when they have ended.

    Args:
        directory: The app's directory.
        stem: The prefix of the replica's file names.
        origin: The origin of the lines.
        query: The selection of lines.
        stamped: Whether each line has its time.
        clock: Used for pauses.
    """

    def __init__(
        self, directory: str, stem: str, origin: LogOrigin, query: LogQuery, *, stamped: bool, clock: Clock
    ) -> None:
        self.role = origin.role
        self.replica = origin.replica
        self._directory = directory
        self._stem = stem
        self._origin = origin
        self._query = query
        self._stamped = stamped
        self._clock = clock
        self._follow = query.tail
        self._attempt = 0
        self._last = 0
        self._past = 0
        self._sources: list[FileSource] = []
        self._wake: Callable[[], None] = lambda: None

    @override
    def start(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._past = self._last
        self._open()

    @override
    def read(self, limit: int) -> Sequence[LogLine]:
        lines: list[LogLine] = []
        # Lines from before the start are not mixed with later ones: `tail_lines` cuts the former.
        past = [each for each in self._sources if each.backlog]
        for source in past or self._sources:
            lines += source.read(limit - len(lines))
            if len(lines) >= limit:
                return lines
        if past and not any(each.backlog for each in past):
            self._wake()  # to be read once more, since not all sources were
        elif self._attempt < self._last and all(source.ended for source in self._sources):
            self._attempt += 1
            self._open()  # may wake us at once, or read from now on
        return lines

    @property
    @override
    def ended(self) -> bool:
        return not self._follow and self._attempt >= self._last and all(source.ended for source in self._sources)

    @property
    @override
    def backlog(self) -> bool:
        return self._attempt < self._past or any(source.backlog for source in self._sources)

    @override
    def observe(self, status: ReplicaStatus) -> None:
        self._last = max(self._last, status.num_restarts or 0)
        for source in self._sources:
            source.observe(status)
            if self._attempt < self._last:
                source.finish()
        self._wake()

    @override
    def finish(self) -> None:
        self._follow = False
        for source in self._sources:
            source.finish()
        self._wake()

    @override
    async def aclose(self) -> None:
        self._wake = lambda: None
        for source in self._sources:
            await source.aclose()

    def _open(self) -> None:
        # The sources of the attempt before have been read to their ends.
        self._sources = [self._source(stream) for stream in STREAMS if self._query.streams in (stream, Stream.COMBINED)]
        for source in self._sources:
            source.start(self._wake)

    def _source(self, stream: Stream) -> FileSource:
        return FileSource(
            f"{self._directory}/{names.log_name(self._stem, self._attempt, STREAMS[stream])}",
            self._origin._replace(stream=stream, attempt=self._attempt),
            follow=self._follow and self._attempt >= self._last,
            tail_lines=self._query.tail_lines,
            stamp=_stamp if self._stamped else None,
            clock=self._clock,
        )


def _stamp(text: str) -> tuple[int | None, str]:
    """Return the time before a line, and the line."""
    found = _STAMP.match(text)
    if found is None:
        return None, text
    return int(found[1]) * 1_000_000_000 + int(found[2]) * 1000, text[found.end() :]


def log_sources(
    app: StoredApp, replicas: Sequence[ReplicaStatus], query: LogQuery, clock: Clock
) -> list[SlurmReplicaLog]:
    """Return the log sources of these replicas of an app.

    Args:
        app: The app.
        replicas: The replicas.
        query: The selection of lines.
        clock: Used for pauses.
    """
    record = app.record
    if not record.timestamps and (query.since_ns is not None or query.until_ns is not None):
        raise ValueError(
            f"since and until need the time of each line, and {record.app_id} was submitted without it: "
            "submit it with the run option timestamps"
        )
    wanted = {(replica.role, replica.id): replica for replica in replicas}
    sources: list[SlurmReplicaLog] = []
    for each in record.replicas:
        if (status := wanted.get((each.role, each.k))) is not None:
            origin = LogOrigin(app_id=record.app_id, role=each.role, replica=each.k)
            source = SlurmReplicaLog(app.directory, each.stem, origin, query, stamped=record.timestamps, clock=clock)
            source.observe(status)
            sources.append(source)
    return sources
