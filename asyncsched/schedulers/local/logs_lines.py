"""From chunks of output to lines that carry the time at which their first byte was read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from asyncsched.logs.line import LogLine, LogOrigin, decode
from asyncsched.logs.split import MAX_LINE, ByteSplitter

__all__ = ["Ready", "StreamText", "Texts", "Told"]

NEWLINE = 10


class Ready(Protocol):
    """Lines that wait to be taken."""

    def take(self, limit: int) -> list[LogLine]:
        """Return the next lines, at most `limit`."""
        ...

    @property
    def empty(self) -> bool:
        """Whether all have been taken."""
        ...


class Told:
    """A line that is no replica's own, at its place in the order."""

    __slots__ = ("_lines",)

    def __init__(self, line: LogLine) -> None:
        self._lines = [line]

    def take(self, limit: int) -> list[LogLine]:
        """Return the line."""
        lines, self._lines = self._lines[:limit], self._lines[limit:]
        return lines

    @property
    def empty(self) -> bool:
        """Whether it has been taken."""
        return not self._lines


class Texts:
    """Lines of one stream that have been split but not decoded: who takes them decides how many at a time."""

    __slots__ = ("_at", "_lines", "_origin", "_stamps")

    def __init__(self, origin: LogOrigin, lines: Sequence[bytes], stamps: list[tuple[int, int]]) -> None:
        self._origin = origin
        self._lines = lines
        self._stamps = stamps[::-1]  # how many lines have which time; the next ones stand last
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
        """Whether all have been taken."""
        return not self._stamps


class StreamText:
    """Splits one stream's chunks into lines.

    A line's time is that of the chunk in which it begins, and all pieces of an overlong line have it. So `since`
    needs nothing of what was written before it, and `until` lets a line through that was begun in time.

    Args:
        origin: Who writes to the stream.
    """

    __slots__ = ("_began", "_is_open", "_skips", "_splitter", "origin")

    def __init__(self, origin: LogOrigin) -> None:
        self.origin = origin
        self._splitter = ByteSplitter()
        self._began = 0
        self._is_open = False  # a line has begun, and not ended
        self._skips = True

    @property
    def held(self) -> bool:
        """Whether an unfinished line waits for its rest."""
        return self._splitter.held > 0

    def skip(self) -> None:
        """Go on where a line begins: the rest of one that has begun is not to be had."""
        self._splitter.flush()
        self._is_open = False
        self._skips = True

    def feed(self, data: bytes, chunks: Sequence[tuple[int, int]], *, at_line_start: bool) -> Texts | None:
        """Take the next bytes, read as chunks of a time and a length each; return the lines that they complete."""
        if self._skips and not at_line_start:
            cut = data.find(b"\n") + 1
            if not cut:
                return None
            data, chunks = data[cut:], _shortened(chunks, cut)
        self._skips = False
        if not data:
            return None
        # Below the bound each newline ends one line, so that lines need only be counted to be told apart in time.
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
        """Return the unfinished line: nothing more comes."""
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
