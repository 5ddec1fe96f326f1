"""From bytes to lines, cut at newlines only."""

from __future__ import annotations

import io

__all__ = ["MAX_LINE", "LineSplitter"]

MAX_LINE = 1 << 20
"""Bytes after which an overlong line is delivered in pieces."""


class LineSplitter:
    """Turns the bytes of one stream, in whatever chunks they come, into whole lines of text.

    Only ``\\n`` ends a line: `str.splitlines` would also cut at form feeds and U+2028. What is not UTF-8 comes as
    U+FFFD. A line longer than `max_line` bytes is returned in pieces, all but its last without a newline; where
    the pieces are cut depends on the line alone, never on the chunks.
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

    def feed(self, data: bytes) -> list[str]:
        """Take some bytes and return the lines that they complete."""
        end = data.rfind(b"\n") + 1
        if not end:
            return self._hold(data)
        block = data[:end]
        if self._parts:
            self._parts.append(block)
            block = b"".join(self._parts)
        self._parts.clear()
        self._held = 0
        lines = self._lines(block)
        if end < len(data):
            lines += self._hold(data[end:])
        return lines

    def flush(self) -> list[str]:
        """Return the unfinished line at the stream's end, or to hand progress output on."""
        rest = b"".join(self._parts)
        self._parts.clear()
        self._held = 0
        return [rest.decode("utf-8", "replace")] if rest else []

    def progress(self) -> list[str]:
        """Return the unfinished line if it is progress output (it has a carriage return), up to a whole character."""
        if not any(b"\r" in part for part in self._parts):
            return []
        rest = b"".join(self._parts)
        cut = len(rest) - _incomplete(rest)
        self._parts = [rest[cut:]] if cut < len(rest) else []
        self._held = len(rest) - cut
        return [rest[:cut].decode("utf-8", "replace")]

    def _hold(self, data: bytes) -> list[str]:
        self._parts.append(data)
        self._held += len(data)
        if self._held <= self._max:
            return []
        pieces, rest = self._cut(b"".join(self._parts))
        self._parts = [rest]
        self._held = len(rest)
        return pieces

    def _lines(self, block: bytes) -> list[str]:
        if len(block) <= self._max:
            return _split(block)
        lines: list[str] = []
        # Blocks are larger than a line may be when a line is overlong, or when chunks are: look at each line.
        for line in io.BytesIO(block).readlines():
            if len(line) > self._max + 1:
                pieces, line = self._cut(line)
                lines += pieces
            lines.append(line.decode("utf-8", "replace"))
        return lines

    def _cut(self, line: bytes) -> tuple[list[str], bytes]:
        pieces: list[str] = []
        start = 0
        # A newline does not count: a line of exactly the bound comes whole.
        length = len(line) - line.endswith(b"\n")
        while length - start > self._max:
            end = _character_start(line, start + self._max)
            pieces.append(line[start:end].decode("utf-8", "replace"))
            start = end
        return pieces, line[start:]


def _split(block: bytes) -> list[str]:
    return io.StringIO(block.decode("utf-8", "replace"), newline="\n").readlines()


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
