"""Which log streams exist already.

A stream comes into being with its first line, and a query that names one that has not come yet is refused as a whole,
without a word on which one it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from asyncsched.clock import Clock

__all__ = ["Births"]

_FIRST, _LONGEST = 0.4, 2.0


@dataclass(slots=True)
class _Group:
    """Streams that are waited for, and asked for together.

    Attributes:
        streams: Which.
        misses: How often they were asked for in vain.
        due: When to ask again.
    """

    streams: list[str]
    misses: int = 0
    due: float = 0.0


class Births:
    """Remembers which streams exist, and decides when to ask for the others, and with which of them together.

    Streams that come up together are asked for together. A first miss is taken for bad luck, as the streams of one
    job appear within a second or so; after a second one the group is halved, until those that are missing stand
    alone and wait longer. Streams whose program has ended are not waited for: they are there, or will never be.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._existing: set[str] = set()
        self._ended: set[str] = set()
        self._never: set[str] = set()
        self._doubted: set[str] = set()
        self._waiting: list[_Group] = []

    def end(self, stream: str) -> None:
        """Say that nothing more will be written to a stream."""
        self._ended.add(stream)

    def has_ended(self, streams: Iterable[str]) -> bool:
        """Tell whether nothing more will be written to any of these."""
        return self._ended.issuperset(streams)

    def divide(self, streams: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return those of the streams that exist, and those that do not as far as is known."""
        wanted = list(streams)
        expected = {stream for group in self._waiting for stream in group.streams}
        known = self._existing | self._never | expected
        if new := [stream for stream in wanted if stream not in known]:
            self._waiting.append(_Group(new))
        there = [stream for stream in wanted if stream in self._existing]
        return there, [stream for stream in wanted if stream not in self._existing]

    def next_group(self, wanted: Iterable[str], most: int) -> list[str]:
        """Return streams to ask for now, at most so many; none if it is too early for all of them."""
        allowed = set(wanted)
        now = self._clock.monotonic()
        for group in sorted(self._waiting, key=lambda group: group.due):
            chosen = [stream for stream in group.streams if stream in allowed][:most]
            if chosen and group.due <= now:
                rest = [stream for stream in group.streams if stream not in chosen]
                self._replace(group, [chosen, rest], group.misses, group.due)
                return chosen
        return []

    def exist(self, streams: Sequence[str]) -> None:
        """Take note that these have been found."""
        self._existing.update(streams)
        self._doubted.difference_update(streams)
        self._remove(streams)

    def missing(self, streams: Sequence[str]) -> bool:
        """Take note that one of these does not exist; tells whether it is now known of one that was there."""
        group = next(group for group in self._waiting if group.streams == list(streams))
        misses, now = group.misses + 1, self._clock.monotonic()
        if self.has_ended(streams):
            # A single one will never be; among several it is found at once.
            self._replace(group, _halves(streams) if len(streams) > 1 else [], misses, now)
            self._never.update(streams if len(streams) == 1 else ())
        elif misses == 1 or len(streams) == 1:
            self._replace(group, [list(streams)], misses, now + min(_FIRST * 2.0 ** (misses - 1), _LONGEST))
        else:
            self._replace(group, _halves(streams), misses, now)
        lost = len(streams) == 1 and streams[0] in self._doubted
        self._doubted.difference_update(streams if lost else ())
        return lost

    def doubt(self, streams: Iterable[str]) -> None:
        """Take note that one of these, which had been found, is gone."""
        doubtful = list(streams)
        self._existing.difference_update(doubtful)
        self._doubted.update(doubtful)
        self._waiting.append(_Group(doubtful, misses=1))

    def settle(self, streams: Iterable[str]) -> bool:
        """Ask for those of these that have not been found, now and for the last time; tells whether there are any."""
        wanted = set(streams)
        left = [stream for group in self._waiting for stream in group.streams if stream in wanted]
        self._ended.update(left)
        self._remove(left)
        self._waiting += [_Group(left)] if left else []
        return bool(left)

    def forget(self, stream: str) -> None:
        """Take note that nobody asks for this one any more."""
        self._existing.discard(stream)
        self._ended.discard(stream)
        self._never.discard(stream)
        self._doubted.discard(stream)
        self._remove([stream])

    def _replace(self, group: _Group, parts: Iterable[list[str]], misses: int, due: float) -> None:
        self._waiting.remove(group)
        self._waiting += [_Group(part, misses, due) for part in parts if part]

    def _remove(self, streams: Iterable[str]) -> None:
        gone = set(streams)
        for group in self._waiting:
            group.streams = [stream for stream in group.streams if stream not in gone]
        self._waiting = [group for group in self._waiting if group.streams]


def _halves(streams: Sequence[str]) -> list[list[str]]:
    middle = len(streams) // 2
    return [list(streams[:middle]), list(streams[middle:])]
