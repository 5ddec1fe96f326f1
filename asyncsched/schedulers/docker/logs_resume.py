"""Resume a container's log after a connection broke, and recognise what was read before."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from asyncsched._typing import override
from asyncsched.logs.resume import Hole, Resume
from asyncsched.specs.stream import Stream

__all__ = ["DISORDER", "DockerResume"]

_MS = 1_000_000
DISORDER = 5_000 * _MS
"""How far a line's stamp may be before that of a line of the other stream in front of it. Each stream has a thread
that stamps and then writes; a busy daemon was seen to hold one up for 1.8 s in between."""

_DISORDER_AT_FIRST = 500 * _MS
"""The same while only one stream was ever written to."""


@dataclass(slots=True)
class _Mark:
    """The last line of one stream: its stamp, and how many lines of the stream have this very stamp."""

    ns: int
    lines: int


@dataclass(slots=True)
class _Seen:
    """The part of one stream that was read before the connection, and may be sent again.

    `left` are the lines with the last stamp that were not sent again yet: with none left, the connection has passed
    the part. `anchored` says that no line is missing after it.
    """

    ns: int
    left: int
    anchored: bool


class DockerResume(Resume):
    """Remembers each stream's last line: stamps are in order within a stream, but not across streams.

    What both streams are past need not be sent again. If one is quiet, the daemon must repeat as much as lines may be
    out of order, and in a log that is written fast this may be more than one connection lets through. So if more lines
    were repeated than new, each stream is requested separately, from its own last line on: then next to nothing is
    repeated, and every connection makes progress. Once both have caught up, they are read together again: from the end
    of the stream that caught up first, as the log went on while the other one was read.

    Args:
        terminal: Whether the container has a terminal, and so only one stream.

    Attributes:
        apart: The stream that the next connection must request; None for all of them.
        begins: Whether that is the first of the connections that request streams separately.
    """

    def __init__(self, *, terminal: bool = False) -> None:
        super().__init__(granularity_ns=_MS, margin_ns=DISORDER)
        self._streams = (Stream.COMBINED,) if terminal else (Stream.STDOUT, Stream.STDERR)
        self._marks: dict[Hashable, _Mark] = {}
        self._old = self._new = 0  # lines of the current connection
        self._behind: deque[Stream] = deque()  # streams to catch up with separately
        # Set from the first separate connection until all streams together have brought something new after the end of
        # each: until then, more was read of one stream than of the other, which the ring of both cannot show.
        self._seen: dict[Hashable, _Seen] | None = None
        # Since when lines of a stream may be missing, as it was when the stream was last requested separately.
        self._floors: dict[Hashable, int] = {}
        self.apart: Stream | None = None
        self.begins = False

    @property
    @override
    def replaying(self) -> bool:
        return self._seen is not None or super().replaying

    @override
    def note(self, ns: int, stream: Hashable, data: str | bytes) -> bool:
        if self._seen is None:
            is_new = super().note(ns, stream, data)
        elif is_new := self._is_past(self._seen.get(stream), ns):
            self._remember(hash((ns, stream, data)), ns)
        if is_new:
            self._new += 1
            self._mark(stream, ns, 1)
        else:
            self._old += 1
        return is_new

    @override
    def note_new(self, stamps: Sequence[int], streams: Sequence[Hashable], data: Sequence[str | bytes]) -> None:
        super().note_new(stamps, streams, data)
        self._new += len(stamps)
        written = set(streams)
        for stream in written:
            own = stamps if len(written) == 1 else _of(stream, stamps, streams)
            ns, count = own[-1], 1
            while count < len(own) and own[-count - 1] == ns:
                count += 1
            self._mark(stream, ns, count, whole=count < len(own))

    @override
    def reconnect(self) -> int | None:
        stuck = self._old > self._new
        seen = self._seen or {}
        in_step = self.apart is None and self._new > 0 and all(each.left <= 0 for each in seen.values())
        self._old = self._new = 0
        self.begins = stuck and not self._behind
        if self.begins:
            self._behind.extend(self._streams)
        elif len(self._behind) > 1 and self._behind[0] is self.apart:
            self._behind.rotate()  # it broke off: let the other stream continue
        self.apart = self._behind[0] if self._behind else None
        if self.apart is not None:
            return self._reconnect_apart(self.apart)
        if self._seen is None or in_step:
            self._seen = None
            return super().reconnect()
        since = min(map(self._last_known, self._floors)) // _MS * _MS
        self._seen = {
            stream: _Seen(mark.ns, mark.lines if mark.ns >= since else 0, anchored=mark.ns < since)
            for stream, mark in self._marks.items()
        }
        return since

    def caught_up(self) -> bool:
        """Record that the connection has brought everything of its stream; return whether no stream is left."""
        self._behind.popleft()
        return not self._behind

    @override
    def end_replay(self) -> None:
        for seen in (self._seen or {}).values():
            if not seen.anchored:
                self._hole = Hole(seen.ns, None)
        self._seen = None
        super().end_replay()

    def _last_known(self, stream: Hashable) -> int:
        """Return a time before which no line of the stream is missing."""
        mark = self._marks.get(stream)
        return self._floors[stream] if mark is None else max(self._floors[stream], mark.ns)

    def _reconnect_apart(self, stream: Stream) -> int | None:
        self._replay = None
        self._floors[stream.value] = super()._since()  # not this class's, which takes both streams to be in step
        seen = {} if self.begins or self._seen is None else self._seen
        self._seen = seen
        mark = self._marks.get(stream.value)
        if mark is None:
            return None
        seen[stream.value] = _Seen(mark.ns, mark.lines, anchored=False)
        return mark.ns

    def _is_past(self, seen: _Seen | None, ns: int) -> bool:
        """Return whether a line, in its stream's order, is after everything that was read of the stream."""
        if seen is None:
            return True
        if ns > seen.ns:
            seen.left = 0
            if not seen.anchored:
                self._hole, seen.anchored = Hole(seen.ns, ns), True
            return True
        if ns < seen.ns:
            return False
        seen.anchored = True
        seen.left -= 1
        return seen.left < 0

    def _mark(self, stream: Hashable, ns: int, lines: int, *, whole: bool = False) -> None:
        mark = self._marks.get(stream)
        if mark is None:
            self._marks[stream] = _Mark(ns, lines)
        else:
            mark.lines = mark.lines + lines if mark.ns == ns and not whole else lines
            mark.ns = ns

    @override
    def _since(self) -> int:
        since = super()._since()
        assert self._last is not None
        last = self._last[1]
        if len(self._marks) < len(self._streams):
            return max(since, (last - _DISORDER_AT_FIRST) // _MS * _MS)
        oldest = min(mark.ns for mark in self._marks.values())
        return max(since, max(min(oldest, last), last - DISORDER) // _MS * _MS)


def _of(stream: Hashable, stamps: Sequence[int], streams: Sequence[Hashable]) -> list[int]:
    return [ns for ns, each in zip(stamps, streams, strict=True) if each == stream]
