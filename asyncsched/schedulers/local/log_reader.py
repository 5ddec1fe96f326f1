"""From a log's records to lines: what is read next, where reading stops, and what is missing."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from asyncsched.errors import LogStreamError
from asyncsched.logs.line import LogGap, LogOrigin, gap_line, utc
from asyncsched.schedulers.local.log_files import LogFiles, Position
from asyncsched.schedulers.local.log_tail import find_last
from asyncsched.schedulers.local.log_text import Ready, StreamText, Texts, Told
from asyncsched.schedulers.local.supervisor.layout import END, LINE_START, RECORD, ROTATED

if TYPE_CHECKING:
    from asyncsched.logs.follow import Watch

__all__ = ["LogReader"]

SLICE = 32 * 1024
"""Bytes that are split at a time: what has been split waits as text, which takes more room."""

RECORDS = 256
"""Records of the index that are held at a time."""

STEP = 512
"""What a step costs beside the bytes that it reads, in bytes."""

DROPPED = "the oldest output was dropped, to keep the log within max_log_bytes"
LOST = "the output's file is shorter than its index says"
REMOVED = "the log was removed before its end was read"


class LogReader:
    """Reads the records of a log in their order, a bounded piece at a time.

    Args:
        origin: Who is said to tell of holes.
        files: The log.
        texts: The streams that are wanted, by kind of record.
        watch: Watches a descriptor; what happens is followed by a call of `advance`.
        since_ns: Where to begin; None for the beginning of the log.
        until_ns: Lines that begin from then on are not wanted.
        tail_lines: How many of the last lines of the past are wanted; None for all. There may come more.
        tail: Whether to go on until the log's last record, and not only to its present end.
    """

    def __init__(
        self,
        origin: LogOrigin,
        files: LogFiles,
        texts: Mapping[int, StreamText],
        *,
        watch: Callable[[int], Watch],
        since_ns: int | None,
        until_ns: int | None,
        tail_lines: int | None,
        tail: bool,
    ) -> None:
        self.ready: deque[Ready] = deque()
        self.over = False
        self._origin = origin
        self._files = files
        self._texts = texts
        self._watch_file = watch
        self._watch: Watch | None = None
        self._since_ns = since_ns
        self._until_ns = until_ns
        self._tail_lines = tail_lines
        self._finishing = not tail
        # The next record stands in this segment, `_at` bytes into the block that begins at `_start`.
        self._segment = -1
        self._entered = False
        self._start = self._at = 0
        self._block = b""
        self._within = 0  # bytes of its chunk that have been read
        self._stop: Position | None = None
        self._past: Position | None = None
        self._last_ns: int | None = None
        self._hole = ""  # in front of the next record
        self._told = False  # the last thing that was told is a hole

    @property
    def begun(self) -> bool:
        """Whether there is a log."""
        return self._segment >= 0

    @property
    def in_past(self) -> bool:
        """Whether what had been written when it was begun has not been read yet; kept for `tail_lines` only."""
        return self._past is not None

    @property
    def holds(self) -> bool:
        """Whether a line has begun and not ended."""
        return any(text.held for text in self._texts.values())

    def finish(self) -> None:
        """Read what is there by now, and end."""
        self._finishing = True

    def progress(self) -> None:
        """Hand on unfinished lines that are progress output."""
        self._add(*(text.progress() for text in self._texts.values()))

    def close(self) -> None:
        """Let go of every descriptor and of the watch; idempotent."""
        self.over = True
        self._block = b""
        self._files.release()
        self._watch_instead(None)

    def advance(self) -> int:
        """Read a bit further; return what it cost, in bytes, and 0 if nothing more can be read for now."""
        if self.over:
            return 0
        try:
            return self._advance()
        except FileNotFoundError:  # while its files were closed for a while, this segment was removed
            self._entered = False
            return STEP

    def _advance(self) -> int:
        if self._finishing and self._stop is None and not self._find_stop():
            self._end()
            return STEP
        if self._stop is not None and self._position >= self._stop:
            self._end()
            return STEP
        if not self._entered:
            return STEP if self._enter() else 0
        if self._past is not None and self._position >= self._past:
            self._past = None
            return 0
        if self._at >= len(self._block) and not self._load():
            return 0
        return self._read_record()

    # Where to read.

    @property
    def _position(self) -> Position:
        return Position(self._segment, self._start + self._at)

    def _find_stop(self) -> bool:
        """Note where the log ends at present; tell whether there has ever been one."""
        self._stop = self._files.end()
        if self._stop is None and self._entered:
            self._stop = Position(self._segment, self._files.size())  # removed, but still open
        return self._stop is not None or self.begun

    def _enter(self) -> bool:
        """Open the segment that is to be read, and watch it; tell whether there is more to do by now."""
        if not self.begun and not self._begin():
            return False
        self._files.go_to(self._segment)
        try:
            self._files.size() if self._finishing else self._watch_instead(self._files.watch(self._watch_file))
        except FileNotFoundError:
            return self._go_on_behind()
        self._entered = True
        if self._hole:
            self._tell_gap(self._hole, self._files.time(0))
            self._hole = ""
        return True

    def _begin(self) -> bool:
        segments = self._files.segments() or self._watch_for_segments(0)
        if not segments:
            return False
        place = self._find_beginning(Position(segments[0], 0))
        if self._tail_lines is not None:
            self._past = self._files.end()
        if segments[0] and place == (segments[0], 0):
            self._hole = DROPPED
        self._segment, self._start = place
        return True

    def _find_beginning(self, place: Position) -> Position:
        if self._since_ns is not None:
            place = self._files.find(self._since_ns)
        # Where lines are to end before some time, the last ones are not those at the end.
        if self._tail_lines is not None and self._until_ns is None:
            last = find_last(self._files, self._texts, self._tail_lines)
            place = place if last is None else max(place, last)
        return place

    def _go_on_behind(self) -> bool:
        """Go on in the first segment that is left, or wait for the one that is to come."""
        wanted = self._segment
        there = [segment for segment in self._files.segments() if segment >= wanted]
        there = there or self._watch_for_segments(wanted)
        if not there and not self._files.segments():
            self._tell_gap(REMOVED, None)
            self.over = True
            return True
        if there and there[0] > wanted:
            self._hole = DROPPED
            self._leave(Position(there[0], 0))
        return bool(there)

    def _watch_for_segments(self, wanted: int) -> list[int]:
        """Have the directory watched, and look again."""
        try:
            self._watch_instead(self._files.watch_directory(self._watch_file))
        except FileNotFoundError:
            return []
        return [segment for segment in self._files.segments() if segment >= wanted]

    def _watch_instead(self, watch: Watch | None) -> None:
        before, self._watch = self._watch, watch
        if before is not None:  # after the new one: the follower keeps what it has open
            before.close()

    def _leave(self, position: Position) -> None:
        self._segment, self._start = position
        self._at = self._within = 0
        self._block = b""
        self._entered = False

    def _load(self) -> bool:
        """Read the next records, no further than to where reading is to stop; tell whether there are any."""
        self._start += self._at
        self._at = 0
        count = RECORDS
        for bound in (self._past, self._stop):
            if bound is not None and bound.segment == self._segment:
                count = min(count, (bound.offset - self._start) // RECORD.size)
        self._block = self._files.records(self._start, count) if count > 0 else b""
        if not self._block and count > 0 and self._files.size() < self._start:
            raise LogStreamError("the index of the log has become shorter", why="somebody has written to the file")
        return bool(self._block)

    # What is read.

    def _read_record(self) -> int:
        ns, offset, length, kind, flags, _ = RECORD.unpack_from(self._block, self._at)
        if kind == END:
            self._end()
        elif kind == ROTATED:
            self._leave(Position(self._segment + 1, 0))
        elif self._until_ns is not None and ns >= self._until_ns:
            return self._read_rest(kind, offset, length)
        elif (text := self._texts.get(kind)) is not None and length > self._within:
            return self._read_run(text, kind, offset, flags)
        else:
            self._pass(1)
        return RECORD.size

    def _read_run(self, text: StreamText, kind: int, offset: int, flags: int) -> int:
        """Read chunks that lie side by side at once."""
        chunks, whole = self._run(kind, offset)
        total = sum(length for _, length in chunks)
        at_line_start = bool(flags & LINE_START) and not self._within
        data = self._output(kind, total, offset + self._within)
        if len(data) < total:
            return self._read_short(text, chunks[0], data, at_line_start=at_line_start)
        self._add(text.feed(data, chunks, at_line_start=at_line_start))
        if whole:
            self._pass(len(chunks))
        else:
            self._within += total
        self._last_ns = chunks[-1][0]
        return total + STEP

    def _run(self, kind: int, offset: int) -> tuple[list[tuple[int, int]], bool]:
        """Return time and length of the next chunks of a stream, and whether the last one ends there."""
        block, until = self._block, self._until_ns
        ns, _, length, *_ = RECORD.unpack_from(block, self._at)
        length -= self._within
        if length > SLICE:
            return [(ns, SLICE)], False
        chunks = [(ns, length)]
        end = offset + self._within + length
        room = SLICE - length
        for at in range(self._at + RECORD.size, len(block), RECORD.size):
            ns, offset, length, other, _, _ = RECORD.unpack_from(block, at)
            if other != kind or offset != end or not 0 < length <= room or (until is not None and ns >= until):
                break
            chunks.append((ns, length))
            end += length
            room -= length
        return chunks, True

    def _read_short(self, text: StreamText, chunk: tuple[int, int], data: bytes, *, at_line_start: bool) -> int:
        """Read a chunk of which not all is there: wait for the rest, unless there cannot be one."""
        ns, length = chunk
        data = data[:length]
        behind = self._start + self._at + RECORD.size
        if len(data) < length and self._stop is None and not self._files.records(behind, 1):
            return 0
        if data:
            self._add(text.feed(data, [(ns, len(data))], at_line_start=at_line_start))
            self._within += len(data)
        self._last_ns = ns
        if len(data) < length:
            self._tell_gap(LOST, None)
            self._pass(1)
        return len(data) + STEP

    def _read_rest(self, kind: int, offset: int, length: int) -> int:
        """Read only what completes lines that were begun before `until`, then no more of this segment."""
        text = self._texts.get(kind)
        if text is not None and text.held and length > self._within:
            data = self._output(kind, min(length - self._within, SLICE), offset + self._within)
            cut = data.find(b"\n") + 1
            self._add(text.feed(data[:cut] if cut else data, [(0, cut or len(data))], at_line_start=False))
            self._within += len(data)
            if not data:
                self._within = length
        if text is None or not text.held or self._within >= length:
            self._pass(1)
        if not self.holds:
            self._leave_early()
        return STEP

    def _leave_early(self) -> None:
        """Go on in the next segment, in which times may be earlier again, or end."""
        later = [segment for segment in self._files.segments() if segment > self._segment]
        if later:
            for text in self._texts.values():
                text.skip()
            self._leave(Position(later[0], 0))
        else:
            self.over = True

    def _output(self, kind: int, size: int, offset: int) -> bytes:
        try:
            return self._files.output(kind, size, offset)
        except FileNotFoundError:
            if self._segment in self._files.segments():
                return b""
            raise

    def _pass(self, records: int) -> None:
        self._at += records * RECORD.size
        self._within = 0

    # What is told.

    def _add(self, *ready: Texts | None) -> None:
        for texts in ready:
            if texts is not None:
                self.ready.append(texts)
                self._told = False

    def _tell_gap(self, reason: str, before: int | None) -> None:
        """Tell of a hole, once; lines that it cuts off are told up to there."""
        for text in self._texts.values():
            self._add(text.flush())
            text.skip()
        if not self._told:
            after = self._last_ns
            gap = LogGap(
                after=None if after is None else utc(after),
                before=None if before is None else utc(before),
                reason=reason,
            )
            self.ready.append(Told(gap_line(gap, self._origin, after)))
            self._told = True

    def _end(self) -> None:
        self._add(*(text.flush() for text in self._texts.values()))
        self.over = True
