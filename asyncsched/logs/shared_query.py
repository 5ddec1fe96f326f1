"""One shared query for many log streams, for services that must be polled."""

from __future__ import annotations

import abc
import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing

from asyncsched._streams import for_one
from asyncsched._tasks import SharedTask
from asyncsched._typing import NamedTuple
from asyncsched.clock import Clock, wait_for_event
from asyncsched.errors import SchedulerError
from asyncsched.logs.backoff import Backoff
from asyncsched.logs.line import LogLine
from asyncsched.logs.loop_time import budget_of
from asyncsched.logs.shared_source import HubSource

__all__ = ["HubEvent", "HubStatistics", "LogHub"]

_log = logging.getLogger("asyncsched.logs")

SECOND = 1_000_000_000


class HubEvent(NamedTuple):
    """A line from a service that stores lines as events.

    Attributes:
        key: The service's stream that it belongs to.
        id: Its unique id in that stream.
        line: The line; its `ns` is set.
        arrived_ns: When the service received it, if the query uses that instead of the line's time.
    """

    key: str
    id: str
    line: LogLine
    arrived_ns: int | None = None

    @property
    def ns(self) -> int:
        """The time that the query uses, in nanoseconds."""
        return (self.line.ns or 0) if self.arrived_ns is None else self.arrived_ns


class HubStatistics(NamedTuple):
    """The statistics of a hub.

    Attributes:
        keys: Streams of the service that the shared query reads.
        sources: Sources that the shared query serves now, without those that are catching up.
        rounds: How often the shared query was made.
        catching_up: How often a source read by itself.
        interval: Seconds until the next round, unless a source needs it sooner.
        failures: Failures of the shared query since its last success.
    """

    keys: int
    sources: int
    rounds: int
    catching_up: int
    interval: float
    failures: int


