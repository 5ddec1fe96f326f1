"""Deliver each line exactly once over connections that break, for services that stamp lines with nanoseconds.

After a break the service is read again from shortly before the newest line, and repeats some lines. A ring of hashes
recognises the last lines. Older lines, which have left the ring, are recognised by counting them, because the service
repeats lines in the same order.
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
    """A time range in which lines are missing.

    Attributes:
        after: When the last line before the hole was written, in nanoseconds.
        before: When the first line after it was written; None if there is none.
    """

    after: int
    before: int | None


class Resume:
    """Separates new lines from those that were seen before the connection broke.

    Stamps need not be unique, nor strictly in order: two streams of one replica are stamped separately. Lines that
    cannot be read again are reported as a hole. A line that was seen is never returned again.

    Args:
        size: How many lines to remember.
        granularity_ns: The precision of the service's start time.
        margin_ns: How much earlier than the line before it a line may be stamped.
    """

    def __init__(self, size: int = 16_384, granularity_ns: int = SECOND, *, margin_ns: int = SECOND) -> None:
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        if granularity_ns < 1:
            raise ValueError(f"granularity_ns must be at least 1, got {granularity_ns}")
        self._size = size
        self._granularity = granularity_ns
        self._margin = margin_ns
        # Two arrays, not a deque of pairs: 256 KiB when full instead of 2 MiB, and nothing for a quiet source.
        self._hashes = array("q")
        self._stamps = array("q")
        self._next = 0  # the place of the oldest line, once the ring is full
        self._last: tuple[int, int] | None = None  # hash and stamp of the last line
        # The number of lines that have left the ring, by the unit of time in which they were written.
        self._gone: dict[int, int] = {}
        self._most_units = 0  # the units that are no longer needed are dropped when so many are counted
        self._gone_newest = -1
        self._forgotten = 0  # units before this one are no longer counted
        self._replay: _Replay | None = None
        self._hole: Hole | None = None

    def note(self, ns: int, stream: Hashable, data: str | bytes) -> bool:
        """Record a line, and return whether it is new. If so, call `take_hole`: there may be a hole before it."""
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
        """Whether old lines may be repeated, so that `note` must check each line."""
        return self._replay is not None

    def note_new(self, stamps: Sequence[int], streams: Sequence[Hashable], data: Sequence[str | bytes]) -> None:
        """Record lines while nothing is repeated, so that all of them are new.

        The effect is that of `note` for each line, at a fifth of the cost.

        Args:
            stamps: When each was written, in nanoseconds.
            streams: The stream of each.
            data: The text of each.
        """
        if stamps:  # nothing keeps the tuples, so `zip` reuses one tuple
            self._remember_all(list(map(hash, zip(stamps, streams, data, strict=True))), stamps)

    def reconnect(self) -> int | None:
        """Start a replay, and return the time to read from, in nanoseconds.

        None if no line was seen: then read as the first time.
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
        """End a replay: the service has sent everything. If the last line was not repeated, there is a hole."""
        if self._replay is not None:
            self._check_anchor(self._replay, None)
            self._replay = None

    def take_hole(self) -> Hole | None:
        """Return the hole before the last noted line, or at the end, if any; each hole is returned once."""
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
        # Only after a clock was set back: everything before the last seen line was seen.
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

    def _remember_all(self, keys: Sequence[int], stamps: Sequence[int]) -> None:
        at = 0
        if room := self._size - len(self._hashes):
            self._hashes.extend(keys[:room])
            self._stamps.extend(stamps[:room])
            at = min(room, len(keys))
            self._last = (keys[at - 1], stamps[at - 1])
        while at < len(keys):
            place = self._next
            end = min(place + len(keys) - at, self._size)
            self._replace(place, keys[at : at + end - place], stamps[at : at + end - place])
            self._next = end % self._size
            at += end - place

    def _replace(self, place: int, keys: Sequence[int], stamps: Sequence[int]) -> None:
        """Replace old lines in the ring by as many new ones."""
        end = place + len(keys)
        leaving = self._stamps[place:end]
        newest = max(leaving)
        unit = newest // self._granularity
        if min(leaving) // self._granularity == unit:  # the usual case, without Python code for each line
            self._count(unit, len(leaving), newest)
            self._last = (keys[-1], stamps[-1])
        else:
            start = 0
            for unit, run in groupby([ns // self._granularity for ns in leaving]):
                count = len([*run])
                self._count(unit, count, max(leaving[start : start + count]))
                start += count
                self._last = (keys[start - 1], stamps[start - 1])
        self._hashes[place:end] = array("q", keys)
        self._stamps[place:end] = array("q", stamps)

    def _count(self, unit: int, lines: int, newest: int) -> None:
        """Count lines of one unit of time that leave the ring."""
        count = self._gone.get(unit)
        if count is None:
            count = 0
            if len(self._gone) >= self._most_units:
                self._forget()
        self._gone[unit] = count + lines
        self._gone_newest = max(self._gone_newest, newest)

    def _forget(self) -> None:
        first = self._since() // self._granularity
        self._gone = {unit: count for unit, count in self._gone.items() if unit >= first}
        self._most_units = 2 * len(self._gone)  # not at each new unit: that would take quadratic time
        self._forgotten = max(self._forgotten, first)

    def _since(self) -> int:
        # Not from the newest line on: if a clock was set back, later lines have much earlier stamps.
        assert self._last is not None
        return max(self._last[1] - self._margin, 0) // self._granularity * self._granularity


@dataclass(slots=True)
class _Replay:
    """The lines that the service may still repeat."""

    pending: dict[int, int]
    gone: dict[int, int]
    anchor: int
    anchored: bool = False
