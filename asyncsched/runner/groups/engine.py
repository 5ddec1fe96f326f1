"""The engine of a `JobGroup`: launches its jobs, and decides what happens after each end.

Everything that changes the state of jobs is a plain function that runs in one step. Tasks only wait: one for the watch,
and one for each submit in progress. A waiting job has no task.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING

from asyncsched._typing import override
from asyncsched.clock import TimerHandle
from asyncsched.errors import ClosedError, left_behind, notes_of
from asyncsched.logs.backoff import pause_after
from asyncsched.logs.loop_time import budget_of
from asyncsched.runner.groups.flight import Flight
from asyncsched.runner.groups.following import Following
from asyncsched.runner.groups.host import Host
from asyncsched.runner.groups.job import Job, Phase, phase_of
from asyncsched.runner.groups.labels import labelled
from asyncsched.runner.groups.outcome import End, Verdict
from asyncsched.runner.groups.settings import AT_ONCE, Cfg, GroupSettings, JobSettings, cfg_of_attempt
from asyncsched.specs.app import AppDef
from asyncsched.specs.handle import AppHandle, make_app_handle
from asyncsched.specs.run_options import runopts
from asyncsched.specs.state import AppState, AppStatus, FailureCause

if TYPE_CHECKING:
    from asyncsched.runner.groups.job import Owner

__all__ = ["Engine"]

RETRY_PAUSE = 1.0
LONGEST_RETRY_PAUSE = 60.0
"""The first pause before a job is started again, and the longest: each is twice the one before, and spread."""

LOOKED_AT_IN_A_STEP = 10
"""Waiting jobs that are looked at in one step of the loop, at most."""

NEVER_STARTED = "never started: the group was ended before"

_log = logging.getLogger("asyncsched.runner")


class Engine(Following):
    """The state of a group.

    Attributes:
        owner: The side of the group that its jobs see.
        launching: The jobs whose submits are in progress.
        pauses: The jobs that wait to be restarted.
        stopping: Whether no more jobs are started.
        was_cancelled: Whether the whole group was cancelled.
        was_cut: Whether it was closed before all jobs had ended.
        looking: The check whether another process cancelled it, if one is in progress.
        end_with: Ends the group with its only job, for a group of one.
    """

    def __init__(self, host: Host, settings: GroupSettings) -> None:
        super().__init__(host, settings)
        self.owner: Owner
        self.launching: dict[Job, asyncio.Task[None] | None] = {}
        self.stopping = False
        self.was_cancelled = False
        self.was_cut = False
        self.looking: asyncio.Task[None] | None = None
        self.end_with: Callable[[Job], Coroutine[object, object, None]] | None = None
        self._queue: deque[Job] = deque()
        self._are_checked = False  # the group's options
        self.pauses: dict[Job, TimerHandle] = {}
        self._filling = False
        self._undecided: list[tuple[Job, Verdict]] = []  # until `looking` is done

    # Called by the group

    def start(self, app: AppDef, name: str | None, settings: JobSettings | None) -> Job:
        """Add a job, and launch it as soon as a slot is free."""
        if self.error is not None:
            raise ClosedError(f"the group {self.settings.name!r} is closed", fix="make a new one")
        self.host.enter()
        name = self.ledger.new_name(app.name, name)
        job = Job(self.owner, name, self._number(name), app, settings)
        self.host.opened(self)
        self.ledger.add(job)
        if self.stopping:
            self.over(job, Phase.CANCELLED, NEVER_STARTED)
        else:
            self._queue.append(job)
            self.fill()
        return job

    def check_options(self, settings: JobSettings | None) -> None:
        """Raise ConfigError for options that a job's scheduler does not have, if the scheduler has been created."""
        wanted = self.settings_for(settings)
        backend = self.host.ready(wanted.scheduler)
        if backend is None or callable(wanted.cfg) or (settings is None and self._are_checked):
            return
        runopts.build(backend.options, wanted.cfg)
        self._are_checked = self._are_checked or settings is None

    @property
    def is_draining(self) -> bool:
        """Whether some jobs that will never start are not marked as ended yet."""
        return self.stopping and bool(self._queue)

    def fill(self) -> None:
        """Launch jobs while slots are free."""
        if self._filling or not self._is_ready():  # a task may finish while it is created, and call this again
            return
        self._filling, looked_at = True, 0
        try:
            while self._queue and not self.stopping and self._has_room() and looked_at < LOOKED_AT_IN_A_STEP:
                job, looked_at = self._queue.popleft(), looked_at + 1
                if job._phase is Phase.WAITING and not self._is_settled(job):
                    self._begin(job)
        finally:
            self._filling = False
        if looked_at == LOOKED_AT_IN_A_STEP:
            asyncio.get_running_loop().call_soon(self.fill)

    def _begin(self, job: Job) -> None:
        self.ledger.move(job, Phase.LAUNCHING)
        self.launching[job] = None
        task = self.tasks.spawn(self._launch(job), f"launch of {job.name}")
        task.add_done_callback(partial(self._launched, job))
        if job in self.launching:
            self.launching[job] = task

    def _has_room(self) -> bool:
        under_way, limit = len(self.launching), self.settings.limit
        return self.looking is None and under_way < AT_ONCE and (limit is None or under_way + len(self.flights) < limit)

    async def _launch(self, job: Job) -> None:
        settings, attempt = self.settings_of(job), len(job.attempts) + 1
        try:
            backend = await self.host.open(settings.scheduler)
            cfg = cfg_of_attempt(settings.cfg, attempt, settings.timeout, backend.options)
            app = labelled(job.app, self.settings.name, job.index)
            handle = await self._send(job, attempt, app, settings, cfg)
        except asyncio.CancelledError as error:
            self.launching.pop(job, None)
            self._dropped(job, error)
            raise
        except Exception as error:  # noqa: BLE001 - it is the job's, whatever it is
            self.launching.pop(job, None)
            job.error = error
            if self._is_cut_off(error):
                return
            self._leave_behind(job, error)
            why = "; ".join([f"it could not be launched: {error}", *notes_of(error)])
            self.over(job, Phase.FAILED, AppStatus(AppState.FAILED, msg=why, cause=FailureCause.UNKNOWN))
        else:
            self.launching.pop(job, None)
            self.fly(job, handle, attempt)

    def _is_cut_off(self, error: Exception) -> bool:
        """Tell whether an error only says that the runner was closed, which also closes the group: no job failed."""
        if not isinstance(error, ClosedError):
            return False
        try:
            self.host.enter()
        except ClosedError:
            return True
        return self.error is not None

    def _launched(self, job: Job, task: asyncio.Task[None]) -> None:
        if job in self.launching:  # it was ended before it began
            del self.launching[job]
            self._dropped(job, asyncio.CancelledError())
        self.fill()

    def _dropped(self, job: Job, error: BaseException) -> None:
        """Record a launch that was ended; its notes say what it may have left behind."""
        left = "; ".join(notes_of(error))
        if not self._leave_behind(job, error) and left:
            self.lost.append(job)
        if not job.is_terminal():
            self.over(job, Phase.CANCELLED, left or "ended while it was launched")

    def _leave_behind(self, job: Job, error: BaseException) -> bool:
        """Keep the slot of an app that an ended launch may have left, and cancel it; return whether one may exist."""
        app_id, settings = left_behind(error), self.settings_of(job)
        backend = self.host.ready(settings.scheduler)
        if not app_id or backend is None or self.error is not None:
            return False
        handle = make_app_handle(settings.scheduler, backend.session_name, app_id)
        flight = self.fly(job, handle, len(job.attempts) + 1, is_stray=True)
        job.attempts = (*job.attempts, handle)  # it is named by that
        if not flight.asked:
            self.send_cancels([flight])
        return True

    # Ends

    @override
    def landed(self, flight: Flight, verdict: Verdict) -> None:
        self.forget(flight)
        self._note_end(flight, verdict)
        job = flight.job
        if verdict.status.state is AppState.CANCELLED and verdict.end is End.FAILED:
            self._look_whether_called_off()
        if job is not None and verdict.end is End.FAILED and self.looking is not None:
            job._last = verdict.status
            self._undecided.append((job, verdict))  # not a failure if the whole group was cancelled
        elif job is not None:
            self.judged(job, verdict)
        elif not flight.of.is_terminal():
            flight.of._phase, flight.of._last = phase_of(verdict.status.state), verdict.status
        self.fill()
        self.ledger.wake()

    def judged(self, job: Job, verdict: Verdict) -> None:
        """Decide what happens after an attempt's end."""
        job.timed_out = verdict.timed_out
        if verdict.end is End.SUCCEEDED:
            self.over(job, Phase.DONE, verdict.status)
        elif verdict.end is End.CANCELLED:
            self.over(job, Phase.CANCELLED, verdict.status)
        elif self._may_try_again(job, verdict):
            self._pause(job, verdict)
        else:
            self.over(job, Phase.FAILED, verdict.status)

    def _may_try_again(self, job: Job, verdict: Verdict) -> bool:
        if verdict.end is End.FAILED or self.stopping or job._is_asked:
            return False
        if verdict.end is End.PREEMPTED:
            return True
        job._failures += 1
        return job._failures <= self.settings_of(job).retries

    def _pause(self, job: Job, verdict: Verdict) -> None:
        job._last = verdict.status
        self.ledger.move(job, Phase.PAUSED)
        pause = pause_after(max(job._failures, 1), shortest=RETRY_PAUSE, longest=LONGEST_RETRY_PAUSE)
        self.pauses[job] = self.host.clock.call_later(pause, partial(self._again, job))

    def _again(self, job: Job) -> None:
        del self.pauses[job]
        self.ledger.move(job, Phase.WAITING)
        self._queue.append(job)
        self.fill()

    def over(self, job: Job, phase: Phase, status: AppStatus | str) -> None:
        """Mark a job as ended; if the group ended it, record why."""
        told = AppStatus(AppState.CANCELLED, msg=status) if isinstance(status, str) else status
        self.ledger.end(job, phase, told)
        failed = len(self.ledger.failed)
        if phase is Phase.FAILED and self.settings.too_many(failed, len(self.ledger.jobs)):
            self.stop(cancel=True)
        if self.end_with is not None:
            self.tasks.spawn(self.end_with(job), "end of a job")

    def stop(self, *, cancel: bool) -> None:
        """Start no more jobs; with `cancel`, also cancel the running ones. A second call can only add `cancel`."""
        if not self.stopping:
            self.stopping = True
            for job, timer in self.pauses.items():
                timer.cancel()
                why = f"not started again: the group was ended. Its last attempt: {job._last and job._last.msg}"
                self.over(job, Phase.CANCELLED, why)
            self.pauses.clear()
            self.tasks.spawn(self._drain(), "end of waiting jobs")
            for task in self.launching.values():
                if task is not None:
                    task.cancel()
        if cancel and not self._cancelling:
            self._cancelling = True
            others = sum(not flight.of.is_terminal() for flight in self.strays)
            if others:
                told = "group %s: %d apps of an earlier run, whose jobs were not started again, are ended"
                _log.warning(told, self.settings.name, others)
            self.send_cancels([flight for flight in self.flights.values() if not flight.asked])

    def call_off(self) -> None:
        """Start no more jobs and cancel the running ones, because the whole group was cancelled."""
        self.was_cancelled = True
        self.stop(cancel=True)

    def _look_whether_called_off(self) -> None:
        """Check whether the cancellation of an app was meant for the whole group; nothing is launched until then."""
        if self.looking is None and not self.stopping and self.error is None:
            self.looking = self.tasks.spawn(self._look(), "look whether a group is called off")
            self.looking.add_done_callback(self._looked)

    async def _look(self) -> None:
        if await self.host.is_called_off(self.settings.name):
            self.call_off()

    def _looked(self, _: object) -> None:
        self.looking = None
        undecided, self._undecided = self._undecided, []
        for job, verdict in undecided if self.error is None else ():
            was_meant = self.was_cancelled and verdict.status.state is AppState.CANCELLED
            self.judged(job, verdict._replace(end=End.CANCELLED) if was_meant else verdict)
        self.fill()
        self.ledger.wake()

    async def _drain(self) -> None:
        budget = budget_of(asyncio.get_running_loop())
        budget.begin()
        while self._queue:
            job = self._queue.popleft()
            if not job.is_terminal():
                self.over(job, Phase.CANCELLED, NEVER_STARTED)
            await budget.breathe()

    # Overridden by groups that survive their process.

    def _is_ready(self) -> bool:
        """Tell whether jobs may be launched; if not, arrange for `fill` to be called when they may."""
        return True

    def _is_settled(self, job: Job) -> bool:
        """Tell whether a job needs no launch, because it is finished or running already."""
        return False

    async def _send(self, job: Job, attempt: int, app: AppDef, settings: JobSettings, cfg: Cfg) -> AppHandle:
        """Launch an attempt."""
        return await self.host.run(app, settings.scheduler, cfg, settings.workspace)

    def _note_end(self, flight: Flight, verdict: Verdict) -> None:
        """Record an attempt's end."""

    def _number(self, name: str) -> int:
        """Return the number of a new job."""
        return len(self.ledger.jobs)

    async def enter(self) -> None:
        """Do what must precede the first job and can fail."""
        with contextlib.suppress(Exception):  # its jobs get the same error
            await self.host.open(self.settings.scheduler)  # so that `start` can check options

    async def release(self) -> None:
        """Release what the group holds besides its jobs."""

    async def close(self, error: Exception) -> None:
        """End the tasks of the group; callers that wait for a job get `error`. Apps are not affected."""
        if self.error is not None:
            return
        self.error = error
        self.was_cut = not self.ledger.is_idle
        self.stop(cancel=False)
        for flight in self.flights.values():
            flight.rest()
        self.ledger.fail(error)
        try:
            await self.tasks.end()
        finally:
            self.host.closed(self)
            await self.release()
