"""Read Cloud Logging with one query for all jobs of a project, shared by all readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from asyncsched._typing import NamedTuple, override
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
"""Consecutive reads refused for the quota after which readers get an error."""

_ROOM = 4000

_AT_ONCE = 100
"""Entries converted in one step: a page of a thousand would block the loop for too long."""


class LogTimes(NamedTuple):
    """Times to wait, in seconds.

    Attributes:
        interval: The shortest pause between two queries while lines arrive.
        idle: The longest pause between two queries while no lines arrive.
        hold: The age of an entry when it is read; until then, earlier entries may still arrive.
        overlap: How much later than others an entry may arrive to be found by the next query.
        settle: How long to wait for entries after an app's end.
        sweep: How far back to read once more before a log ends.
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
        budget: Limits how often pages are read.
        clock: The time source.
        times: The times to wait.
        retry_for: Seconds of failures after which readers get an error.
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
        """Register a reader of a job, with the job's app and role."""
        self._entries.jobs[uid] = app_id, role
        self._readers[uid] += 1

    def forget(self, uid: str) -> None:
        """Unregister a reader of a job."""
        self._readers[uid] -= 1
        if not self._readers[uid]:
            del self._readers[uid]
            self._entries.forget(uid)
            self._sweeps.discard(uid)

    def sweep(self, uid: str) -> None:
        """Read once more, with the next query, all entries of a job that arrived in the last minutes."""
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
        """Yield the lines of these jobs that arrived in a period.

        Args:
            keys: Google's ids of the jobs.
            since_ns: The start of the period.
            until_ns: The end of the period; None for now.
            replica: Read the lines of this replica only.
        """
        for start in range(0, len(keys), MAX_UIDS):
            uids = keys[start : start + MAX_UIDS]
            body = query_of(self._project, uids, since_ns=since_ns or 0, until_ns=until_ns, replica=replica)
            while True:
                page = await self._page(body)
                entries = page.get("entries") or ()
                for first in range(0, len(entries) or 1, _AT_ONCE):  # lets other tasks run in between
                    yield self._entries.read(entries[first : first + _AT_ONCE])
                # An empty page may be followed by others: Google returns one when its search takes long.
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
        hub: The hub that reads entries.
        uid: Google's id of the job.
        query: The query.
        role: The replicas' role.
        replicas: The replicas to read.
        since_ns: The start.
        settled: Whether no new entries can arrive, so that only the existing ones are read.
        settle: Seconds to wait once the app's end is known.
        is_over: Whether the app had already ended, so that all lines were written before reading started.
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
            quiet = False  # the last lines may not be visible yet
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
