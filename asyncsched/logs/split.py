"""Split bytes into lines, at newlines only."""

from __future__ import annotations

import io

__all__ = ["MAX_LINE", "ByteSplitter", "LineSplitter"]

MAX_LINE = 1 << 20
"""Longest line, in bytes; a longer one is delivered in pieces."""


class ByteSplitter:
    """Splits the bytes of one stream into lines as `LineSplitter` does, without decoding them.

    For callers that decode straight into their own line type, without a copy.
    """

    __slots__ = ("_held", "_max", "_parts")

    def __init__(self, max_line: int = MAX_LINE) -> None:
        if max_line < 4:
            raise ValueError(f"max_line must be at least 4, the length of the longest character, got {max_line}")
        self._max = max_line
        self._parts: list[bytes] = []  # parts of the unfinished line; joined once, so that growing it is linear
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
        largest = self._held + len(data)  # the longest possible line
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
        """Return a line in pieces of at most `max_line` bytes, not counting the newline."""
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
    """Splits the bytes of one stream, in chunks of any size, into lines of text.

    Only ``\\n`` ends a line; `str.splitlines` would also split at form feeds and U+2028. Bytes that are not UTF-8
    become U+FFFD. A line longer than `max_line` bytes is returned in pieces, and only the last piece has the newline.
    The pieces depend on the line alone, not on the chunks.
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
    # One by one, because no character crosses a line or a piece. Decoding all at once would store the whole text at the
    # width of its widest character, and cost more to split.
    return [line.decode("utf-8", "replace") for line in lines]


def _character_start(data: bytes, end: int) -> int:
    """Return the start of the character that contains `end`; `end` itself if it is between two."""
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
