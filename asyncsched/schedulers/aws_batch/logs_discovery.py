"""Which log streams exist already.

A stream comes into being with its first line, or a little before, and a query that names one that has not come yet is
refused as a whole, without a word on which one it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from asyncsched.clock import Clock

__all__ = ["Births", "Group"]

_FIRST, _LONGEST = 0.4, 2.0

_IN_VAIN = 1.0
"""Queries a second in which streams are asked for one by one, where nothing better is possible."""


@dataclass(slots=True, eq=False)
class Group:
    """Streams that are waited for, and asked for together.

    Attributes:
        streams: Which.
        how: By their names in one query; by a search through all streams of their folder; or by their names in
            ever smaller groups.
        misses: How often they were asked for in vain.
        due: When to ask again.
        since: They did not exist when this time (in milliseconds) was the present; None if that is not known.
    """

    streams: list[str]
    how: Literal["together", "search", "apart"] = "together"
    misses: int = 0
    due: float = 0.0
    since: int | None = None


class Births:
    """Remembers which streams exist, and decides when to ask for the others, and with which of them together.

    Streams that come up together are asked for together. A first miss is taken for bad luck, as the streams of one
    job appear within a second or so; then they are searched for, which takes one query for all of them. Only where the
    search finds too much are they asked for in halves, until those that are missing stand alone. Streams whose
    program has ended are not waited for: they are there, or will never be.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._existing: set[str] = set()
        self._ended: set[str] = set()
        self._never: set[str] = set()
        self._doubted: set[str] = set()
        self._in_vain: Counter[str] = Counter()
        self._waiting: list[Group] = []

    def end(self, stream: str) -> None:
        """Say that nothing more will be written to a stream."""
        self._ended.add(stream)

    def has_ended(self, streams: Iterable[str]) -> bool:
        """Tell whether nothing more will be written to any of these."""
        return self._ended.issuperset(streams)

    def exists(self, stream: str) -> bool:
        """Tell whether a stream has been found."""
        return stream in self._existing

    def in_vain(self, stream: str) -> int | None:
        """Return how often a stream was looked for and not found; None if it has been found, or never will be."""
        is_settled = stream in self._existing or stream in self._never
        return None if is_settled else self._in_vain[stream]

    def divide(self, streams: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return those of the streams that exist, and those that do not as far as is known."""
        wanted = list(streams)
        expected = {stream for group in self._waiting for stream in group.streams}
        known = self._existing | self._never | expected
        if new := [stream for stream in wanted if stream not in known]:
            self._waiting.append(Group(new))
        there = [stream for stream in wanted if stream in self._existing]
        return there, [stream for stream in wanted if stream not in self._existing]

    def next_group(self, wanted: Iterable[str], most: int, *, at_once: bool = False) -> Group | None:
        """Return streams to ask for now, at most so many by their names; None if it is too early for all of them."""
        allowed = set(wanted)
        now = self._clock.monotonic()
        for group in sorted(self._waiting, key=lambda group: group.due):
            chosen = [stream for stream in group.streams if stream in allowed]
            if not chosen or (group.due > now and not at_once):
                continue
            if group.how != "search":
                chosen = chosen[:most]
            if len(chosen) == len(group.streams):
                return group
            rest = [stream for stream in group.streams if stream not in chosen]
            self._replace(group, [chosen, rest], group.how, group.misses, group.due, group.since)
            return next(part for part in self._waiting if part.streams == chosen)
        return None

    def exist(self, streams: Sequence[str]) -> None:
        """Take note that these have been found."""
        self._existing.update(streams)
        self._doubted.difference_update(streams)
        self._remove(streams)

    def missing(self, group: Group, asked: Sequence[str], present: int | None, *, at_once: bool = False) -> bool:
        """Take note that one of these does not exist; tells whether it is now known of one that was there.

        Args:
            group: What was to be asked for.
            asked: What was asked for.
            present: The newest event's time in milliseconds, as far as is known.
            at_once: Whether somebody wants to know now which of them it is.
        """
        if group not in self._waiting or group.streams != asked:
            return False  # Somebody else asked for them at the same time, and has taken note.
        if len(group.streams) == 1:
            return self._is_lost(group, present)
        misses, now = group.misses + 1, self._clock.monotonic()
        if group.how == "apart":
            self._replace(group, _halves(group.streams), "apart", misses, now)
        elif misses > 1 or at_once or self.has_ended(group.streams):
            self._waiting.remove(group)
            for folder, streams in _by_folder(group.streams):
                self._add(streams, _how(folder), misses, now, group.since)
        else:
            group.misses, group.due = misses, now + _FIRST
        return False

    def searched(self, group: Group, found: Iterable[str], present: int | None, *, complete: bool) -> list[str]:
        """Take note of a search; returns those that do not exist, none if it was broken off.

        Args:
            group: What was searched for.
            found: The streams that the search came by.
            present: The newest event's time in milliseconds, as far as is known.
            complete: Whether it looked at all that there is.
        """
        if group not in self._waiting:
            return []
        come = set(found)
        there = [stream for stream in group.streams if stream in come]
        rest = [stream for stream in group.streams if stream not in come]
        now = self._clock.monotonic()
        self._replace(group, [there], "together", 1, now)
        if not complete:
            self._waiting += [Group(half, "apart", group.misses, now) for half in _halves(rest) if half]
            return []
        self._wait_for(rest, group.misses + 1, group.since if present is None else present)
        return rest

    def doubt(self, streams: Iterable[str]) -> None:
        """Take note that one of these, which had been found, is gone."""
        doubtful = list(streams)
        self._existing.difference_update(doubtful)
        self._doubted.update(doubtful)
        # Those that are there may have been silent for long: a search through what is new would not find them.
        self._waiting.append(Group(doubtful, "apart", misses=1))

    def hasten(self, streams: Iterable[str]) -> None:
        """Ask for these in the next round, if they have not been found."""
        wanted = set(streams)
        for group in self._waiting:
            if not wanted.isdisjoint(group.streams):
                group.due = 0.0

    def settle(self, streams: Iterable[str]) -> bool:
        """Ask for those of these that have not been found, now and for the last time; tells whether there are any."""
        wanted = set(streams)
        groups = [(group, [each for each in group.streams if each in wanted]) for group in self._waiting]
        groups = [(group, left) for group, left in groups if left]
        for group, left in groups:
            self._ended.update(left)
            self._remove(left)
            self._add(left, "apart" if group.how == "apart" else "search", group.misses, 0.0, group.since)
        return bool(groups)

    def forget(self, stream: str) -> None:
        """Take note that nobody asks for this one any more."""
        self._existing.discard(stream)
        self._ended.discard(stream)
        self._never.discard(stream)
        self._doubted.discard(stream)
        self._in_vain.pop(stream, None)
        self._remove([stream])

    def _is_lost(self, group: Group, present: int | None) -> bool:
        (stream,) = group.streams
        self._waiting.remove(group)
        self._wait_for([stream], group.misses + 1, group.since if present is None else present)
        lost = stream in self._doubted
        self._doubted.discard(stream)
        return lost

    def _wait_for(self, streams: Sequence[str], misses: int, since: int | None) -> None:
        """Search for these again after a pause, unless they have ended."""
        self._in_vain.update(streams)
        if self.has_ended(streams):
            self._never.update(streams)
            return
        alone = sum(group.how == "apart" for group in self._waiting)
        pause = min(_FIRST * 2.0 ** min(misses, 8), max(_LONGEST, alone / _IN_VAIN))
        for folder, inside in _by_folder(streams):
            self._add(inside, _how(folder), misses, self._clock.monotonic() + pause, since)

    def _add(
        self,
        streams: Sequence[str],
        how: Literal["search", "apart"],
        misses: int,
        due: float,
        since: int | None,
    ) -> None:
        """Add streams to those that are searched for in the same folder since the same time, or as a group."""
        for group in self._waiting:
            alike = how == group.how == "search" and (group.since is None) == (since is None)
            if alike and _folder(group.streams[0]) == _folder(streams[0]):
                # Not into the same group: somebody may be asking for it at this moment.
                self._waiting.remove(group)
                streams, due = [*group.streams, *streams], min(group.due, due)
                since = None if since is None or group.since is None else min(since, group.since)
                break
        self._waiting.append(Group(list(streams), how, misses, due, since))

    def _replace(
        self,
        group: Group,
        parts: Iterable[list[str]],
        how: Literal["together", "search", "apart"],
        misses: int,
        due: float,
        since: int | None = None,
    ) -> None:
        self._waiting.remove(group)
        self._waiting += [Group(part, how, misses, due, since) for part in parts if part]

    def _remove(self, streams: Iterable[str]) -> None:
        gone = set(streams)
        for group in self._waiting:
            group.streams = [stream for stream in group.streams if stream not in gone]
        self._waiting = [group for group in self._waiting if group.streams]


def _folder(stream: str) -> str:
    return stream.rpartition("/")[0]


def _how(folder: str) -> Literal["search", "apart"]:
    return "search" if folder else "apart"


def _by_folder(streams: Iterable[str]) -> list[tuple[str, list[str]]]:
    folders: dict[str, list[str]] = {}
    for stream in streams:
        folders.setdefault(_folder(stream), []).append(stream)
    return list(folders.items())


def _halves(streams: Sequence[str]) -> list[list[str]]:
    middle = len(streams) // 2
    return [list(streams[:middle]), list(streams[middle:])]
