"""A place among a log's records: where reading begins, how it gets from segment to segment, and where it stops."""

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
"""Records that are held at a time."""

DROPPED = "the oldest output was dropped, to keep the log within max_log_bytes"
REMOVED = "the log was removed before its end was read"


class CursorState(enum.Enum):
    """What a cursor has come to."""

    RECORD = "a record"
    MOVED = "another place: look again"
    WAITS = "nothing more for now"
    END = "where reading is to stop"


class LogCursor:
    """Goes through a log's records in their order.

    Args:
        files: The log.
        kinds: The streams that are wanted.
        query: Where to begin and where to stop.
        watch: Watches a descriptor; what happens there is to be followed by a call of `look`.

    Attributes:
        block: Records that have been read, in bytes.
        at: Where in them the next one stands.
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
        self._entered = False  # that segment's index has been found, and is watched
        self._start = 0  # where in it the block begins
        self.block = b""
        self.at = 0
        self._finishing = not query.tail
        self._stop: Position | None = None
        self._past: Position | None = None
        self._missing = ""  # why what lies before the next record cannot be read
        self._hole: tuple[str, int | None] | None = None

    @property
    def begun(self) -> bool:
        """Whether there is a log."""
        return self._segment >= 0

    @property
    def in_past(self) -> bool:
        """Whether what had been written when it began has not been read yet; kept for `tail_lines` only."""
        return self._past is not None

    @property
    def may_wait(self) -> bool:
        """Whether what is not there may yet come."""
        return not self._finishing

    def finish(self) -> None:
        """Stop where the log ends by now."""
        self._finishing = True

    def close(self) -> None:
        """Let go of every descriptor and of the watch; idempotent."""
        self.block = b""
        self._files.release()
        self._watch_instead(None)

    def look(self) -> CursorState:
        """Find out what stands here, after `take_hole` has been asked; FileNotFoundError as for `come_back`."""
        if self._finishing and self._stop is None and not self._find_stop():
            return CursorState.END
        if self._stop is not None and self._position >= self._stop:
            return self._stop_here(self._stop)
        if not self._entered:
            return self._enter()
        if self._past is not None and self._position >= self._past:
            self._past = None
            return CursorState.WAITS
        if self.at < len(self.block) or self._load():
            return CursorState.RECORD
        return CursorState.WAITS if self.may_wait else self._pass_cut_index()

    def take_hole(self) -> tuple[str, int | None] | None:
        """Return why what stood before this place is missing, and the time behind the hole; None if nothing is."""
        hole, self._hole = self._hole, None
        return hole

    def come_back(self) -> None:
        """Look for this segment anew, by its name: a file of it was not found.

        What is open of it does not count any more. It would be found again and again, and the file never.
        """
        self._files.release()
        self._go_to(self._position)

    def pass_records(self, count: int) -> None:
        """Go behind the next records."""
        self.at += count * RECORD.size

    def has_more(self) -> bool:
        """Return whether a record has been written behind the next one."""
        return bool(self._files.records(self._start + self.at + RECORD.size, 1))

    def output(self, kind: int, size: int, offset: int) -> bytes:
        """Return output of this segment, none if only its file is missing."""
        try:
            return self._files.output(kind, size, offset)
        except FileNotFoundError:
            if self._files.index_stands():
                return b""
            raise

    def go_to_next_segment(self) -> None:
        """Go on where this segment says that the log goes on."""
        self._go_to(Position(self._segment + 1, 0))

    def pass_segment(self) -> bool:
        """Leave out the rest of this segment; returns False if it is the last one."""
        later = self._segments_from(self._segment + 1)
        if later:
            self._go_to(Position(later[0], 0))
        return bool(later)

    @property
    def _position(self) -> Position:
        return Position(self._segment, self._start + self.at)

    def _find_stop(self) -> bool:
        """Note where the log ends at present; tell whether there has ever been one."""
        self._stop = self._files.end()
        if self._stop is None and self._entered:
            self._stop = Position(self._segment, self._files.size())  # removed, but still open
        return self._stop is not None or self.begun

    def _stop_here(self, stop: Position) -> CursorState:
        """End; with a hole if the log was to go on in a segment that is not there."""
        is_cut = self._segment > stop.segment and not self._segments_from(self._segment)
        return self._end_with_hole() if is_cut else CursorState.END

    def _pass_cut_index(self) -> CursorState:
        """Go on behind an index that has no last record: its supervisor was killed before it could write one."""
        if self._stop is None or self._stop.segment == self._segment:
            return self._end_with_hole()  # where it is to stop was found in another log, or in a longer one
        self.go_to_next_segment()
        return CursorState.MOVED

    def _enter(self) -> CursorState:
        """Open the segment that is to be read, and watch it."""
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
        # Where lines are to begin before some time, the last ones are not those at the end.
        if query.tail_lines is not None and query.until_ns is None:
            last = find_last(self._files, self._kinds, query.tail_lines)
            place = place if last is None else max(place, last)
        return place

    def _go_on_behind(self) -> CursorState:
        """Go on in the first segment that is left, or wait for the one that is to come."""
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
        """Have the directory watched, and look again."""
        try:
            self._watch_instead(self._files.watch_directory(self._watch_file))
        except FileNotFoundError:
            return []
        return self._segments_from(first)

    def _watch_instead(self, watch: FileWatch | None) -> None:
        before, self._watch = self._watch, watch
        if before is not None:  # after the new one: the follower keeps what it has open
            before.close()

    def _go_to(self, position: Position) -> None:
        self._segment, self._start = position
        self.at = 0
        self.block = b""
        self._entered = False

    def _load(self) -> bool:
        """Read the next records, no further than to where reading is to stop; tell whether there are any."""
        self._start += self.at
        self.at = 0
        count = RECORDS
        for bound in (self._past, self._stop):
            if bound is not None and bound.segment == self._segment:
                count = min(count, (bound.offset - self._start) // RECORD.size)
        self.block = self._files.records(self._start, count) if count > 0 else b""
        if not self.block and count > 0 and self._files.size() < self._start:
            raise LogStreamError("the index of the log has become shorter", why="somebody has written to the file")
        return bool(self.block)
