"""Split chunks of output into lines, each with the time at which its first byte was read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from asyncsched.logs.line import LogLine, LogOrigin, decode
from asyncsched.logs.split import MAX_LINE, ByteSplitter

__all__ = ["Ready", "StreamText", "Texts", "Told"]

NEWLINE = 10


class Ready(Protocol):
    """Waiting lines."""

    def take(self, limit: int) -> list[LogLine]:
        """Return the next lines, at most `limit`."""
        ...

    @property
    def empty(self) -> bool:
        """Whether all lines were taken."""
        ...


class Told:
    """A line that no replica wrote, such as a gap, at its place in the order."""

    __slots__ = ("_lines",)

    def __init__(self, line: LogLine) -> None:
        self._lines = [line]

    def take(self, limit: int) -> list[LogLine]:
        """Return the line."""
        lines, self._lines = self._lines[:limit], self._lines[limit:]
        return lines

    @property
    def empty(self) -> bool:
        """Whether it was taken."""
        return not self._lines


class Texts:
    """Lines of one stream that were split but not decoded; the caller decides how many to decode at a time."""

    __slots__ = ("_at", "_lines", "_origin", "_stamps")

    def __init__(self, origin: LogOrigin, lines: Sequence[bytes], stamps: list[tuple[int, int]]) -> None:
        self._origin = origin
        self._lines = lines
        self._stamps = stamps[::-1]  # pairs of a number of lines and their time, in reverse order
        self._at = 0

    def take(self, limit: int) -> list[LogLine]:
        """Decode the next lines, at most `limit`."""
        lines: list[LogLine] = []
        while limit and self._stamps:
            count, ns = self._stamps.pop()
            if count > limit:
                self._stamps.append((count - limit, ns))
                count = limit
            lines += decode(self._lines[self._at : self._at + count], self._origin, ns)
            self._at += count
            limit -= count
        return lines

    @property
    def empty(self) -> bool:
        """Whether all lines were taken."""
        return not self._stamps


class StreamText:
    """Splits the chunks of one stream into lines.

    A line's time is that of the chunk in which it begins; all pieces of an overlong line have the same time. So `since`
    needs nothing that was written before it, and `until` includes a line that began in time.

    Args:
        origin: The origin of the lines.
    """

    __slots__ = ("_began", "_is_open", "_skips", "_splitter", "origin")

    def __init__(self, origin: LogOrigin) -> None:
        self.origin = origin
        self._splitter = ByteSplitter()
        self._began = 0
        self._is_open = False  # a line has begun but not ended
        self._skips = True

    @property
    def held(self) -> bool:
        """Whether an unfinished line is held."""
        return self._splitter.held > 0

    def skip(self) -> None:
        """Continue at the start of a line: the rest of an unfinished one is missing."""
        self._splitter.flush()
        self._is_open = False
        self._skips = True

    def feed(self, data: bytes, chunks: Sequence[tuple[int, int]], *, at_line_start: bool) -> Texts | None:
        """Take the next bytes, as chunks with a time and a length each; return the complete lines."""
        if self._skips and not at_line_start:
            cut = data.find(b"\n") + 1
            if not cut:
                return None
            data, chunks = data[cut:], _shortened(chunks, cut)
        self._skips = False
        if not data:
            return None
        # Below the limit each newline ends one line, so counting lines is enough to find their times.
        counted = self._splitter.held + len(data) <= MAX_LINE
        lines, stamps = self._split_counted(data, chunks) if counted else self._split(data, chunks)
        return Texts(self.origin, lines, stamps) if lines else None

    def _split_counted(
        self, data: bytes, chunks: Sequence[tuple[int, int]]
    ) -> tuple[list[bytes], list[tuple[int, int]]]:
        lines = self._splitter.feed(data)
        stamps: list[tuple[int, int]] = []
        began = self._began if self._is_open else chunks[0][0]
        at, is_open = 0, True
        for ns, length in chunks:
            if not is_open:
                began = ns
            end = at + length
            count = len(lines) if len(chunks) == 1 else data.count(b"\n", at, end)
            if count and began != ns:
                stamps.append((1, began))
                count -= 1
                began = ns
            if count:
                stamps.append((count, ns))
            is_open = data[end - 1] != NEWLINE
            at = end
        self._began, self._is_open = began, is_open
        return lines, stamps

    def _split(self, data: bytes, chunks: Sequence[tuple[int, int]]) -> tuple[list[bytes], list[tuple[int, int]]]:
        lines: list[bytes] = []
        stamps: list[tuple[int, int]] = []
        at = 0
        for ns, length in chunks:
            if not self._is_open:
                self._began = ns
            part = data[at : at + length]
            at += length
            for line in self._splitter.feed(part):
                lines.append(line)
                stamps.append((1, self._began))
                if line.endswith(b"\n"):
                    self._began = ns
            self._is_open = part[-1] != NEWLINE
        return lines, stamps

    def progress(self) -> Texts | None:
        """Return the unfinished line if it is progress output."""
        return self._unfinished(self._splitter.progress())

    def flush(self) -> Texts | None:
        """Return the unfinished line at the end of the stream."""
        return self._unfinished(self._splitter.flush())

    def _unfinished(self, lines: Sequence[bytes]) -> Texts | None:
        if not lines:
            return None
        self._is_open = self.held
        return Texts(self.origin, lines, [(len(lines), self._began)])


def _shortened(chunks: Sequence[tuple[int, int]], cut: int) -> Sequence[tuple[int, int]]:
    """Return the chunks without their first `cut` bytes."""
    rest: list[tuple[int, int]] = []
    for ns, length in chunks:
        dropped = min(cut, length)
        cut -= dropped
        if length > dropped:
            rest.append((ns, length - dropped))
    return rest
