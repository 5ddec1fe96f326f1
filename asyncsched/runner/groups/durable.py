"""A group with a key: it continues from its journal, and writes what it does there."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import deque
from collections.abc import Mapping
from typing import cast

from asyncsched._streams import for_one
from asyncsched._typing import override
from asyncsched.errors import ConfigError, ConflictError, UnknownSchedulerError, UsageError, left_behind
from asyncsched.runner.backends import AnyScheduler
from asyncsched.runner.convert import GONE, app_def_of, status_of
from asyncsched.runner.groups.engine import Engine
from asyncsched.runner.groups.flight import Flight
from asyncsched.runner.groups.host import Host
from asyncsched.runner.groups.job import Job, Phase, phase_of
from asyncsched.runner.groups.journal import Attempt, Journal, Past, end_line, plan_line, sent_line
from asyncsched.runner.groups.outcome import End, Verdict, counts, judge
from asyncsched.runner.groups.settings import Cfg, CfgOf, GroupSettings, JobSettings
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.schedulers.validation import digest
from asyncsched.specs.app import AppDef
from asyncsched.specs.handle import AppHandle
from asyncsched.specs.state import AppState, AppStatus, FailureCause

__all__ = ["LOOK_PAUSE", "DurableEngine"]

LOOK_PAUSE = 2.0
"""Seconds between two looks whether another process has called the group off, while jobs wait to be started again."""


class DurableEngine(Engine):
    """Launches each attempt with its own key, after it has written a line to the journal."""

    def __init__(self, host: Host, settings: GroupSettings, key: str) -> None:
        super().__init__(host, settings)
        self._key = key
        self._journal = Journal(host.session, key)
        self._past: dict[str, Past] = {}
        self._unclaimed: dict[str, Flight] = {}
        self._in_part: dict[str, Flight] = {}  # what is sent again, as it may be there in part
        self._out_of_reach: dict[str, str] = {}  # jobs whose last attempts nobody can be asked about, and why
        self._next_number = 0
        self._opening = asyncio.Lock()
        self._is_open = False
        self._is_asked = False
        self._refusal: Exception | None = None
        self._is_listening = False

    # Earlier runs

    @override
    async def enter(self) -> None:
        await self.host.open(self.settings.scheduler)  # so that `start` can check options
        await self._open()

    async def _open(self) -> None:
        async with self._opening:
            if self._is_open:
                return
            self._check_not_closed()
            self.host.opened(self)
            try:
                self._past = await self._journal.open()
                self._check_not_closed()
                running = await self._ask()
                await self._journal.flush()
                self._check_not_closed()
            except BaseException as error:
                self.host.closed(self)
                await self._journal.close()
                if isinstance(error, Exception):
                    self._check_not_closed()  # what went wrong then is a consequence of that
                raise
            self._is_open = True
        for name, number, response in running:
            self._found(name, number, response)
        self._next_number = max((past.index + 1 for past in self._past.values()), default=0)
        for job in self.ledger.jobs:  # of a group that was not entered
            job.index = self._number(job.name)
        waiting, self._queue = self._queue, deque()
        self._queue.extend(job for job in waiting if not self._is_claimed(job))
        self.fill()

    def _check_not_closed(self) -> None:
        """Raise ClosedError if the group or its runner was closed meanwhile: nothing else closes what is open."""
        if self.error is not None:
            raise for_one(self.error)
        self.host.enter()

    @override
    def _is_ready(self) -> bool:
        if not self._is_open and self._refusal is None and not self._is_asked:
            self._is_asked = True
            self.tasks.spawn(self._open_late(), "journal of a group")
        return self._is_open or self._refusal is not None

    async def _open_late(self) -> None:
        """Open the journal of a group that was not entered; errors go to its jobs."""
        try:
            await self._open()
        except Exception as error:  # noqa: BLE001 - each job has it as its own
            if self._is_cut_off(error):
                return
            self._refusal = error
        self.fill()

    async def _ask(self) -> list[tuple[str, int, DescribeAppResponse]]:
        """Ask about attempts without a known end, record ends, and return the running ones."""
        asked: dict[str, dict[str, tuple[str, int, Attempt]]] = {}
        for name, past in self._past.items():
            for number, attempt in past.attempts.items():
                if attempt.end is None:
                    asked.setdefault(attempt.handle.scheduler, {})[attempt.handle.app_id] = name, number, attempt
        running: list[tuple[str, int, DescribeAppResponse]] = []
        for scheduler, attempts in asked.items():
            try:
                self.host.check(scheduler)
            except UnknownSchedulerError as error:
                why = f"an attempt of it is on {scheduler}, and nobody can be asked about it: {error}"
                self._out_of_reach |= {name: why for name, _, _ in attempts.values()}
                continue
            answers = await (await self.host.open(scheduler)).describe_many(attempts)
            for app_id, (name, number, attempt) in attempts.items():
                answer = answers[app_id]
                if answer is None:
                    if attempt.is_sent:
                        gone = AppStatus(AppState.FAILED, msg=GONE, handle=attempt.handle, cause=FailureCause.UNKNOWN)
                        self._ended(name, number, attempt, Verdict(End.FAILED, gone))
                elif not answer.state.is_terminal():
                    running.append((name, number, answer))
                elif attempt.is_sent or _says_all(answer.state):
                    status = status_of(answer, attempt.handle)
                    self._ended(name, number, attempt, judge(status, gone=False, asked=False, late=None))
        return running

    def _found(self, name: str, number: int, response: DescribeAppResponse) -> None:
        """Follow a running attempt of a job that may be started again."""
        past = self._past[name]
        attempt = past.attempts[number]
        of = Job(self.owner, name, past.index, app_def_of(response), None)
        of._phase, of.attempts = Phase.RUNNING, (attempt.handle,)
        flight = self._unclaimed[name] = self.fly(of, attempt.handle, number, is_stray=True)
        flight.status = status_of(response, attempt.handle)
        if not attempt.is_sent:  # it will be launched again
            self.handles.pop()

    def _ended(self, name: str, number: int, attempt: Attempt, verdict: Verdict) -> None:
        attempt.end, attempt.timed_out = verdict.status, verdict.timed_out
        self._journal.add(end_line(name, number, verdict), sync=True)

    # Continuing

    @override
    def start(self, app: AppDef, name: str | None, settings: JobSettings | None) -> Job:
        wanted = self.settings_for(settings)
        backend = self.host.ready(wanted.scheduler)
        if backend is not None:
            _check_detached(backend, _first(wanted.cfg))
        job = super().start(app, name, settings)
        if self._queue and self._queue[-1] is job and self._is_claimed(job):
            self._queue.pop()
        return job

    @override
    def _number(self, name: str) -> int:
        """Return the number that a job had in earlier runs, or a new one."""
        if name in self._past:
            return self._past[name].index
        self._next_number += 1
        return self._next_number - 1

    def _is_claimed(self, job: Job) -> bool:
        """Give a waiting job the attempt that was found for it, which already occupies a slot."""
        if job.name not in self._unclaimed or job._phase is not Phase.WAITING or not self._is_open or self.stopping:
            return False
        if not self._is_settled(job):
            self._begin(job)
        return True

    @override
    def _is_settled(self, job: Job) -> bool:
        past = self._past.get(job.name)
        if (why := self._out_of_reach.get(job.name)) is not None:
            fix = "give the runner that scheduler, or the group another key"
            job.error = ConfigError(f"the job {job.name} cannot be continued", why=why, fix=fix)
            self.over(job, Phase.FAILED, AppStatus(AppState.FAILED, msg=str(job.error), cause=FailureCause.CONFIG))
            return True
        if past is None or job.attempts:  # the second: this process has launched it
            return False
        if past.digest != _digest(job.app):
            job.error = ConflictError(
                f"the job {job.name} of the group {self._key!r} was another app before",
                why=f"the journal records an app with the digest {past.digest[:12]}",
                fix="give the job another name, or the group another key",
            )
            self.over(job, Phase.FAILED, AppStatus(AppState.FAILED, msg=str(job.error), cause=FailureCause.CONFIG))
            return True
        return self._takes_up(job, past)

    def _takes_up(self, job: Job, past: Past) -> bool:
        ended = [attempt for _, attempt in sorted(past.attempts.items()) if attempt.end and attempt.was_launched]
        job.attempts = tuple(attempt.handle for attempt in ended)
        job._failures = sum(attempt.end is not None and counts(attempt.end) for attempt in ended)
        flight = self._unclaimed.pop(job.name, None)
        if flight is not None:
            return self._boarded(job, flight, is_sent=past.attempts[flight.attempt].is_sent)
        last = ended[-1] if ended else None
        reuse = self.settings.reuse
        if last is None or last.end is None or reuse == "never":
            return False
        if last.end.state is not AppState.SUCCEEDED and reuse != "any":
            return False
        job.timed_out = last.timed_out
        self.over(job, phase_of(last.end.state), last.end)
        return True

    def _boarded(self, job: Job, flight: Flight, *, is_sent: bool) -> bool:
        """Give a found attempt to its job; one that may be incomplete is submitted again with its key.

        A submit may be several requests. What it has created so far has kept the slot until now.
        """
        if is_sent:
            self.board(job, flight)
            return True
        self.forget(flight)
        self._in_part[job.name] = flight
        return False

    # Between two attempts

    @override
    def _pause(self, job: Job, verdict: Verdict) -> None:
        super()._pause(job, verdict)
        if not self._is_listening:
            self._is_listening = True
            self.tasks.spawn(self._listen(), "look whether a group is called off")

    async def _listen(self) -> None:
        """Check for a request while jobs wait to be restarted, when no end and no launch may trigger it."""
        while self.pauses:
            await self.host.clock.sleep(LOOK_PAUSE)
            await self._look()
        self._is_listening = False

    # Writing the journal

    @override
    async def _send(self, job: Job, attempt: int, app: AppDef, settings: JobSettings, cfg: Cfg) -> AppHandle:
        if self._refusal is not None:
            raise for_one(self._refusal)
        _check_detached(await self.host.open(settings.scheduler), cfg)
        key = f"{self._key}.{job.name}.{attempt}"
        handle, info = await self.host.plan(app, settings.scheduler, cfg, settings.workspace, key)
        mark = _digest(job.app)
        self._journal.add(plan_line(job.name, job.index, mark, attempt, handle))
        await self._journal.flush()
        if self._journal.is_called_off:
            self.call_off()
            raise asyncio.CancelledError
        past = self._past.setdefault(job.name, Past(job.index, mark))
        past.attempts[attempt] = Attempt(handle)
        try:
            await self.host.schedule(info)
        except BaseException as error:
            if self._is_there(job, attempt, error) or not isinstance(error, Exception):
                raise
            failed = AppStatus(AppState.FAILED, msg=str(error), cause=FailureCause.UNKNOWN)
            self._write(end_line(job.name, attempt, Verdict(End.FAILED, failed), launched=False))
            raise
        self._in_part.pop(job.name, None)
        past.attempts[attempt].is_sent = True
        self._write(sent_line(job.name, attempt))
        return handle

    def _is_there(self, job: Job, attempt: int, error: BaseException) -> bool:
        """Tell whether an app may exist although its launch failed; one that existed before is kept."""
        before = self._in_part.pop(job.name, None)
        if before is None or self.error is not None:
            return left_behind(error) != ""
        error.add_note(f"{before.handle}, which an earlier run has launched, may run on")
        self.fly(job, before.handle, attempt, is_stray=True).status = before.status
        job.attempts = (*job.attempts, before.handle)
        return True

    @override
    def _note_end(self, flight: Flight, verdict: Verdict) -> None:
        name = flight.of.name
        self._unclaimed.pop(name, None)
        attempt = self._past[name].attempts[flight.attempt]
        if flight.job is None and not attempt.is_sent and not _says_all(verdict.status.state):
            return  # it is sent again, which finds it or completes it
        self._ended(name, flight.attempt, attempt, verdict)
        self._flush()

    def _write(self, line: Mapping[str, object]) -> None:
        self._journal.add(line)
        self._flush()

    def _flush(self) -> None:
        if self.error is None:  # else its release does
            self.tasks.spawn(self._journal.flush(), "journal of a group")

    @override
    async def release(self) -> None:
        await self._journal.close()


def _says_all(state: AppState) -> bool:
    """Tell whether an end is valid even if the submit was incomplete; a failure may be that of a partial app."""
    return state in (AppState.SUCCEEDED, AppState.CANCELLED)


def _digest(app: AppDef) -> str:
    return digest(app, {})


def _first(cfg: CfgOf) -> Cfg:
    return cfg(1) if callable(cfg) else cfg


def _check_detached(backend: AnyScheduler, cfg: Cfg) -> None:
    """Raise UsageError if apps would end with this process, because a group with a key must outlive it."""
    if not backend.ends_with_submitter:
        return
    given = dict(cfg) if isinstance(cfg, Mapping) else {} if cfg is None else _fields(cfg)
    if not given.get("detach"):
        raise UsageError(
            f"a group with a key outlives this process, and apps of {backend.backend} do not",
            fix='give the option detach: cfg={"detach": True}',
        )


def _fields(options: object) -> dict[str, object]:
    names = [item.name for item in dataclasses.fields(cast("type", options))]
    return {name: getattr(options, name) for name in names}
