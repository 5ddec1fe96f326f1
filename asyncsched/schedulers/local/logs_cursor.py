"""A cursor over a log's records: where reading begins, how it moves between segments, and where it stops."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from asyncsched.errors import LogStreamError
from asyncsched.schedulers.local.logs_files import LogFiles, Position
from asyncsched.schedulers.local.logs_last import find_last
from asyncsched.schedulers.local.supervisor.formats import RECORD

if TYPE_CHECKING:
    from asyncsched.logs.inotify import FileWatch
    from asyncsched.logs.query import LogQuery

__all__ = ["CursorState", "LogCursor"]

RECORDS = 256
"""Records to hold at a time."""

DROPPED = "the oldest output was dropped, to keep the log within max_log_bytes"
REMOVED = "the log was removed before its end was read"


class CursorState(enum.Enum):
    """The state of a cursor."""

    RECORD = "a record"
    MOVED = "another place: look again"
    WAITS = "nothing more for now"
    END = "where reading is to stop"


class LogCursor:
    """Moves through a log's records in order.

    Args:
        files: The log.
        kinds: The wanted streams.
        query: Where to begin and where to stop.
        watch: Watches a descriptor; call `noticed` at each notice, then `look`.

    Attributes:
        block: Records that were read, in bytes.
        at: The offset of the next one in them.
    """

    def __init__(
        self, files: LogFiles, kinds: Collection[int], query: LogQuery, *, watch: Callable[[int], FileWatch]
    ) -> None:
        self._files = files
        self._kinds = kinds
        self._query = query
        self._watch_file = watch
        self._watch: FileWatch | None = None
        self._segment = -1
        self._entered = False  # the segment's index was found, and is watched
        self._start = 0  # the offset of the block in the index
        self.block = b""
        self.at = 0
        self._drained = False  # the block reached the end of the index, and no notice has come since
        self._finishing = not query.tail
        self._stop: Position | None = None
        self._past: Position | None = None
        self._missing = ""  # why records before the next one cannot be read
        self._hole: tuple[str, int | None] | None = None

    @property
    def begun(self) -> bool:
        """Whether the log exists."""
        return self._segment >= 0

    @property
    def in_past(self) -> bool:
        """Whether it is still reading what existed when it began; known only with `tail_lines`."""
        return self._past is not None

    @property
    def may_wait(self) -> bool:
        """Whether missing records may still be written."""
        return not self._finishing

    def noticed(self) -> None:
        """Take note that a watched file has changed."""
        self._drained = False

    def finish(self) -> None:
        """Stop at the present end of the log."""
        self._finishing = True

    def close(self) -> None:
        """Close every descriptor and the watch; idempotent."""
        self.block = b""
        self._files.release()
        self._watch_instead(None)

    def look(self) -> CursorState:
        """Find the state at this place; call `take_hole` first. FileNotFoundError as for `come_back`."""
        if self._finishing and self._stop is None and not self._find_stop():
            return CursorState.END
        if self._stop is not None and self._position >= self._stop:
            return self._stop_here(self._stop)
        if not self._entered:
            return self._enter()
        if self._past is not None and self._position >= self._past:
            self._past = None
            return CursorState.WAITS
        if self.at < len(self.block):
            return CursorState.RECORD
        if self._drained and self.may_wait:  # a notice will follow whatever is written from now on
            return CursorState.WAITS
        if self._load():
            return CursorState.RECORD
        return CursorState.WAITS if self.may_wait else self._pass_cut_index()

    def take_hole(self) -> tuple[str, int | None] | None:
        """Return why records before this place are missing, and the time after the hole; None if none are missing."""
        hole, self._hole = self._hole, None
        return hole

    def come_back(self) -> None:
        """Open this segment again by its name, because one of its files was not found.

        Its open files are closed; otherwise the missing file would never be found.
        """
        self._files.release()
        self._go_to(self._position)

    def pass_records(self, count: int) -> None:
        """Move past the next records."""
        self.at += count * RECORD.size

    def has_more(self) -> bool:
        """Return whether there is a record after the next one."""
        return bool(self._files.records(self._start + self.at + RECORD.size, 1))

    def output(self, kind: int, size: int, offset: int) -> bytes:
        """Return output of this segment; empty if only its file is missing."""
        try:
            return self._files.output(kind, size, offset)
        except FileNotFoundError:
            if self._files.index_stands():
                return b""
            raise

    def go_to_next_segment(self) -> None:
        """Move to the segment in which the log continues."""
        self._go_to(Position(self._segment + 1, 0))

    def pass_segment(self) -> bool:
        """Skip the rest of this segment; return False if it is the last one."""
        later = self._segments_from(self._segment + 1)
        if later:
            self._go_to(Position(later[0], 0))
        return bool(later)

    @property
    def _position(self) -> Position:
        return Position(self._segment, self._start + self.at)

    def _find_stop(self) -> bool:
        """Record the present end of the log; return whether the log has ever existed."""
        self._stop = self._files.end()
        if self._stop is None and self._entered:
            self._stop = Position(self._segment, self._files.size())  # removed, but still open
        return self._stop is not None or self.begun

    def _stop_here(self, stop: Position) -> CursorState:
        """End; with a hole if the log should continue in a segment that is missing."""
        is_cut = self._segment > stop.segment and not self._segments_from(self._segment)
        return self._end_with_hole() if is_cut else CursorState.END

    def _pass_cut_index(self) -> CursorState:
        """Continue after an index without a last record: its supervisor was killed before it wrote one."""
        if self._stop is None or self._stop.segment == self._segment:
            return self._end_with_hole()  # the end was found in another log, or in a longer one
        self.go_to_next_segment()
        return CursorState.MOVED

    def _enter(self) -> CursorState:
        """Open the next segment, and watch it."""
        if not self.begun and not self._begin():
            return CursorState.WAITS if self.may_wait else CursorState.END
        self._files.go_to(self._segment)
        try:
            if self._finishing:
                self._files.size()
            else:
                self._watch_instead(self._files.watch(self._watch_file))
        except FileNotFoundError:
            return self._go_on_behind()
        self._entered = True
        if self._missing:
            self._hole = (self._missing, self._files.time(0))
            self._missing = ""
        return CursorState.MOVED

    def _begin(self) -> bool:
        self._files.begin()
        segments = self._files.segments() or self._watch_for_segments(0)
        if not segments:
            return False
        oldest = Position(segments[0], 0)
        place = self._find_beginning(oldest)
        if self._query.tail_lines is not None:
            self._past = self._files.end()
        if segments[0] and place == oldest:
            self._missing = DROPPED
        self._go_to(place)
        return True

    def _find_beginning(self, place: Position) -> Position:
        query = self._query
        if query.since_ns is not None:
            place = self._files.find(query.since_ns)
        # With `until`, the last wanted lines are not those at the end.
        if query.tail_lines is not None and query.until_ns is None:
            last = find_last(self._files, self._kinds, query.tail_lines)
            place = place if last is None else max(place, last)
        return place

    def _go_on_behind(self) -> CursorState:
        """Continue in the first existing segment, or wait for the next one."""
        there = self._segments_from(self._segment) or self._watch_for_segments(self._segment)
        if there and there[0] > self._segment:
            self._missing = DROPPED
            self._go_to(Position(there[0], 0))
        if there:
            return CursorState.MOVED
        if self.may_wait and self._files.segments():
            return CursorState.WAITS
        return self._end_with_hole()

    def _end_with_hole(self) -> CursorState:
        self._hole = (REMOVED, None)
        return CursorState.END

    def _segments_from(self, first: int) -> list[int]:
        return [segment for segment in self._files.segments() if segment >= first]

    def _watch_for_segments(self, first: int) -> list[int]:
        """Watch the directory, and look again."""
        try:
            self._watch_instead(self._files.watch_directory(self._watch_file))
        except FileNotFoundError:
            return []
        return self._segments_from(first)

    def _watch_instead(self, watch: FileWatch | None) -> None:
        before, self._watch = self._watch, watch
        if before is not None:  # after the new watch, so that the follower stays open
            before.close()

    def _go_to(self, position: Position) -> None:
        self._segment, self._start = position
        self.at = 0
        self.block = b""
        self._drained = False
        self._entered = False

    def _load(self) -> bool:
        """Read the next records, up to the stop; return whether there are any."""
        self._start += self.at
        self.at = 0
        count = RECORDS
        for bound in (self._past, self._stop):
            if bound is not None and bound.segment == self._segment:
                count = min(count, (bound.offset - self._start) // RECORD.size)
        self.block = self._files.records(self._start, count) if count > 0 else b""
        self._drained = len(self.block) < count * RECORD.size
        if not self.block and count > 0 and self._files.size() < self._start:
            raise LogStreamError("the index of the log became shorter", why="another program changed the file")
        return bool(self.block)
