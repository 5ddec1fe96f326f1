"""From the bytes of a container's log to lines: Docker's multiplexed stream, with timestamps.

Each entry is a frame: one byte for the stream, three zeros, four bytes of length, then the text, which begins
with its time. An entry is a line, or 16 KiB of one: the rest of the line follows in frames of the same
stream. A container with a terminal has no frames, only lines.
"""

from __future__ import annotations

from collections.abc import Callable

from asyncsched.logs.line import LogLine, LogOrigin
from asyncsched.logs.split import MAX_LINE
from asyncsched.logs.stamps import StampReader
from asyncsched.specs.stream import Stream

__all__ = ["FrameReader"]

_HEADER = 8
_STREAMS = {1: Stream.STDOUT, 2: Stream.STDERR}
_PIECE = 16 * 1024  # bytes of a line that the daemon takes for one entry
_STAMP = 30  # letters of a time, as the daemon writes it: 2026-11-21T02:49:43.084925868Z

Origins = Callable[[Stream, int], LogOrigin]


class FrameReader:
    """Turns the bytes of one connection, in whatever chunks they come, into whole lines.

    Args:
        origin: Says who wrote a line, from its stream and its time in nanoseconds.
        terminal: Whether the container has a terminal, and so a log without frames.
        max_line: Bytes after which an overlong line is delivered in pieces.
    """

    def __init__(self, origin: Origins, *, terminal: bool = False, max_line: int = MAX_LINE) -> None:
        self._origin = origin
        self._entries = self._lines_in if terminal else self._frames_in
        self._max = max_line
        self._stamps = StampReader()
        self._rest = b""
        # The pieces of unfinished lines: the time of the first, the pieces, their bytes.
        self._parts: dict[Stream, tuple[int, list[bytes], int]] = {}

    def feed(self, data: bytes) -> list[LogLine]:
        """Take some bytes and return the lines that they complete."""
        lines: list[LogLine] = []
        for stream, entry in self._entries(self._rest + data if self._rest else data):
            if entry[_STAMP : _STAMP + 1] == b" ":
                stamp, text = entry[:_STAMP], entry[_STAMP + 1 :]
            else:
                stamp, _, text = entry.partition(b" ")
            self._add(lines, stream, self._stamps.ns(stamp), text)
        return lines

    def flush(self) -> list[LogLine]:
        """Return the unfinished lines: nothing more will be written to them."""
        lines = [self._line(b"".join(parts), stream, ns) for stream, (ns, parts, _) in self._parts.items()]
        self._parts.clear()
        return lines

    def _frames_in(self, data: bytes) -> list[tuple[Stream, bytes]]:
        entries: list[tuple[Stream, bytes]] = []
        at, size = 0, len(data)
        while (begin := at + _HEADER) <= size:
            end = begin + int.from_bytes(data[at + 4 : begin])
            if end > size:
                break
            entries.append((_STREAMS.get(data[at], Stream.COMBINED), data[begin:end]))
            at = end
        self._rest = data[at:]
        return entries

    def _lines_in(self, data: bytes) -> list[tuple[Stream, bytes]]:
        *lines, self._rest = data.split(b"\n")
        # A terminal turns a newline into carriage return and newline.
        return [(Stream.COMBINED, line.removesuffix(b"\r") + b"\n") for line in lines]

    def _add(self, lines: list[LogLine], stream: Stream, ns: int, text: bytes) -> None:
        # A short entry without a newline is what a program wrote last: the next one is not its rest.
        whole = text.endswith(b"\n") or len(text) < _PIECE
        held = self._parts.get(stream)
        if held is None:
            if whole:
                lines.append(self._line(text, stream, ns))
                return
            held = (ns, list[bytes](), 0)
        first_ns, parts, size = held
        parts.append(text)
        size += len(text)
        if whole or size >= self._max:
            self._parts.pop(stream, None)
            lines.append(self._line(b"".join(parts), stream, first_ns))
        else:
            self._parts[stream] = (first_ns, parts, size)

    def _line(self, text: bytes, stream: Stream, ns: int) -> LogLine:
        line = LogLine(text.decode("utf-8", "replace"))
        line.source = self._origin(stream, ns)
        line.ns = ns
        return line
