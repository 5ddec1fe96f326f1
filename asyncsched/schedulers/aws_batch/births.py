"""Which log streams exist already: a stream comes into being with its first line, and a query that names one that has
not come yet is refused as a whole, without a word on which one it was."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from asyncsched.clock import Clock

__all__ = ["Births"]

_FIRST, _LONGEST = 0.4, 5.0


@dataclass(slots=True)
class _Expected:
    """A stream that is waited for.

    Attributes:
        misses: How often it was asked for in vain, alone or with others.
        due: When to ask again.
    """

    misses: int = 0
    due: float = 0.0


class Births:
    """Remembers which streams exist, and decides when to ask again for the others, and with which of them together.

    All that are due are asked for at once. A first miss is taken for bad luck (streams of one job appear within a
    second or so); after a second one the group is halved until those that are missing stand alone, and wait longer
    and longer.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._existing: set[str] = set()
        self._expected: dict[str, _Expected] = {}

    def divide(self, streams: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return the streams that exist, and those that are worth asking for now."""
        now = self._clock.monotonic()
        there = [stream for stream in streams if stream in self._existing]
        waiting = [stream for stream in streams if stream not in self._existing]
        due = [stream for stream in waiting if self._expected.setdefault(stream, _Expected()).due <= now]
        return there, due

    def exist(self, streams: Iterable[str]) -> None:
        """Take note that these have been found."""
        for stream in streams:
            self._existing.add(stream)
            self._expected.pop(stream, None)

    def doubt(self, streams: Iterable[str]) -> None:
        """Take note that one of these, which had been found, is gone."""
        for stream in streams:
            self._existing.discard(stream)
            self._expected[stream] = _Expected(misses=1)

    def halves(self, streams: Sequence[str]) -> list[list[str]]:
        """Take note that one of these is missing; returns the groups to try at once."""
        first_time = all(self._state(stream).misses == 0 for stream in streams)
        for stream in streams:
            state = self._state(stream)
            state.misses += 1
            if first_time or len(streams) == 1:
                state.due = self._clock.monotonic() + min(_FIRST * 2.0 ** (state.misses - 1), _LONGEST)
        if first_time or len(streams) == 1:
            return []
        middle = len(streams) // 2
        return [list(streams[middle:]), list(streams[:middle])]

    def forget(self, stream: str) -> None:
        """Take note that nobody asks for this one any more."""
        self._existing.discard(stream)
        self._expected.pop(stream, None)

    def _state(self, stream: str) -> _Expected:
        return self._expected.setdefault(stream, _Expected())
