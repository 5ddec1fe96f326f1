"""Exactly once over connections that break, for services that stamp lines with nanoseconds.

A service is asked again from a little before the newest line that was seen, and sends lines that were seen before.
Which they are is told by what is remembered of the last lines (a ring of hashes), and, where more lines were
written than the ring holds, by counting those that have left it: the service sends them again in the same order.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import groupby

__all__ = ["Hole", "Resume"]

SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Hole:
    """Lines are missing between two times.

    Attributes:
        after: When the last line before the hole was written, in nanoseconds.
        before: When the first one behind it was written; None if there is none.
    """

    after: int
    before: int | None


class Resume:
    """Tells new lines from ones that were seen before the connection broke.

    Stamps need not be unique, nor quite in order (two streams of one replica are stamped apart). What cannot be
    had again is a hole, never silence; what was seen is never new again.

    Args:
        size: How many lines are remembered.
        granularity_ns: What the service cuts the time to that it is asked from.
        margin_ns: How far a line's stamp may lie before that of a line in front of it.
    """

    def __init__(self, size: int = 16_384, granularity_ns: int = SECOND, *, margin_ns: int = SECOND) -> None:
        if size < 1:
            raise ValueError(f"size must be at least 1, it is {size}")
        if granularity_ns < 1:
            raise ValueError(f"granularity_ns must be at least 1, it is {granularity_ns}")
        self._size = size
        self._granularity = granularity_ns
        self._margin = margin_ns
        # Two arrays and not a deque of pairs: 256 KiB when full instead of 2 MiB, and nothing for a quiet source.
        self._hashes = array("q")
        self._stamps = array("q")
        self._next = 0  # the place of the oldest line, once the ring is full
        self._last: tuple[int, int] | None = None  # hash and stamp of the line that was seen last
        self._newest = 0
        # Lines that have left the ring, by the unit of time in which they were written.
        self._gone: dict[int, int] = {}
        self._gone_newest = -1
        self._forgotten = 0  # units before this one are not counted any more
        self._replay: _Replay | None = None
        self._hole: Hole | None = None

    def note(self, ns: int, stream: Hashable, data: str | bytes) -> bool:
        """Take note of a line, and return whether it is new. If it is, `take_hole` may have something to tell."""
        key = hash((ns, stream, data))
        replay = self._replay
        if replay is not None:
            if self._is_old(replay, key, ns):
                return False
            self._check_anchor(replay, ns)
        self._remember(key, ns)
        return True

    @property
    def replaying(self) -> bool:
        """Whether lines that were seen may come again, so that each has to be looked at by `note`."""
        return self._replay is not None

    def note_new(self, stamps: Sequence[int], streams: Sequence[Hashable], data: Sequence[str | bytes]) -> None:
        """Take note of lines while nothing is sent again: all of them are new.

        It leaves what `note` would leave for each, at a fifth of the cost.

        Args:
            stamps: When each was written, in nanoseconds.
            streams: The stream of each.
            data: The text of each.
        """
        if stamps:  # nobody keeps what `zip` gives, so that it makes one tuple for all of them
            self._remember_all(list(map(hash, zip(stamps, streams, data, strict=True))), stamps)

    def reconnect(self) -> int | None:
        """Return the time to ask from, in nanoseconds, and take what comes next for what the service sends again.

        None if no line has been seen: the service is asked as it was the first time.
        """
        self._replay = None
        if self._last is None:
            return None
        since = self._since()
        pending: dict[int, int] = {}
        for key, ns in zip(self._hashes, self._stamps, strict=True):
            if ns >= since:
                pending[key] = pending.get(key, 0) + 1
        self._replay = _Replay(pending=pending, gone=dict(self._gone), anchor=self._last[0])
        return since

    def end_replay(self) -> None:
        """Say that the service has sent all it has: a last line that did not come again is a hole."""
        if self._replay is not None:
            self._check_anchor(self._replay, None)
            self._replay = None

    def take_hole(self) -> Hole | None:
        """Return the hole in front of the line that was noted last, or at the end, if there is one; once."""
        hole, self._hole = self._hole, None
        return hole

    def _is_old(self, replay: _Replay, key: int, ns: int) -> bool:
        left = replay.pending.get(key, 0)
        if left:
            if left == 1:
                del replay.pending[key]
                replay.anchored = replay.anchored or key == replay.anchor
            else:
                replay.pending[key] = left - 1
            return True
        if ns > self._gone_newest:
            return False
        unit = ns // self._granularity
        if left := replay.gone.get(unit, 0):
            replay.gone[unit] = left - 1
            return True
        # Asked for only after a clock was set back: before the last line that was seen, everything has been seen.
        return unit < self._forgotten and not replay.anchored

    def _check_anchor(self, replay: _Replay, before: int | None) -> None:
        if not replay.anchored:
            replay.anchored = True
            assert self._last is not None
            self._hole = Hole(self._last[1], before)

    def _remember(self, key: int, ns: int) -> None:
        if len(self._hashes) < self._size:
            self._hashes.append(key)
            self._stamps.append(ns)
        else:
            place = self._next
            self._count(self._stamps[place] // self._granularity, 1, self._stamps[place])
            self._hashes[place], self._stamps[place] = key, ns
            self._next = place + 1 if place + 1 < self._size else 0
        self._last = (key, ns)
        if ns > self._newest:
            self._newest = ns

    def _remember_all(self, keys: Sequence[int], stamps: Sequence[int]) -> None:
        at = self._size - len(self._hashes)
        self._hashes.extend(keys[:at])
        self._stamps.extend(stamps[:at])
        self._advance(keys[:at], stamps[:at])
        while at < len(keys):
            place = self._next
            end = min(place + len(keys) - at, self._size)
            self._replace(place, keys[at : at + end - place], stamps[at : at + end - place])
            self._next = end % self._size
            at += end - place

    def _replace(self, place: int, keys: Sequence[int], stamps: Sequence[int]) -> None:
        """Put lines into the ring where as many old ones leave it."""
        end = place + len(keys)
        units = [ns // self._granularity for ns in self._stamps[place:end]]
        start = 0
        for unit, run in groupby(units):
            count = len([*run])
            self._count(unit, count, max(self._stamps[place + start : place + start + count]))
            self._advance(keys[start : start + count], stamps[start : start + count])
            start += count
        self._hashes[place:end] = array("q", keys)
        self._stamps[place:end] = array("q", stamps)

    def _advance(self, keys: Sequence[int], stamps: Sequence[int]) -> None:
        if keys:
            self._last = (keys[-1], stamps[-1])
            self._newest = max(self._newest, *stamps)

    def _count(self, unit: int, lines: int, newest: int) -> None:
        """Count lines of one unit of time that leave the ring."""
        count = self._gone.get(unit)
        if count is None:
            self._forget()
            count = 0
        self._gone[unit] = count + lines
        self._gone_newest = max(self._gone_newest, newest)

    def _forget(self) -> None:
        first = self._since() // self._granularity
        self._gone = {unit: count for unit, count in self._gone.items() if unit >= first}
        self._forgotten = max(self._forgotten, first)

    def _since(self) -> int:
        # Not the newest alone: if a clock was set back, the lines behind that are stamped long before it.
        assert self._last is not None
        return max(min(self._newest, self._last[1]) - self._margin, 0) // self._granularity * self._granularity


@dataclass(slots=True)
class _Replay:
    """What the service may still send again."""

    pending: dict[int, int]
    gone: dict[int, int]
    anchor: int
    anchored: bool = False
