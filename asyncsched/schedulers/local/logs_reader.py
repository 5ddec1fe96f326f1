"""Turn a log's records into lines and gaps."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from asyncsched.logs.line import LogGap, LogOrigin, gap_line, utc
from asyncsched.schedulers.local.logs_cursor import CursorState, LogCursor
from asyncsched.schedulers.local.logs_lines import Ready, StreamText, Texts, Told
from asyncsched.schedulers.local.supervisor.formats import END, LINE_START, RECORD, ROTATED

__all__ = ["LogReader"]

SLICE = 64 * 1024
"""Bytes to split at a time, as many as the supervisor reads from a pipe; split into lines they need more memory."""

STEP, LOOK = 512, 128
"""The cost of a step in bytes, in addition to the bytes it reads; and of a step that only checks a record."""

LOST = "the output's file is gone, or shorter than its index says"


class LogReader:
    """Reads a log in bounded pieces.

    Args:
        origin: The origin of gap lines.
        cursor: The cursor over the log's records.
        texts: The wanted streams, by kind of record.
        until_ns: Lines that begin from then on are not wanted.

    Attributes:
        cursor: The same.
        ready: Lines to take.
        over: Whether no more lines will be added.
    """

    def __init__(
        self, origin: LogOrigin, cursor: LogCursor, texts: Mapping[int, StreamText], *, until_ns: int | None
    ) -> None:
        self.cursor = cursor
        self.ready: deque[Ready] = deque()
        self.over = False
        self._origin = origin
        self._texts = texts
        self._until_ns = until_ns
        self._within = 0  # bytes of the next record's chunk that were read
        self._last_ns: int | None = None
        self._told = False  # the last item is a gap

    @property
    def holds(self) -> bool:
        """Whether a line has begun but not ended."""
        return any(text.held for text in self._texts.values())

    def progress(self) -> None:
        """Add unfinished lines that are progress output to `ready`."""
        self._add(*(text.progress() for text in self._texts.values()))

    def close(self) -> None:
        """Close all files; idempotent."""
        self.over = True
        self.ready.clear()
        self.cursor.close()

    def advance(self) -> int:
        """Read a bounded piece; return its cost in bytes, 0 if nothing can be read for now."""
        if self.over:
            return 0
        try:
            return self._advance()
        except FileNotFoundError:
            self.cursor.come_back()
            return STEP

    def _advance(self) -> int:
        state = self.cursor.look()
        if (hole := self.cursor.take_hole()) is not None:
            self._within = 0
            self._tell_gap(*hole, keep=state is CursorState.END)
        if state is CursorState.RECORD:
            return self._read_record()
        if state is CursorState.END:
            self._end()
        return 0 if state is CursorState.WAITS else STEP

    def _read_record(self) -> int:
        ns, offset, length, kind, flags, _ = RECORD.unpack_from(self.cursor.block, self.cursor.at)
        if kind == END:
            self._end()
        elif kind == ROTATED:
            self.cursor.go_to_next_segment()
        elif self._until_ns is not None and ns >= self._until_ns:
            return self._read_rest(kind, offset, length)
        elif (text := self._texts.get(kind)) is not None and length > self._within:
            return self._read_run(text, kind, offset, flags)
        else:
            self._pass(1)
        return LOOK

    def _read_run(self, text: StreamText, kind: int, offset: int, flags: int) -> int:
        """Read adjacent chunks at once."""
        chunks, whole = self._run(kind, offset)
        total = sum(length for _, length in chunks)
        at_line_start = bool(flags & LINE_START) and not self._within
        data = self.cursor.output(kind, total, offset + self._within)
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
        """Return time and length of the next chunks of a stream, and whether the last one ends in this slice."""
        block, at, until = self.cursor.block, self.cursor.at, self._until_ns
        ns, _, length, *_ = RECORD.unpack_from(block, at)
        length -= self._within
        if length > SLICE:
            return [(ns, SLICE)], False
        chunks = [(ns, length)]
        end = offset + self._within + length
        room = SLICE - length
        for place in range(at + RECORD.size, len(block), RECORD.size):
            ns, offset, length, other, _, _ = RECORD.unpack_from(block, place)
            if other != kind or offset != end or not 0 < length <= room or (until is not None and ns >= until):
                break
            chunks.append((ns, length))
            end += length
            room -= length
        return chunks, True

    def _read_short(self, text: StreamText, chunk: tuple[int, int], data: bytes, *, at_line_start: bool) -> int:
        """Read a chunk that is incomplete: wait for the rest, unless it cannot come."""
        ns, length = chunk
        data = data[:length]
        if len(data) < length and self.cursor.may_wait and not self.cursor.has_more():
            return 0
        if data:
            self._add(text.feed(data, [(ns, len(data))], at_line_start=at_line_start))
            self._within += len(data)
        self._last_ns = ns
        if len(data) < length:
            self._tell_gap(LOST, None, keep=True)
            self._pass(1)
        return len(data) + STEP

    def _read_rest(self, kind: int, offset: int, length: int) -> int:
        """Read only the rest of lines that began before `until`, then skip the segment."""
        text = self._texts.get(kind)
        if text is not None and text.held and length > self._within:
            data = self.cursor.output(kind, min(length - self._within, SLICE), offset + self._within)
            cut = data.find(b"\n") + 1
            self._add(text.feed(data[:cut] if cut else data, [(0, cut or len(data))], at_line_start=False))
            self._within += len(data) or length
        if text is None or not text.held or self._within >= length:
            self._pass(1)
        if not self.holds:
            self._leave_early()
        return STEP

    def _leave_early(self) -> None:
        """Continue in the next segment, where times may be earlier again, or end."""
        for text in self._texts.values():
            text.skip()
        self._within = 0
        self.over = not self.cursor.pass_segment()

    def _pass(self, records: int) -> None:
        self.cursor.pass_records(records)
        self._within = 0

    def _add(self, *ready: Texts | None) -> None:
        for texts in ready:
            if texts is not None:
                self.ready.append(texts)
                self._told = False

    def _tell_gap(self, reason: str, before: int | None, *, keep: bool) -> None:
        """Add a gap, once; `keep` says whether the beginnings of lines before it are returned or belong to the gap."""
        for text in self._texts.values():
            if keep:
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
