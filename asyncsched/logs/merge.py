"""Merge many sources into one bounded stream of lines."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from asyncsched._streams import Waiter
from asyncsched.errors import LogStreamError, ReplicaFailure
from asyncsched.logs.line import LogLine, any_gaps, utc
from asyncsched.logs.query import LogQuery, in_range, is_ranged, matching
from asyncsched.logs.source import LogSource

__all__ = ["Merge"]

_log = logging.getLogger("asyncsched.logs")

FRESH_IN_A_ROW = 16
"""Quiet sources to read in a row before one with a backlog gets its turn."""


class _Cursor:
    """The merge's state of one source."""

    __slots__ = ("app_id", "last_ns", "over", "queued", "source", "tails", "woken")

    def __init__(self, source: LogSource, app_id: str) -> None:
        self.source = source
        self.app_id = app_id
        self.queued = False  # waits for its turn, or is being read
        self.woken = False  # it called `wake` while it was queued
        self.last_ns: int | None = None
        # The last lines of each replica, while the source reads its past and only `tail_lines` are wanted.
        self.tails: dict[tuple[str, int], deque[LogLine]] | None = None
        self.over = False


class Merge:
    """Reads ready sources in turns, quiet ones first, with a bounded number of lines per turn.

    It has no task and holds no lines after a turn, except `tail_lines` of each replica while its past is read. Lines
    that nobody reads stay in the sources, which then stop taking more. The cost of a turn does not depend on the number
    of sources.
    """

    def __init__(self, query: LogQuery) -> None:
        self._query = query
        self._ranged = is_ranged(query)
        self._fresh: deque[_Cursor] = deque()
        self._backlog: deque[_Cursor] = deque()
        self._streak = 0
        self._released: deque[LogLine] = deque()  # the `tail_lines` of a past, to be returned next
        self._waiter = Waiter()
        self.notify = self._waiter.wake  # called when something is ready, or everything has ended
        self._sources: dict[LogSource, str] = {}  # sources that have not ended, with their apps
        self.found: set[str] = set()  # apps whose sources were all added
        self.opened = 0
        self.live = 0
        self.lines = 0
        self.gaps = 0
        self.failures: list[ReplicaFailure] = []
        self.on_end: Callable[[LogSource], None] = lambda _: None  # called with each source that has ended

    def add(self, source: LogSource, app_id: str) -> None:
        """Read this source of an app too, until it ends."""
        cursor = _Cursor(source, app_id)
        if self._query.tail_lines is not None:
            cursor.tails = {}
        self._sources[source] = app_id
        self.opened += 1
        self.live += 1
        try:
            source.start(partial(self._ready, cursor))
        except Exception as error:  # noqa: BLE001 - an error in one backend's source must not end the others
            self._fail(cursor, error)
        else:
            self._ready(cursor)

    def _ready(self, cursor: _Cursor) -> None:
        if cursor.queued:
            cursor.woken = True
        elif not cursor.over:
            cursor.queued = True
            self._fresh.append(cursor)
            self.notify()

    def wait(self) -> Awaitable[None]:
        """Return a wait until something may be ready, to be awaited at once; cancelling it loses nothing."""
        return self._waiter.wait()

    def turn(self, limit: int) -> Sequence[LogLine]:
        """Return at most `limit` lines of the next source.

        The result is empty when no source is ready, or when no line that was read is wanted; see `ready`.
        """
        lines: Sequence[LogLine] = ()
        if self._released:
            lines = [self._released.popleft() for _ in range(min(limit, len(self._released)))]
        elif (cursor := self._next()) is not None:
            lines = self._read(cursor, limit)
        self.lines += len(lines)
        return lines

    @property
    def ready(self) -> bool:
        """Whether a source waits for its turn."""
        return bool(self._fresh or self._backlog or self._released)

    def _next(self) -> _Cursor | None:
        if self._fresh and not (self._backlog and self._streak >= FRESH_IN_A_ROW):
            self._streak += 1
            cursor = self._fresh.popleft()
        elif self._backlog:
            self._streak = 0
            cursor = self._backlog.popleft()
        else:
            return None
        return cursor

    def _read(self, cursor: _Cursor, limit: int) -> Sequence[LogLine]:
        source = cursor.source
        cursor.woken = False  # the read below handles this wake-up
        try:
            lines = source.read(limit)
            more = len(lines) >= limit
            ended = not more and source.ended
            past = source.backlog
        except Exception as error:  # noqa: BLE001 - as in `add`
            self._release_tails(cursor)
            self._fail(cursor, error)
            return ()
        if lines:
            cursor.last_ns = lines[-1].ns
        if self._ranged:
            lines = in_range(lines, self._query)
        hole: LogStreamError | None = None
        if any_gaps():  # checking each line would cost as much as returning it
            lines, hole = self._without_holes(lines)
        if cursor.tails is not None:
            _remember(cursor.tails, lines, self._query.tail_lines)
            lines = () if past and not ended and hole is None else self._release_tails(cursor)
        if hole is not None:
            self._fail(cursor, hole)
        elif ended:
            self._end(cursor)
        elif more:
            self._backlog.append(cursor)
        elif cursor.woken:
            self._fresh.append(cursor)
        else:
            cursor.queued = False
        return lines if self._query.regex is None else matching(lines, self._query)

    def _without_holes(self, lines: Sequence[LogLine]) -> tuple[Sequence[LogLine], LogStreamError | None]:
        """Count and log the gaps in `lines`; if they are raised, return the lines before the first, and the error."""
        for position, line in enumerate(lines):
            if line.gap is None:
                continue
            self.gaps += 1
            where = f"{line.source.app_id}: {line.source.role}/{line.source.replica}"
            _log.warning("lines are missing in the log of %s: %s", where, line.gap.reason)
            if self._query.gaps == "raise":
                error = LogStreamError(f"lines are missing in the log of {where}", why=line.gap.reason)
                return lines[:position], error
        return lines, None

    def _release_tails(self, cursor: _Cursor) -> Sequence[LogLine]:
        tails, cursor.tails = cursor.tails, None
        for tail in (tails or {}).values():
            self._released += matching(tail, self._query)
        return ()

    def _end(self, cursor: _Cursor) -> None:
        cursor.over, cursor.queued = True, False  # a late wake-up then does nothing
        self.live -= 1
        del self._sources[cursor.source]
        self.on_end(cursor.source)

    def _fail(self, cursor: _Cursor, error: BaseException) -> None:
        source = cursor.source
        self.failures.append(
            ReplicaFailure(
                app_id=cursor.app_id,
                role=source.role,
                replica=source.replica,
                last_timestamp=None if cursor.last_ns is None else utc(cursor.last_ns),
                cause=error,
            )
        )
        _log.warning("the log of %s/%s broke off: %s", source.role, source.replica, error)
        self._end(cursor)

    @property
    def sources(self) -> Sequence[LogSource]:
        """The sources that have not ended."""
        return list(self._sources)

    def sources_of(self, app_id: str) -> Sequence[LogSource]:
        """Return the sources of one app that have not ended."""
        return [source for source, of in self._sources.items() if of == app_id]

    def is_over(self, app_id: str) -> bool:
        """Return whether all lines of an app were returned."""
        return app_id in self.found and not self._released and app_id not in self._sources.values()


def _remember(tails: dict[tuple[str, int], deque[LogLine]], lines: Sequence[LogLine], count: int | None) -> None:
    for line in lines:
        key = (line.source.role, line.source.replica)
        if key not in tails:
            tails[key] = deque(maxlen=count)
        tails[key].append(line)