class LogHub(abc.ABC):
    """Reads the new lines of all followed streams with one query, and passes them to their sources.

    The query runs from the first source that has caught up to the last. Each round reads the last `overlap` seconds
    again, because services make lines visible late; sources skip lines whose ids they have seen. A hub belongs to the
    loop of its sources.

    Args:
        clock: The time source for pauses.
        overlap: How many seconds late a line may become visible, compared with newer lines of the hub's streams.
        shortest: Seconds between two rounds while lines come.
        longest: Most seconds between two rounds while no lines come.
        retry_for: Seconds of failures after which the sources fail.
        remember: Seconds for which sources remember ids; `overlap` by default. Use more if the hub sometimes reads
            more than the overlap, as before a log's end.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        overlap: float = 15.0,
        shortest: float = 0.5,
        longest: float = 5.0,
        retry_for: float = 60.0,
        remember: float | None = None,
    ) -> None:
        self.clock = clock
        self.overlap_ns = round(overlap * SECOND)
        self.remember_ns = self.overlap_ns if remember is None else round(remember * SECOND)
        self.retry_for = retry_for
        self._shortest = shortest
        self._longest = longest
        self._interval = shortest
        self._members: dict[str, dict[HubSource, None]] = {}  # by key
        self._sources: dict[HubSource, None] = {}
        self._newest: int | None = None
        self._from: int | None = None  # where the next round begins; None for the beginning
        self._wake = asyncio.Event()
        self._task = SharedTask(f"log hub {type(self).__name__}")
        self._rounds = 0
        self._catching_up = 0
        self._backoff = Backoff(clock, retry_for=retry_for, shortest=shortest)

    @abc.abstractmethod
    def pages(self, keys: Sequence[str], since_ns: int | None) -> AsyncGenerator[Sequence[HubEvent]]:
        """Yield the events of these streams from `since_ns` up to now, in the service's pages.

        Within one stream, events are in the order of their times, except those that became visible late. A stream that
        does not exist yet has no events. Failures raise a SchedulerError; `retryable` ones are tried again. Several
        tasks call it at a time, and it paces its calls itself.
        """

    def source(
        self,
        keys: Iterable[str] = (),
        *,
        since_ns: int | None = None,
        tail: bool = False,
        role: str = "",
        replica: int = -1,
        room: int = 10_000,
        settle_polls: int = 3,
    ) -> HubSource:
        """Return a source of these streams' lines.

        It reads by itself from `since_ns` until it has caught up; then the shared query serves it. A full source leaves
        the query, and catches up again when its consumer continues.

        Args:
            keys: The service's streams; more can be added at any time.
            since_ns: Where to begin; None for the beginning.
            tail: Whether to follow the log after its present end.
            role: The role, for messages; empty if it reads several.
            replica: The replica's number in the role; -1 if it reads several.
            room: Most lines to hold (or one page, if that is more).
            settle_polls: After `finish`, the source ends after this many rounds without a line for it.
        """
        return HubSource(
            self,
            keys,
            since_ns=since_ns,
            tail=tail,
            role=role,
            replica=replica,
            room=room,
            settle_polls=settle_polls,
        )

    def statistics(self) -> HubStatistics:
        """Return the hub's statistics."""
        return HubStatistics(
            keys=len(self._members),
            sources=len(self._sources),
            rounds=self._rounds,
            catching_up=self._catching_up,
            interval=self._interval,
            failures=self._backoff.failures,
        )

    # What sources do.

    @property
    def newest(self) -> int | None:
        """The time of the newest line that any source received, in nanoseconds."""
        return self._newest

    def note(self, ns: int) -> None:
        """Record a line's time."""
        ns = min(ns, self.clock.time_ns())  # a machine whose clock is ahead must not hide the lines of others
        if self._newest is None or ns > self._newest:
            self._newest = ns

    def count_catching_up(self) -> None:
        """Record that a source reads by itself."""
        self._catching_up += 1

    def join(self, source: HubSource, keys: Iterable[str], since_ns: int | None) -> None:
        """Serve `source` with lines of these streams; it has everything that was visible at `since_ns`."""
        if not self._sources:
            self._from = since_ns
        elif self._from is not None:
            self._from = None if since_ns is None else min(self._from, since_ns)
        self._sources[source] = None
        for key in keys:
            self._members.setdefault(key, {})[source] = None
        self._task.begin(self._run)

    def leave(self, source: HubSource, keys: Iterable[str]) -> None:
        """Stop serving `source`; the query ends with the last one."""
        if source not in self._sources:
            return
        del self._sources[source]
        for key in keys:
            members = self._members.get(key, {})
            members.pop(source, None)
            if not members:
                self._members.pop(key, None)
        if not self._sources:
            self._task.end()

    def last_look(self, keys: Iterable[str]) -> bool:
        """Return whether these streams need one more round before their end, because a round may not read all."""
        return False

    def hurry(self) -> None:
        """Start the next round soon, because a source waits for its last lines."""
        self._interval = self._shortest
        self._wake.set()

    async def settle(self) -> None:
        """Wait until the query has stopped, if no source is served."""
        await self._task.settle()

    # The hub's own task.

    async def _run(self) -> None:
        try:
            while True:
                self._wake.clear()
                await wait_for_event(self._wake, self.clock, self._interval)
                while (pause := await self._round()) is not None:
                    await self.clock.sleep(pause)  # without the interval on top, since the next try may work
        except Exception as error:  # noqa: BLE001 - readers must get the error, not wait forever
            for source in list(self._sources):
                source.fail(for_one(error))

    async def _round(self) -> float | None:
        """Read once for all sources; return the seconds to wait before a retry if that failed."""
        served = dict(self._sources)
        before = {source: source.taken for source in served}
        # A source that joins meanwhile may move `_from` back. Lines that this round misses are not older than `start`.
        start = self._from
        self._from = start if self._newest is None else self._newest - self.overlap_ns
        try:
            await self._ask(list(self._members), start)
        except SchedulerError as error:
            self._from = start if start is None or self._from is None else min(start, self._from)
            pause = self._backoff.failed(error)
            _log.warning("asking for new log lines failed, trying again: %s", error)
            return pause
        self._backoff.worked()
        self._rounds += 1
        moved = False
        for source, taken in before.items():
            moved = moved or source.taken != taken
            if source in self._sources:
                source.polled(quiet=source.taken == taken)
        self._interval = self._shortest if moved else min(self._interval * 1.5, self._longest)
        return None

    async def _ask(self, keys: Sequence[str], since_ns: int | None) -> None:
        budget = budget_of(asyncio.get_running_loop())
        async with aclosing(self.pages(keys, since_ns)) as pages:
            async for page in pages:
                budget.begin()
                self._hand_out(page)
                await budget.breathe()

    def _hand_out(self, page: Sequence[HubEvent]) -> None:
        """Pass each source its part of a page in one call."""
        parts: dict[HubSource, list[HubEvent]] = {}
        for event in page:
            for source in self._members.get(event.key, ()):
                parts.setdefault(source, []).append(event)
        for source, events in parts.items():
            source.offer(events)
