"""From the bytes of a container's log to lines: Docker's multiplexed stream, with timestamps.

Each entry is a frame: one byte for the stream, three zeros, four bytes of length, then the text, which begins
with its time. An entry is a line, or 16 KiB of one: the rest of the line follows in frames of the same
stream. A container with a terminal has no frames, only lines.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from asyncsched.logs.line import LogLine, LogOrigin
from asyncsched.logs.split import MAX_LINE
from asyncsched.logs.stamps import StampReader
from asyncsched.specs.stream import Stream

__all__ = ["FrameReader"]

_HEADER = 8
_LENGTH = Struct(">4xI")
_BLANK, _NEWLINE = b" \n"
_STREAMS = {0: Stream.COMBINED, 1: Stream.STDOUT, 2: Stream.STDERR}
_PIECE = 16 * 1024  # bytes of a line that the daemon takes for one entry
_STAMP = 30  # letters of a time, as the daemon writes it: 2026-11-21T02:49:43.084925868Z

Origins = Callable[[Stream, int], LogOrigin]


class FrameReader:
    """Turns the bytes of one connection, in whatever chunks they come, into whole lines.

    Args:
        origin: Says who wrote a line, from its stream and its time in nanoseconds.
        terminal: Whether the container has a terminal, and so a log without frames.
        max_line: Bytes after which an overlong line is delivered in pieces.

    Attributes:
        trouble: Why the daemon cannot read on; it says so in a stream of its own, without a time, and ends.
    """

    def __init__(self, origin: Origins, *, terminal: bool = False, max_line: int = MAX_LINE) -> None:
        self._origin = origin
        self._terminal = terminal
        self._max = max_line
        self._stamps = StampReader()
        self._rest: bytes = b""
        self.trouble = ""
        # The pieces of unfinished lines: the time of the first, the pieces, their bytes.
        self._parts: dict[Stream, tuple[int, list[bytes], int]] = {}

    def feed(self, data: bytes) -> list[LogLine]:
        """Take some bytes and return the lines that they complete."""
        lines: list[LogLine] = []
        data = self._rest + data
        if self._terminal:
            whole = data.split(b"\n")
            self._rest = whole.pop()
            for line in whole:  # a terminal turns a newline into carriage return and newline
                self._take(lines, Stream.COMBINED, line.removesuffix(b"\r") + b"\n")
        else:
            self._rest = data[self._read_frames(data, lines) :]
        return lines

    def flush(self) -> list[LogLine]:
        """Return the unfinished lines: nothing more will be written to them."""
        lines = [self._line(b"".join(parts), stream, ns) for stream, (ns, parts, _) in self._parts.items()]
        self._parts.clear()
        return lines

    def _read_frames(self, data: bytes, lines: list[LogLine]) -> int:
        """Read the whole frames of the data; returns where the first incomplete one begins.

        The loop runs for each line of a log, so what most lines are (whole, in a second that is known, of a
        stream that is not in the middle of a line) is read here and not by functions.
        """
        at, size = 0, len(data)
        length_at, parse_ns, origin = _LENGTH.unpack_from, self._stamps.ns, self._origin
        while (begin := at + _HEADER) <= size:
            end = begin + length_at(data, at)[0]
            if end > size:
                break
            text = begin + _STAMP + 1
            if (stream := _STREAMS.get(data[at])) is None:
                self.trouble = data[begin:end].decode(errors="replace").strip()
                return size  # the daemon has given up
            if data[end - 1] == _NEWLINE and data[text - 1] == _BLANK and not self._parts:
                line = LogLine(data[text:end], "utf-8", "replace")
                line.ns = ns = parse_ns(data[begin : text - 1])
                line.source = origin(stream, ns)
                lines.append(line)
            else:
                self._take(lines, stream, data[begin:end])
            at = end
        return at

    def _take(self, lines: list[LogLine], stream: Stream, entry: bytes) -> None:
        """Read one entry, which may be a piece of a line."""
        stamp, _, text = entry.partition(b" ")
        ns = self._stamps.ns(stamp)
        # A short entry without a newline is what a program wrote last: the next one is not its rest.
        whole = text.endswith(b"\n") or len(text) < _PIECE
        first_ns, parts, size = self._parts.pop(stream, (ns, list[bytes](), 0))
        parts.append(text)
        size += len(text)
        if whole or size >= self._max:
            lines.append(self._line(b"".join(parts), stream, first_ns))
        else:
            self._parts[stream] = (first_ns, parts, size)

    def _line(self, text: bytes, stream: Stream, ns: int) -> LogLine:
        line = LogLine(text, "utf-8", "replace")
        line.source = self._origin(stream, ns)
        line.ns = ns
        return line
