"""`JobGroup`: runs many jobs, a limited number at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from asyncsched._loops import AsyncOnly
from asyncsched._streams import Waiter, for_one
from asyncsched._tasks import outlast
from asyncsched._torchx import TorchXApp, adopted
from asyncsched.errors import ClosedError
from asyncsched.logs.query import LogArguments, LogSelection, check_names
from asyncsched.logs.stream import LogStream
from asyncsched.runner.activity import ActivityStream
from asyncsched.runner.groups.completed import CompletedJobs
from asyncsched.runner.groups.job import Job, JobCounts
from asyncsched.specs.app import AppDef
from asyncsched.specs.copies import copied
from asyncsched.specs.handle import AppHandle
from asyncsched.specs.state import AppStatus

if TYPE_CHECKING:
    from asyncsched.runner.groups.engine import Engine
    from asyncsched.runner.groups.keeper import LogKeeper
    from asyncsched.runner.groups.settings import CfgOf

__all__ = ["JobGroup"]

CANCEL_TIMEOUT = 60.0
"""Seconds for which `JobGroup.cancel` waits for its requests to be sent, at most."""

_log = logging.getLogger("asyncsched.runner")


class JobGroup(AsyncOnly):
    """Jobs that are launched as slots become free, retried, followed and ended together. Created by `Runner.group`.

    ::

        async with runner.group(limit=8, retries=1) as group:
            for app in apps:
                group.start(app)
            async for job in group.as_completed():
                print(group, job.name, job.state)

    Use it with ``async with``, or keep it across the cells of a notebook and end it with `aclose`. It may be entered in
    one task and closed in another.

    The end of the block waits for all jobs. If jobs failed, it raises one ExceptionGroup, unless the group has
    ``on_failure="continue"`` or was ended by `cancel`. If the body raises or is cancelled, no more jobs start, running
    jobs are ended or left as `on_leave` says, and the exception propagates.
    """

    def __init__(self, engine: Engine) -> None:
        from asyncsched.runner.groups.job_requests import JobRequests  # loaded with the first group
        from asyncsched.runner.groups.leaving import Leaving

        self._engine = engine
        self._requests = JobRequests(engine)
        engine.owner = self._requests
        self._keeper = _make_keeper(engine)
        if self._keeper is not None:
            engine.ledger.waiters.add(self._keeper)
        self._leaving = Leaving(engine, self._keeper)
        self._is_over = False
        self._raises = True

    @property
    def name(self) -> str:
        """The group's name, which its jobs carry: its key, or a generated name."""
        return self._engine.settings.name

    @property
    def jobs(self) -> Sequence[Job]:
        """The jobs, in the order in which they were started."""
        return tuple(self._engine.ledger.jobs)

    @property
    def failed(self) -> Sequence[Job]:
        """The jobs that failed after all retries, in the order in which they ended."""
        return tuple(self._engine.ledger.failed)

    @property
    def left_running(self) -> Sequence[Job]:
        """The jobs that were left running, or whose end was not confirmed, when the group was left, by their numbers.

        Includes jobs of an earlier run of a group with a key that were not started again.
        """
        return tuple(self._leaving.left)

    @property
    def lost_logs(self) -> Mapping[AppHandle, Exception]:
        """Why saved logs (`keep_logs`) are incomplete, by app; known once the group was left."""
        return {} if self._keeper is None else dict(self._keeper.lost)

    @property
    def counts(self) -> JobCounts:
        """The number of jobs by phase; as text, one line."""
        return self._engine.ledger.counts

    def start(
        self,
        app: AppDef | TorchXApp,
        *,
        name: str | None = None,
        scheduler: str | None = None,
        cfg: CfgOf = None,
        workspace: str | None = None,
        retries: int | None = None,
        timeout: float | None = None,
    ) -> Job:
        """Add a job, which is launched when a slot is free. Does not wait.

        If a failure or `cancel` has ended the group, the job ends at once and never starts.

        Args:
            app: The app to run; it is copied.
            name: The job's name, unique in the group; by default the app's name and the job's number.
            scheduler: The scheduler; this and the following arguments default to the group's.
            cfg: Run options, or a function of the attempt that returns them.
            workspace: Files to lay over the app's images.
            retries: How often it is restarted after a failure.
            timeout: The maximum run time in seconds.

        Raises:
            ValueError: The app definition or an argument is invalid.
            UnknownSchedulerError: No scheduler has this name.
            ClosedError: The group has ended.
        """
        if self._is_over:
            raise ClosedError(
                f"the group {self.name!r} has ended", fix="start jobs inside its block, or make a new one"
            )
        from asyncsched.schedulers.validation import check_app  # loaded with the first submit

        app = adopted(app)
        check_app(app)
        group = self._engine.settings
        settings = group.for_job(scheduler, cfg, workspace=workspace, retries=retries, timeout=timeout)
        self._engine.host.check(group.scheduler if settings is None else settings.scheduler)
        self._engine.check_options(settings)
        return self._engine.start(copied(app), name, settings)

    def _start_single(self, app: AppDef | TorchXApp) -> Job:
        """Start the only job of a group, which ends with it."""
        self._requests.serve_one(self.aclose)
        self._engine.end_with = self._leaving.end_with
        return self.start(app)

    def as_completed(self) -> CompletedJobs:
        """Return a stream of the jobs in the order in which they end; those that have already ended come first."""
        return CompletedJobs(self._engine)

    async def wait(self) -> None:
        """Wait until all jobs started so far have ended. Failed jobs do not raise.

        Cancelling this does not affect the jobs.
        """
        for job in self.jobs:
            if not job.is_terminal():
                await job
        if self._engine.error is not None and self._engine.was_cut:  # jobs that never started have ended by that
            raise for_one(self._engine.error)

    async def cancel(self) -> None:
        """Start no more jobs and cancel the running ones, without waiting for their end.

        The group's block then ends without an exception.

        Raises:
            ClosedError: The runner is closed.
        """
        self._engine.host.enter()
        self._engine.call_off()
        await outlast(self._engine.cancels, CANCEL_TIMEOUT)

    def log_lines(self, **query: Unpack[LogArguments]) -> LogStream:
        """Return the merged log lines of all jobs; with ``should_tail=True``, also of jobs that start later.

        The arguments are those of `Runner.log_lines`. With `should_tail`, the stream ends when all jobs have ended.
        """
        check_names(query)
        engine = self._engine
        follow = bool(query.get("should_tail"))
        schedulers = {engine.settings_of(job).scheduler for job in engine.ledger.jobs} or {engine.settings.scheduler}
        return engine.host.log_lines_of(self._handles(follow=follow), schedulers, f"group {self.name}", query)

    def events(self, **selection: Unpack[LogSelection]) -> ActivityStream:
        """Return the states and log lines of all jobs in one stream, as `Runner.events` does.

        It includes jobs that start later. It ends when all jobs have ended and their logs were read.
        """
        from asyncsched.runner.groups.states import GroupStates  # loaded on first use

        lines = self.log_lines(should_tail=True, **selection)
        return ActivityStream(GroupStates(self._engine), lines)

    async def monitor(self) -> None:
        """Show a live table of the jobs until all have ended: in a notebook's cell, or in the terminal.

        Each job is one row, that of its last attempt; a line above counts the jobs by phase. Stopping the cell, or
        leaving the terminal's table with ``q``, only detaches: the jobs keep running. While the table has the terminal,
        it handles Ctrl-Z and resizing; Ctrl-C closes it and is then passed on to the program, and so are SIGTERM and
        SIGHUP if the program does not handle them itself.

        Raises:
            MissingExtraError: This is neither a notebook nor a terminal with the extra ``tui``.
        """
        engine = self._engine
        engine.host.enter()
        from asyncsched.runner.notebook import AppTable, is_notebook, show_events  # imported on first use
        from asyncsched.tui.run import can_show, show

        if not is_notebook() and can_show():
            from asyncsched.runner.groups.monitored import GroupApps

            await show(GroupApps(engine, self.__str__), leaves=True)
            return
        from asyncsched.runner.groups.states import GroupStates

        def rows() -> list[tuple[AppHandle, AppStatus | None]]:
            return [(job.attempts[-1], job._last) for job in engine.ledger.jobs if job.attempts]

        await show_events(AppTable([], rows, self.__str__), GroupStates(engine), engine.host.clock)

    async def _handles(self, *, follow: bool) -> AsyncGenerator[AppHandle]:
        engine, told, waiter = self._engine, 0, Waiter()
        engine.ledger.waiters.add(waiter)
        try:
            while True:
                while told < len(engine.handles):
                    told += 1
                    yield engine.handles[told - 1]
                if not follow or engine.ledger.is_idle or engine.error is not None:
                    return
                await waiter.wait()
        finally:
            engine.ledger.waiters.discard(waiter)

    # Closing

    async def aclose(self) -> None:
        """End the group: no more jobs start, and running jobs are ended or left, as `on_leave` says. Idempotent."""
        self._is_over = True
        await self._leaving.land(cancel=self._cancels)
        if self.left_running:
            _log.warning("%s", self._told_of_left())

    @property
    def _cancels(self) -> bool:
        return self._engine.was_cancelled or self._engine.settings.on_leave == "cancel"

    async def __aenter__(self) -> Self:
        self._engine.host.enter()
        if self._keeper is not None:
            await self._keeper.open()
        await self._engine.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        if error is not None:
            await self._abandon(error)
            return
        try:
            await self.wait()
        except asyncio.CancelledError as cancelled:
            await self._abandon(cancelled)
            raise
        await self.aclose()
        engine = self._engine
        if self._raises and not engine.was_cancelled and engine.settings.too_many(len(self.failed), len(self.jobs)):
            raise self._leaving.failures()

    async def _abandon(self, error: BaseException) -> None:
        """End the group because of an exception, which gets notes on what happened to the jobs."""
        before, others = self.counts, len(self._engine.strays)
        try:
            await self.aclose()
        except asyncio.CancelledError:
            if not isinstance(error, asyncio.CancelledError):
                raise
        finally:
            if ended := self._told_of_end(before, others):
                error.add_note(ended)
            if self.left_running:
                error.add_note(self._told_of_left())

    def _told_of_end(self, before: JobCounts, others: int) -> str:
        ended = max(before.running + others - len(self.left_running), 0)
        if not ended and not before.waiting:
            return ""  # what is left is told by itself
        were = "1 job was" if ended == 1 else f"{ended} jobs were"
        return f"The group {self.name} was left: {were} ended, and {before.waiting} never started."

    def _told_of_left(self) -> str:
        settings, left = self._engine.settings, self.left_running
        which = _some([job.handle or job.name for job in left])
        one = len(left) == 1
        jobs = "1 job" if one else f"{len(left)} jobs"
        if self._cancels:
            return f"group {self.name}: {jobs} may still run: {which}"
        it = "it" if one else "them"
        back = "" if settings.key is None else f", and a group with key={settings.key!r} comes back to {it}"
        return f"group {self.name}: {jobs} {'runs' if one else 'run'} on{back}: {which}"

    def __repr__(self) -> str:
        return f"<JobGroup {self}>"

    def __str__(self) -> str:
        strays = self._engine.strays
        earlier = sum(not flight.of.is_terminal() for flight in strays)
        told = [f"{earlier} of an earlier run"] if earlier else []
        told += [f"{len(strays) - earlier} left by launches that failed"] if len(strays) > earlier else []
        return ", and ".join([f"{self.name}: {self.counts}", *told])


def _some(names: Collection[str], most: int = 5) -> str:
    """Return the first of many names."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join([*names][:most]) + more


def _make_keeper(engine: Engine) -> LogKeeper | None:
    if engine.settings.keep_logs is None:
        return None
    from asyncsched.runner.groups.keeper import LogKeeper  # loaded only where logs are kept

    return LogKeeper(engine, engine.settings.keep_logs)
