"""Turn the bytes of a container's log into lines: Docker's multiplexed stream, with timestamps.

Each entry is a frame: one byte for the stream, three zeros, four bytes of length, then the text, which begins
with its time. An entry is a line, or 16 KiB of one: the rest of the line follows in frames of the same
stream. A container with a terminal has no frames, only lines.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from asyncsched._typing import NamedTuple
from asyncsched.logs.line import LogLine, LogOrigin, decode_unlabelled
from asyncsched.logs.rfc3339 import StampReader
from asyncsched.logs.split import MAX_LINE
from asyncsched.specs.stream import Stream

__all__ = ["FrameReader"]

_HEADER = 8
_LENGTH = Struct(">4xI")
_FIELDS = Struct(">B3xI20s9s2s")
"""A frame up to its text: stream, length, and its time (the second with the dot, nanoseconds, the zone and a blank)."""
_NEWLINE = ord("\n")
_STREAMS = {0: Stream.COMBINED, 1: Stream.STDOUT, 2: Stream.STDERR}
_PIECE = 16 * 1024  # bytes of a line that the daemon takes for one entry
_STAMP = 30  # characters of a time, as the daemon writes it: 2026-11-21T02:49:43.084925868Z
_SECOND = 20  # the characters up to and including the dot

Origins = Callable[[Stream, int], LogOrigin]
OneOrigin = Callable[[Stream], LogOrigin | None]


class FrameReader:
    """Turns the bytes of one connection, in chunks of any size, into whole lines.

    Args:
        origin: Returns the origin of a line, from its stream and its time in nanoseconds.
        terminal: Whether the container has a terminal, and so a log without frames.
        max_line: The bytes after which a long line is delivered in pieces.
        one_origin: Returns the origin of all lines of a stream, None if it depends on their times; this is faster.

    Attributes:
        trouble: Why the daemon cannot read on; it reports that in a separate stream, without a time, and ends.
    """

    def __init__(
        self,
        origin: Origins,
        *,
        terminal: bool = False,
        max_line: int = MAX_LINE,
        one_origin: OneOrigin = lambda stream: None,
    ) -> None:
        self._origin = origin
        self._one_origin = one_origin
        self._terminal = terminal
        self._max = max_line
        self._stamps = StampReader()
        self._second = (b"", 0)  # the last second that was read, up to its dot, and in nanoseconds
        self._rest: bytes = b""
        self.trouble = ""
        # The pieces of unfinished lines: the time of the first, the pieces, their bytes.
        self._parts: dict[Stream, tuple[int, list[bytes], int]] = {}

    def feed(self, data: bytes) -> list[LogLine]:
        """Take some bytes and return the lines that they complete."""
        entries = _Entries([], [], [])
        data = self._rest + data
        if self._terminal:
            whole = data.split(b"\n")
            self._rest = whole.pop()
            for line in whole:  # a terminal turns a newline into carriage return and newline
                self._take(entries, Stream.COMBINED, line.removesuffix(b"\r") + b"\n")
        else:
            self._rest = data[self._read_frames(data, entries) :]
        return entries.lines(self._origin, self._one_origin)

    def flush(self) -> list[LogLine]:
        """Return the unfinished lines: nothing more will be written to them."""
        entries = _Entries([], [], [])
        for stream, (ns, parts, _) in self._parts.items():
            entries.add(b"".join(parts), stream, ns)
        self._parts.clear()
        return entries.lines(self._origin, self._one_origin)

    def _read_frames(self, data: bytes, entries: _Entries) -> int:
        """Read the whole frames of the data; returns where the first incomplete one begins."""
        at = 0
        while (end := self._read_frame(data, at, entries)) > at:
            at = end if self._parts else self._read_usual(data, end, entries)
        return at

    def _read_usual(self, data: bytes, at: int, entries: _Entries) -> int:
        """Read frames as most are: whole lines with times of the second of the one before; returns where others begin.

        It runs for each line of a log, so it calls no function for one, and takes all fields of a frame at once.
        """
        size, fields_at, stream_of = len(data), _FIELDS.unpack_from, _STREAMS.get
        fields = _FIELDS.size
        texts, streams, stamps = entries
        second, second_ns = self._second
        kind, stream = -1, None
        while at + fields <= size:
            of, length, when, ns, zone = fields_at(data, at)
            text, end = at + fields, at + _HEADER + length
            if when != second or zone != b"Z " or not text < end <= size or data[end - 1] != _NEWLINE:
                break
            if of != kind:
                kind, stream = of, stream_of(of)
            if stream is None:
                break
            texts.append(data[text:end])
            streams.append(stream)
            stamps.append(second_ns + int(ns))
            at = end
        return at

    def _read_frame(self, data: bytes, at: int, entries: _Entries) -> int:
        """Read one frame, whatever it is; returns where it ends, and `at` if it is incomplete."""
        begin = at + _HEADER
        if begin > len(data):
            return at
        end: int = begin + _LENGTH.unpack_from(data, at)[0]
        if end > len(data):
            return at
        if (stream := _STREAMS.get(data[at])) is None:
            self.trouble = data[begin:end].decode(errors="replace").strip()
            return len(data)  # the daemon has given up
        self._take(entries, stream, data[begin:end])
        return end

    def _read_stamp(self, stamp: bytes) -> int:
        ns = self._stamps.ns(stamp)
        if stamp[_SECOND - 1 : _SECOND] == b"." and stamp[_STAMP - 1 :] == b"Z":
            self._second = stamp[:_SECOND], ns - int(stamp[_SECOND : _STAMP - 1])
        return ns

    def _take(self, entries: _Entries, stream: Stream, entry: bytes) -> None:
        """Read one entry, which may be a piece of a line."""
        stamp, _, text = entry.partition(b" ")
        ns = self._read_stamp(stamp)
        # A short entry without a newline is what a program wrote last: the next one is not its rest.
        whole = text.endswith(b"\n") or len(text) < _PIECE
        first_ns, parts, size = self._parts.pop(stream, (ns, list[bytes](), 0))
        parts.append(text)
        size += len(text)
        if whole or size >= self._max:
            entries.add(b"".join(parts), stream, first_ns)
        else:
            self._parts[stream] = (first_ns, parts, size)


class _Entries(NamedTuple):
    """Lines that were read together: their texts, streams and times in nanoseconds, in one order."""

    texts: list[bytes]
    streams: list[Stream]
    stamps: list[int]

    def add(self, text: bytes, stream: Stream, ns: int) -> None:
        self.texts.append(text)
        self.streams.append(stream)
        self.stamps.append(ns)

    def lines(self, origin: Origins, one_origin: OneOrigin) -> list[LogLine]:
        lines, streams = decode_unlabelled(self.texts), self.streams
        source = one_origin(streams[0]) if streams and streams.count(streams[0]) == len(streams) else None
        if source is not None:
            for line, ns in zip(lines, self.stamps, strict=True):
                line.source = source
                line.ns = ns
            return lines
        for line, stream, ns in zip(lines, streams, self.stamps, strict=True):
            line.source = origin(stream, ns)
            line.ns = ns
        return lines
