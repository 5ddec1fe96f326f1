"""Read a replica's log from the files that its supervisor writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from asyncsched._platform import WANTS
from asyncsched._typing import override
from asyncsched.clock import Clock, TimerHandle
from asyncsched.errors import LogStreamError
from asyncsched.logs.inotify import follower_of
from asyncsched.logs.line import LogLine, LogOrigin
from asyncsched.logs.open_files import open_directory
from asyncsched.logs.source import LogSource
from asyncsched.schedulers.local.logs_cursor import LogCursor
from asyncsched.schedulers.local.logs_files import LogFiles, OpenDirectory
from asyncsched.schedulers.local.logs_lines import StreamText
from asyncsched.schedulers.local.logs_reader import LogReader
from asyncsched.schedulers.local.supervisor.formats import COMBINED, STDERR, STDOUT
from asyncsched.specs.stream import Stream

if TYPE_CHECKING:
    from asyncsched.logs.inotify import Follower
    from asyncsched.logs.query import LogQuery
    from asyncsched.schedulers.local.status_record import AppRecord, ReplicaRecord
    from asyncsched.specs.state import ReplicaStatus

__all__ = ["LocalReplicaLog", "log_sources"]

STREAMS = {STDOUT: Stream.STDOUT, STDERR: Stream.STDERR, COMBINED: Stream.COMBINED}

MOST = 128 * 1024
"""Bytes after which a `read` ends, so that it takes a millisecond or two, even if few lines are wanted."""

PROGRESS_AFTER = 0.1


class LocalReplicaLog(LogSource):
    """Reads one replica's log: both streams, in the order in which the supervisor read them.

    It ends with the log's last record, or at the present end when `finish` is called, because a killed supervisor
    writes no last record. While it is quiet and others are busy, it holds no descriptors.

    Args:
        origin: The origin of the log; each line's origin also has its stream.
        open_index: Opens the directory of the index, and returns a descriptor that the caller closes;
            FileNotFoundError before the replica has started. It is called on the loop: see
            `asyncsched.logs.open_files.open_directory`.
        open_logs: Opens the directory of the output in the same way; None if that is the same.
        query: The wanted lines; the engine selects them exactly.
        follower: Watches the files.
        clock: The time source for pauses.
    """

    def __init__(
        self,
        origin: LogOrigin,
        *,
        open_index: OpenDirectory,
        open_logs: OpenDirectory | None,
        query: LogQuery,
        follower: Follower,
        clock: Clock | None = None,
    ) -> None:
        self.role = origin.role
        self.replica = origin.replica
        self._clock = clock if clock is not None else Clock()
        self._wake: Callable[[], None] = lambda: None
        self._timer: TimerHandle | None = None
        self._failure: LogStreamError | None = None
        texts = {
            kind: StreamText(origin._replace(stream=stream))
            for kind, stream in STREAMS.items()
            if query.streams in (stream, Stream.COMBINED)
        }
        files = LogFiles(open_index, open_logs, follower.open_files)
        self._cursor = LogCursor(files, texts, query, watch=lambda fd: follower.watch(fd, self._changed))
        self._reader = LogReader(origin, self._cursor, texts, until_ns=query.until_ns)

    @override
    def start(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    @override
    def read(self, limit: int) -> Sequence[LogLine]:
        if self._failure is not None:
            raise self._failure
        lines: list[LogLine] = []
        try:
            self._read_into(lines, limit)
        except (OSError, LogStreamError) as error:
            self._failure = LogStreamError(
                f"the log of {self.role}/{self.replica} cannot be read",
                why=str(error),
                retryable=isinstance(error, OSError) and error.errno in WANTS,
            )
            self._failure.__cause__ = error
            if not lines:
                raise self._failure from error
            self._wake()  # to be read once more, which raises it
        return lines

    def _read_into(self, lines: list[LogLine], limit: int) -> None:
        reader, cursor, ready = self._reader, self._cursor, self._reader.ready
        cost = 0
        while True:
            while ready:
                lines += ready[0].take(limit - len(lines))
                if not ready[0].empty:
                    return
                ready.popleft()
            if len(lines) >= limit:
                return
            past = cursor.in_past
            step = reader.advance()
            cost += step
            if (past and not cursor.in_past) or cost > MOST:
                self._wake()  # lines of the past are returned separately from later ones, and there may be more
                return
            if not step:
                break
        if cost:
            self._watch_progress()

    @property
    @override
    def ended(self) -> bool:
        return self._reader.over and not self._reader.ready and self._failure is None

    @property
    @override
    def backlog(self) -> bool:
        return self._cursor.in_past

    @override
    def observe(self, status: ReplicaStatus) -> None:
        if not self._cursor.begun:
            self._wake()

    @override
    def finish(self) -> None:
        self._cursor.finish()
        self._wake()

    @override
    async def aclose(self) -> None:
        self._reader.close()
        self._wake = lambda: None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _changed(self) -> None:
        self._cursor.noticed()
        self._wake()

    def _watch_progress(self) -> None:
        # Counted from the first byte, not the last, so that a bar that moves ten times a second is shown too.
        if self._timer is None and self._reader.holds:
            self._timer = self._clock.call_later(PROGRESS_AFTER, self._hand_on_progress)

    def _hand_on_progress(self) -> None:
        self._timer = None
        self._reader.progress()
        if self._reader.ready:
            self._wake()


def log_sources(
    record: AppRecord, directory: str, wanted: Collection[tuple[str, int]], query: LogQuery, clock: Clock
) -> list[LocalReplicaLog]:
    """Return the log sources of these replicas of an app.

    Args:
        record: The app.
        directory: The directory of its state.
        wanted: The replicas, by role and number.
        query: The wanted lines.
        clock: The time source for pauses.
    """
    if record.merge_streams and query.streams is not Stream.COMBINED:
        raise ValueError(f"{record.app_id} was submitted with merge_streams: its streams cannot be separated")
    found = [replica for replica in record.replicas if (replica.role, replica.k) in wanted]
    return [_log_source(record.app_id, directory, replica, query, clock) for replica in found]


def _log_source(app_id: str, directory: str, replica: ReplicaRecord, query: LogQuery, clock: Clock) -> LocalReplicaLog:
    return LocalReplicaLog(
        LogOrigin(app_id=app_id, role=replica.role, replica=replica.k),
        open_index=partial(open_directory, directory, replica.directory),
        open_logs=partial(open_directory, replica.logs) if replica.logs else None,
        query=query,
        follower=follower_of(asyncio.get_running_loop()),
        clock=clock,
    )
