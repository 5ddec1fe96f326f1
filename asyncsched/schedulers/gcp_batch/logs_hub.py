"""Cloud Logging as a hub: one query for all jobs of a project that are read, whoever reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

from asyncsched._typing import override
from asyncsched.clock import Clock
from asyncsched.errors import ThrottledError
from asyncsched.logs.query import LogQuery
from asyncsched.logs.shared_query import HubEvent, LogHub
from asyncsched.logs.shared_source import HubSource
from asyncsched.schedulers.gcp_batch.errors import failure_of
from asyncsched.schedulers.gcp_batch.logs_budget import ReadBudget
from asyncsched.schedulers.gcp_batch.logs_entries import MAX_UIDS, EntryReader, query_of

__all__ = ["EntryHub", "JobLog", "LogTimes"]

Read = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]

MAX_REFUSALS = 30
"""Reads in a row that are refused for the quota, after which readers are told."""

_ROOM = 4000

_AT_ONCE = 100
"""Entries whose lines are made in one step: a page of a thousand would hold the loop for too long."""


class LogTimes(NamedTuple):
    """How long what is waited for, in seconds.

    Attributes:
        interval: Between two looks while lines come; at least.
        idle: Between two looks while none come; at most.
        hold: How old an entry is when it is looked for: until then one that was written before it may turn up.
        overlap: How much later than others an entry may turn up and still be found by the next look.
        settle: How long after an app's end entries are waited for.
        sweep: How far back is looked once more before a log ends.
    """

    interval: float = 2.0
    idle: float = 10.0
    hold: float = 3.0
    overlap: float = 20.0
    settle: float = 20.0
    sweep: float = 120.0


class EntryHub(LogHub):
    """The logs of one project's jobs.

    Args:
        read: Reads a page of entries.
        project: The project.
        budget: How often that may be done.
        clock: Tells the time.
        times: How long what is waited for.
        retry_for: Seconds of failures after which the readers are told.
    """

    def __init__(
        self, read: Read, project: str, *, budget: ReadBudget, clock: Clock, times: LogTimes, retry_for: float
    ) -> None:
        super().__init__(
            clock=clock,
            overlap=times.overlap,
            shortest=times.interval,
            longest=times.idle,
            retry_for=retry_for,
            remember=max(times.sweep, times.overlap),
        )
        self._read_page, self._project, self._budget, self.times = read, project, budget, times
        self._entries = EntryReader()
        self._readers: Counter[str] = Counter()
        self._sweeps: set[str] = set()

    def __repr__(self) -> str:
        return f"<EntryHub {self._project}: {len(self._readers)} jobs, {self._budget.reads} reads>"

    def know(self, uid: str, app_id: str, role: str) -> None:
        """Say whose a job is, once for each reader of it."""
        self._entries.jobs[uid] = app_id, role
        self._readers[uid] += 1

    def forget(self, uid: str) -> None:
        """Take note that a reader of a job has gone."""
        self._readers[uid] -= 1
        if not self._readers[uid]:
            del self._readers[uid]
            self._entries.forget(uid)
            self._sweeps.discard(uid)

    def sweep(self, uid: str) -> None:
        """Look once more, in the next round, for all that has arrived of a job in the last minutes."""
        self._sweeps.add(uid)
        self.hurry()

    @override
    async def pages(self, keys: Sequence[str], since_ns: int | None) -> AsyncGenerator[Sequence[HubEvent]]:
        until = self.clock.time_ns() - round(self.times.hold * 1e9)
        swept = [key for key in keys if key in self._sweeps]
        async with aclosing(self.past(keys, since_ns, until_ns=until)) as pages:
            async for events in pages:
                yield events
        if swept:
            since = (until if self.newest is None else min(self.newest, until)) - self.remember_ns
            async with aclosing(self.past(swept, since, until_ns=until)) as pages:
                async for events in pages:
                    yield events
            self._sweeps.difference_update(swept)

    async def past(
        self, keys: Sequence[str], since_ns: int | None, *, until_ns: int | None = None, replica: int | None = None
    ) -> AsyncGenerator[Sequence[HubEvent]]:
        """Yield the lines of these jobs that arrived in a time.

        Args:
            keys: The jobs, by what Google calls them.
            since_ns: From when on.
            until_ns: Until when; None for what is there at present.
            replica: Only the lines of this one.
        """
        for start in range(0, len(keys), MAX_UIDS):
            uids = keys[start : start + MAX_UIDS]
            body = query_of(self._project, uids, since_ns=since_ns or 0, until_ns=until_ns, replica=replica)
            while True:
                page = await self._page(body)
                entries = page.get("entries") or ()
                for first in range(0, len(entries) or 1, _AT_ONCE):  # other tasks have a turn between two of them
                    yield self._entries.read(entries[first : first + _AT_ONCE])
                # A page may be empty and have others behind it: Google had not the time to search on.
                if not page.get("nextPageToken"):
                    break
                body["pageToken"] = page["nextPageToken"]

    async def _page(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        refused = 0
        while True:
            await self._budget.turn()
            try:
                return await self._read_page(body)
            except ThrottledError as error:
                refused += 1
                self._budget.throttled(_limit_of(error), error.retry_after)
                if refused > MAX_REFUSALS:
                    raise


def _limit_of(error: ThrottledError) -> int | None:
    failure = failure_of(error)
    value = failure.metadata.get("quota_limit_value", "") if failure is not None else ""
    return int(value) if value.isdigit() else None


class JobLog(HubSource):
    """The lines of some replicas of one job.

    Args:
        hub: What reads them.
        uid: The job.
        query: What is asked for.
        role: The replicas' role.
        replicas: The replicas that are read.
        since_ns: From when on.
        settled: Whether nothing new can turn up: then what is there is read, and that is all.
        settle: Seconds that have to pass after the app's end is known.
        is_over: Whether the app had ended before: then all lines had been written when the reading began.
    """

    def __init__(
        self,
        hub: EntryHub,
        uid: str,
        query: LogQuery,
        *,
        role: str,
        replicas: frozenset[int],
        since_ns: int,
        settled: bool,
        settle: float,
        is_over: bool,
    ) -> None:
        only = next(iter(replicas)) if len(replicas) == 1 else None
        super().__init__(
            hub,
            (uid,),
            since_ns=since_ns,
            tail=not settled,
            role=role,
            replica=-1 if only is None else only,
            room=_ROOM,
            settle_polls=1,
        )
        self._entries, self._uid, self._query = hub, uid, query
        self._replicas, self._only, self._settled = replicas, only, settled
        self._settle, self._ended_at = settle, 0.0
        self._is_over = is_over
        self._swept = settled
        self._known = True
        hub.know(uid, query.app_id, role)

    @property
    @override
    def backlog(self) -> bool:
        return super().backlog or (self._is_over and not self.ended)

    @override
    def finish(self) -> None:
        if not self._finishing:
            self._ended_at = self._entries.clock.monotonic()
        super().finish()

    @override
    async def pages(self, keys: Sequence[str], since_ns: int | None) -> AsyncGenerator[Sequence[HubEvent]]:
        hold = self._entries.times.hold
        until = None if self._settled else self._entries.clock.time_ns() - round(hold * 1e9)
        async with aclosing(self._entries.past(keys, since_ns, until_ns=until, replica=self._only)) as pages:
            async for events in pages:
                yield self._wanted(events)

    @override
    def offer(self, events: Sequence[HubEvent]) -> None:
        super().offer(self._wanted(events))

    @override
    def polled(self, *, quiet: bool) -> None:
        waited = self._entries.clock.monotonic() - self._ended_at
        if self._finishing and waited < self._settle:
            quiet = False  # what was written last may not be visible yet
        elif self._finishing and quiet and not self._swept and not self._behind:
            self._swept, quiet = True, False
            self._entries.sweep(self._uid)
        super().polled(quiet=quiet)

    @override
    async def aclose(self) -> None:
        await super().aclose()
        if self._known:
            self._known = False
            self._entries.forget(self._uid)

    def _wanted(self, events: Sequence[HubEvent]) -> Sequence[HubEvent]:
        attempts = self._query.attempts
        return [
            event
            for event in events
            if (origin := event.line.source).replica in self._replicas
            and (attempts is None or origin.attempt in attempts)
        ]
