"""Order the lines of a replica's attempts, which have separate streams, without I/O."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from asyncsched.logs.line import LogGap, LogLine, gap_line, utc

__all__ = ["ARRIVED", "PATIENCE", "AttemptOrder"]

Replica = tuple[str, int]

ARRIVED = 60.0
"""Seconds after its end until all lines of a container have arrived."""

PATIENCE = 10.0
"""Seconds after its end from which an attempt delays the next ones by one more query only."""


@dataclass(slots=True, eq=False)
class _Attempt:
    """The reading progress of one attempt of a replica.

    Attributes:
        keys: Its streams.
        ended: When it was known to have ended, by the local clock; None before.
        looks: Queries without a new line since then; a query already in flight does not count.
        rounds: All queries since then.
        in_vain: The number of failed searches for each of its streams that has not been found.
        is_read: Whether its end has been read, once none of its streams is behind.
    """

    keys: list[str] = field(default_factory=list[str])
    ended: float | None = None
    looks: int = -1
    rounds: int = -1
    in_vain: dict[str, int] = field(default_factory=dict[str, int])
    is_read: bool = False


class AttemptOrder:
    """Holds back the lines of each attempt of a replica until the earlier attempts have been read.

    An attempt has been read when it has ended and `polls` queries found nothing new; for a stream that has not been
    found, a failed search counts as a query. After `PATIENCE` one query is enough. Lines that arrive even later are
    out of order, and a gap marks them.

    Args:
        polls: The number of queries.
    """

    def __init__(self, polls: int) -> None:
        self._polls = polls
        self._of: dict[Replica, dict[int, _Attempt]] = {}
        self._places: dict[str, Replica] = {}
        self._ending: dict[Replica, dict[int, _Attempt]] = {}  # attempts whose end has not been read yet
        self._delivered: dict[Replica, int] = {}  # the attempt of the newest line, for replicas with several attempts
        self._unfound: list[_Attempt] = []
        self._active: set[tuple[str, int, int | None]] = set()

    def add(self, replica: Replica, number: int, key: str, now: float, *, is_over: bool) -> None:
        """Add a stream.

        Args:
            replica: Its replica.
            number: The attempt, counted from 0.
            key: The stream.
            now: The current time.
            is_over: Whether reading it once is enough: nothing more can arrive, or nobody waits for it.
        """
        numbers = self._of.setdefault(replica, {})
        attempt = numbers.setdefault(number, _Attempt(is_read=is_over))
        attempt.keys.append(key)
        self._places[key] = replica
        if len(numbers) > 1:
            self._of[replica] = dict(sorted(numbers.items()))
            self._delivered.setdefault(replica, min(numbers))
            for before in list(self._of[replica])[:-1]:
                self.end(replica, before, now)

    def end(self, replica: Replica, number: int, when: float) -> None:
        """Record that an attempt had ended by that time."""
        attempt = self._of.get(replica, {}).get(number)
        if attempt is None:
            return
        if attempt.ended is None and not attempt.is_read:
            self._ending.setdefault(replica, {})[number] = attempt
        attempt.ended = when if attempt.ended is None else min(when, attempt.ended)

    def ready(self, behind: Iterable[str]) -> list[str]:
        """Return the streams, among those behind, that need not wait for an earlier attempt."""
        late: dict[Replica, set[str]] = {}
        for key in behind:
            late.setdefault(self._places[key], set()).add(key)
        return [key for replica, keys in late.items() for key in self._next(replica, keys)]

    def _next(self, replica: Replica, behind: set[str]) -> list[str]:
        for attempt in self._of[replica].values():
            if keys := [key for key in attempt.keys if key in behind]:
                return keys
            if not attempt.is_read:
                break
        return []

    def looked(self, now: float, behind: Collection[str], in_vain: Callable[[str], int | None]) -> bool:
        """Record a query of all streams; return whether this completed the reading of an attempt.

        Args:
            now: The current time.
            behind: Streams not included, because they must be read from their beginning.
            in_vain: Returns the number of failed searches for a stream; None for a stream that exists.
        """
        active, self._active = self._active, set()
        is_any_read = False
        for replica, ending in list(self._ending.items()):
            for number, attempt in list(ending.items()):
                if behind and not set(attempt.keys).isdisjoint(behind):
                    attempt.looks = attempt.rounds = 0  # The query that it still gets does count.
                    continue
                self._look(attempt, now, in_vain, quiet=(*replica, number) not in active)
                if attempt.is_read:
                    is_any_read = True
                    del ending[number]
                    self._unfound += [attempt] if attempt.in_vain else []
            if not ending:
                del self._ending[replica]
        return is_any_read

    def _look(self, attempt: _Attempt, now: float, in_vain: Callable[[str], int | None], *, quiet: bool) -> None:
        before = attempt.in_vain
        attempt.in_vain = {key: count for key in attempt.keys if (count := in_vain(key)) is not None}
        searched = all(count > before.get(key, 0) for key, count in attempt.in_vain.items())
        attempt.rounds += 1
        if not quiet:
            attempt.looks = 0
        elif searched or attempt.looks < 0:
            attempt.looks += 1
        is_late = attempt.ended is not None and now - attempt.ended >= PATIENCE
        attempt.is_read = attempt.looks >= self._polls or (is_late and attempt.rounds > 0)

    def missing(self) -> Iterator[str]:
        """Yield the streams that have not been found and delay others."""
        for replica, ending in self._ending.items():
            last = next(reversed(self._of[replica]))
            for number, attempt in ending.items():
                if number != last:
                    yield from attempt.in_vain

    def given_up(self, now: float) -> list[str]:
        """Return, once, the streams that will no longer appear: `ARRIVED` seconds after their attempt's end."""
        late = [each for each in self._unfound if each.ended is not None and now - each.ended >= ARRIVED]
        if late:
            self._unfound = [each for each in self._unfound if each not in late]
        return [key for attempt in late for key in attempt.in_vain]

    def arrange(self, lines: list[LogLine]) -> list[LogLine]:
        """Return these lines, with a gap before lines that follow those of a later attempt."""
        if self._ending:
            self._active.update({(line.role, line.replica, line.attempt) for line in lines})
        if not self._delivered:
            return lines
        return [each for line in lines for each in self._in_place(line)]

    def _in_place(self, line: LogLine) -> Sequence[LogLine]:
        source = line.source
        replica = source.role, source.replica
        newest = self._delivered.get(replica)
        if newest is None or source.attempt is None or line.gap is not None:
            return (line,)
        self._delivered[replica] = source.attempt
        if source.attempt >= newest:
            return (line,)
        reason = (
            f"lines of attempt {source.attempt} became readable only after those of attempt {newest} had been "
            "delivered: they follow here, out of order"
        )
        return gap_line(LogGap(before=None if line.ns is None else utc(line.ns), reason=reason), source, line.ns), line
