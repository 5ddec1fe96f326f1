"""Find out which log streams exist.

A stream is created with its first line, or a little before. A query that names a missing stream is refused as a whole,
and the refusal does not say which stream is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from asyncsched.clock import Clock

__all__ = ["Group", "StreamDiscovery"]

_FIRST, _LONGEST = 0.4, 2.0

_IN_VAIN = 1.0
"""Queries per second for streams that must be queried one by one."""


@dataclass(slots=True, eq=False)
class Group:
    """Expected streams that are queried together.

    Attributes:
        streams: The streams.
        how: Query them by name together, search all streams with their prefix, or query them by name in ever smaller
            groups.
        misses: The number of failed queries.
        due: When to query again.
        since: A time (in milliseconds) at which they did not exist; None if unknown.
    """

    streams: list[str]
    how: Literal["together", "search", "apart"] = "together"
    misses: int = 0
    due: float = 0.0
    since: int | None = None


class StreamDiscovery:
    """Remembers which streams exist, and decides when to query the others, and in which groups.

    Streams that are expected together are queried together. After the first miss they are simply queried again, because
    the streams of one job appear within about a second; then one search looks for all of them. Only if the search has
    too many results are they queried in halves, until the missing ones are isolated. Streams of an ended program are
    not waited for: they exist now or never will.
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
        """Record that nothing more will be written to a stream."""
        self._ended.add(stream)

    def has_ended(self, streams: Iterable[str]) -> bool:
        """Return whether nothing more will be written to any of these streams."""
        return self._ended.issuperset(streams)

    def exists(self, stream: str) -> bool:
        """Return whether a stream has been found."""
        return stream in self._existing

    def in_vain(self, stream: str) -> int | None:
        """Return the number of failed searches for a stream; None if it has been found, or never will be."""
        is_settled = stream in self._existing or stream in self._never
        return None if is_settled else self._in_vain[stream]

    def divide(self, streams: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return the streams that are known to exist, and the others."""
        wanted = list(streams)
        expected = {stream for group in self._waiting for stream in group.streams}
        known = self._existing | self._never | expected
        if new := [stream for stream in wanted if stream not in known]:
            self._waiting.append(Group(new))
        there = [stream for stream in wanted if stream in self._existing]
        return there, [stream for stream in wanted if stream not in self._existing]

    def next_group(self, wanted: Iterable[str], most: int, *, at_once: bool = False) -> Group | None:
        """Return a group of streams to query now, with at most `most` queried by name; None if none is due."""
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
        """Record that these streams were found."""
        self._existing.update(streams)
        self._doubted.difference_update(streams)
        self._remove(streams)

    def missing(self, group: Group, asked: Sequence[str], present: int | None, *, at_once: bool = False) -> bool:
        """Record that one of these streams does not exist; return whether a single known stream is now lost.

        Args:
            group: The group to query.
            asked: The streams that were queried.
            present: The newest event's time in milliseconds, if known.
            at_once: Whether a reader needs to know at once which of them is missing.
        """
        if group not in self._waiting or group.streams != asked:
            return False  # A concurrent query has already recorded it.
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
        """Record a search; return the streams that do not exist, or none if the search was incomplete.

        Args:
            group: The group that was searched for.
            found: The streams that were found.
            present: The newest event's time in milliseconds, if known.
            complete: Whether the search covered everything.
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
        """Record that one of these known streams is gone."""
        doubtful = list(streams)
        self._existing.difference_update(doubtful)
        self._doubted.update(doubtful)
        # The existing ones may have been silent for long, so a search of new events would not find them.
        self._waiting.append(Group(doubtful, "apart", misses=1))

    def hasten(self, streams: Iterable[str]) -> None:
        """Query these streams in the next round if they have not been found."""
        wanted = set(streams)
        for group in self._waiting:
            if not wanted.isdisjoint(group.streams):
                group.due = 0.0

    def settle(self, streams: Iterable[str]) -> bool:
        """Query the missing ones of these streams now, for the last time; return whether there are any."""
        wanted = set(streams)
        groups = [(group, [each for each in group.streams if each in wanted]) for group in self._waiting]
        groups = [(group, left) for group, left in groups if left]
        for group, left in groups:
            self._ended.update(left)
            self._remove(left)
            self._add(left, "apart" if group.how == "apart" else "search", group.misses, 0.0, group.since)
        return bool(groups)

    def forget(self, stream: str) -> None:
        """Forget a stream that no longer has readers."""
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
        """Search for these streams again after a pause, unless they have ended."""
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
        """Add streams as a group; merge it with a search for the same prefix."""
        for group in self._waiting:
            alike = how == group.how == "search" and (group.since is None) == (since is None)
            if alike and _folder(group.streams[0]) == _folder(streams[0]):
                # Make a new group: the old one may be in use by a query.
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
