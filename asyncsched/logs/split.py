"""From bytes to lines, cut at newlines only."""

from __future__ import annotations

import io

__all__ = ["MAX_LINE", "ByteSplitter", "LineSplitter"]

MAX_LINE = 1 << 20
"""Bytes after which an overlong line is delivered in pieces."""


class ByteSplitter:
    """Cuts the bytes of one stream into lines that are not decoded yet, as `LineSplitter` does.

    For callers that build their own kind of line: decoded from these bytes, it is built once and not copied from a
    text.
    """

    __slots__ = ("_held", "_max", "_parts")

    def __init__(self, max_line: int = MAX_LINE) -> None:
        if max_line < 4:
            raise ValueError("max_line must be at least 4, the length of the longest character")
        self._max = max_line
        self._parts: list[bytes] = []  # of the unfinished line; joined once, so that growing it stays linear
        self._held = 0

    @property
    def held(self) -> int:
        """The number of bytes of the unfinished line."""
        return self._held

    def feed(self, data: bytes) -> list[bytes]:
        """Take some bytes and return the lines that they complete."""
        lines = io.BytesIO(data).readlines()
        if not lines:
            return []
        largest = self._held + len(data)  # that a line can be
        rest = b"" if lines[-1].endswith(b"\n") else lines.pop()
        if lines and self._parts:
            lines[0] = b"".join((*self._parts, lines[0]))
            self._parts.clear()
            self._held = 0
        if largest > self._max:
            lines = [piece for line in lines for piece in self._pieces(line)]
        return lines + self._hold(rest) if rest else lines

    def flush(self) -> list[bytes]:
        """Return the unfinished line at the stream's end, or to hand progress output on."""
        rest = b"".join(self._parts)
        self._parts.clear()
        self._held = 0
        return [rest] if rest else []

    def progress(self) -> list[bytes]:
        """Return the unfinished line if it is progress output (it has a carriage return), up to a whole character."""
        if not any(b"\r" in part for part in self._parts):
            return []
        rest = b"".join(self._parts)
        cut = len(rest) - _incomplete(rest)
        self._parts = [rest[cut:]] if cut < len(rest) else []
        self._held = len(rest) - cut
        return [rest[:cut]]

    def _hold(self, data: bytes) -> list[bytes]:
        self._parts.append(data)
        self._held += len(data)
        if self._held <= self._max:
            return []
        *pieces, rest = self._pieces(b"".join(self._parts))
        self._parts = [rest]
        self._held = len(rest)
        return pieces

    def _pieces(self, line: bytes) -> list[bytes]:
        """Return a line in pieces of at most the bound; the newline does not count, so that the bound comes whole."""
        pieces: list[bytes] = []
        start = 0
        length = len(line) - line.endswith(b"\n")
        while length - start > self._max:
            end = _character_start(line, start + self._max)
            pieces.append(line[start:end])
            start = end
        pieces.append(line[start:] if start else line)
        return pieces


class LineSplitter:
    """Turns the bytes of one stream, in whatever chunks they come, into whole lines of text.

    Only ``\\n`` ends a line: `str.splitlines` would also cut at form feeds and U+2028. What is not UTF-8 comes as
    U+FFFD. A line longer than `max_line` bytes is returned in pieces, all but its last without a newline; where
    the pieces are cut depends on the line alone, never on the chunks.
    """

    __slots__ = ("_bytes",)

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._bytes = ByteSplitter(max_line)

    @property
    def held(self) -> int:
        """The number of bytes of the unfinished line."""
        return self._bytes.held

    def feed(self, data: bytes) -> list[str]:
        """Take some bytes and return the lines that they complete."""
        return _decoded(self._bytes.feed(data))

    def flush(self) -> list[str]:
        """Return the unfinished line at the stream's end, or to hand progress output on."""
        return _decoded(self._bytes.flush())

    def progress(self) -> list[str]:
        """Return the unfinished line if it is progress output (it has a carriage return), up to a whole character."""
        return _decoded(self._bytes.progress())


def _decoded(lines: list[bytes]) -> list[str]:
    # One by one: no character reaches over a newline, and pieces are cut between characters. A text of all of them
    # would be stored at the width of its widest character, and cost more to cut.
    return [line.decode("utf-8", "replace") for line in lines]


def _character_start(data: bytes, end: int) -> int:
    """Return where the character begins that `end` stands in; `end` itself if it stands between two."""
    for start in range(end, max(end - 4, 0), -1):
        if data[start] & 0xC0 != 0x80:
            return start
    return end  # not UTF-8: any place is as good


def _incomplete(data: bytes) -> int:
    """Return how many bytes at the end of `data` begin a character that is not complete."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        width = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return back if width > back else 0
    return 0
