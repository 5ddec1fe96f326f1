"""Split the bytes of a container's log into lines with timestamps, and tell kubelet's own messages apart."""

from __future__ import annotations

from collections.abc import Sequence

from asyncsched.logs.line import LogLine, LogOrigin, label
from asyncsched.logs.rfc3339 import StampReader
from asyncsched.logs.split import MAX_LINE, LineSplitter

__all__ = ["JOINED_FROM", "NO_FILE", "NO_WATCHER", "REMOVED", "LineReader"]

NO_WATCHER = "failed to create fsnotify watcher"
"""Kubelet sends the existing log, then this, and ends: the node has run out of inotify instances."""
REMOVED = "unable to retrieve container logs for"
"""Kubelet's whole answer if the runtime has removed the container with its log."""
NO_FILE = ("failed to try resolving symlinks in path", "failed to open log file")
"""Kubelet's whole answer if the log file does not exist: it was removed, or is being rotated right now."""

JOINED_FROM = (1, 31)
"""From this version on a long line has one timestamp, not one before each of its pieces."""

_SAID = tuple(text.encode() for text in (NO_WATCHER, REMOVED))
_CHUNK = 16 * 1024
"""Bytes after which the runtime splits a line; before 1.31 kubelet wrote a timestamp before each piece."""
_STAMP = 30  # length of kubelet's timestamps: 2026-11-21T02:49:43.084925868Z
_BLANK = 32


class LineReader:
    """Converts the bytes of one connection, in chunks of any size, to whole lines.

    Lines are requested with timestamps, so text without one is not from the container: kubelet answers 200 and writes
    its errors into the log.

    Args:
        origin: The origin of the lines.
        max_line: Bytes after which an overlong line is delivered in pieces.
        joins: Whether long lines have a timestamp before each piece, as kubelets before 1.31 write them.
    """

    def __init__(self, origin: LogOrigin, *, max_line: int = MAX_LINE, joins: bool = False) -> None:
        self._origin = origin
        self._joins = joins
        self._max = max_line
        self._stamps = StampReader()
        self._parts: list[bytes] = []  # of the unfinished line; joined once, so that its growth stays linear
        self._held = 0
        self._overlong: tuple[LineSplitter, int] | None = None  # the line being delivered, and its time
        self._notices: list[str] = []

    def feed(self, data: bytes) -> list[LogLine]:
        """Add bytes, and return the lines that they complete."""
        lines: list[LogLine] = []
        if self._overlong is not None:
            data = self._continue(data, lines)
        end = data.rfind(b"\n") + 1
        if end:
            block = b"".join((*self._parts, data[:end]))
            self._parts.clear()
            self._held = 0
            self._read_block(block, lines)
            data = data[end:]
        if data:
            self._hold(data, lines)
        return lines

    def take_notice(self) -> str:
        """Return kubelet's messages at the end of a connection, and forget them; empty if there were none."""
        rest = b"".join(self._parts)
        said = [at for text in _SAID if (at := rest.rfind(text)) >= 0]
        if said or (rest and self._split(rest) is None):
            # The message directly follows the container's last text if that has no newline.
            at = min(said, default=0)
            self._notices.append(rest[at:].decode(errors="replace"))
            whole = rest[:at]
            self._parts, self._held = ([whole] if self._split(whole) is not None else []), len(whole)
        notice = "; ".join(self._notices)
        self._notices.clear()
        return notice

    def flush(self) -> Sequence[LogLine]:
        """Return the unfinished line at the end of the log."""
        if self._overlong is not None:
            splitter, ns = self._overlong
            self._overlong = None
            return label(splitter.flush(), self._origin, ns)
        found = self._split(b"".join(self._parts))
        self._parts, self._held = [], 0
        if found is None or not found[1]:
            return ()
        return label([self._joined(found[1]).decode("utf-8", "replace")], self._origin, found[0])

    def _read_block(self, block: bytes, lines: list[LogLine]) -> None:
        """Read whole lines. This loop runs for every line, so it handles the common case inline."""
        origin, parse_ns = self._origin, self._stamps.ns
        longest = min(self._max, _CHUNK) if self._joins else self._max
        at, size = 0, len(block)
        find = block.find
        while at < size:
            end = find(b"\n", at) + 1
            text = at + _STAMP + 1
            if text < end and block[text - 1] == _BLANK and block[text - 2] == 90 and end - text <= longest:  # a Z
                try:
                    ns = parse_ns(block[at : text - 1])
                except ValueError:
                    self._read_other(block[at:end], lines)
                else:
                    line = LogLine(block[text:end], "utf-8", "replace")
                    line.ns, line.source = ns, origin
                    lines.append(line)
            else:
                self._read_other(block[at:end], lines)
            at = end

    def _read_other(self, entry: bytes, lines: list[LogLine]) -> None:
        """Read an overlong line, a line with an unusual timestamp, or a message of kubelet."""
        found = self._split(entry)
        if found is None:
            self._notices.append(entry.decode(errors="replace").strip())
            return
        lines += label(LineSplitter(self._max).feed(self._joined(found[1])), self._origin, found[0])

    def _joined(self, text: bytes) -> bytes:
        """Return a line without the timestamps between its pieces."""
        if not self._joins:
            return text
        pieces: list[bytes] = []
        at = 0
        while (end := at + _CHUNK) < len(text) and self._split(text[end : end + _STAMP + 6]) is not None:
            pieces.append(text[at:end])
            at = text.index(b" ", end) + 1
        return b"".join((*pieces, text[at:]))

    def _split(self, entry: bytes) -> tuple[int, bytes] | None:
        """Return a line's timestamp and its text; None if it has no timestamp."""
        stamp, blank, text = entry.partition(b" ")
        if not blank or not 20 <= len(stamp) <= 35:
            return None
        try:
            return self._stamps.ns(stamp), text
        except ValueError:
            return None

    def _hold(self, data: bytes, lines: list[LogLine]) -> None:
        self._parts.append(data)
        self._held += len(data)
        if self._held <= self._max + _STAMP + 1:
            return
        found = self._split(b"".join(self._parts))
        self._parts, self._held = [], 0
        if found is None:
            self._notices.append("a text of over 1 MiB without a timestamp")
            return
        self._overlong = splitter, ns = LineSplitter(self._max), found[0]
        lines += label(splitter.feed(found[1]), self._origin, ns)

    def _continue(self, data: bytes, lines: list[LogLine]) -> bytes:
        """Deliver more of the overlong line; return the bytes after it."""
        assert self._overlong is not None
        splitter, ns = self._overlong
        end = data.find(b"\n") + 1
        lines += label(splitter.feed(data[:end] if end else data), self._origin, ns)
        if not end:
            return b""
        self._overlong = None
        return data[end:]
