"""Any interleaving of what can happen to a group: never more than its limit, one outcome for each job, nothing left."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from asyncsched._typing import override
from asyncsched.errors import AuthError, ClosedError, InvalidRequestError, UnavailableError
from asyncsched.runner.groups.job import Job, Phase
from asyncsched.specs import AppHandle, AppState, FailureCause
from tests.runner.groups_rig import GroupRig, GroupRules, work


class GroupMachine(GroupRules):
    """A group on a service where apps start and end when a rule says so; its block is left in every way there is."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: dict[Job, AppState] = {}
        self.asked: dict[Job, int] = {}  # attempts of jobs when their ends were asked for
        self.others: set[str] = set()  # apps that others have cancelled
        self.called_off = False

    @initialize(
        limit=st.sampled_from([1, 2, 3]),
        retries=st.integers(0, 2),
        timeout=st.sampled_from([None, 50.0]),
        on_failure=st.sampled_from(["cancel", "continue"]),
        on_leave=st.sampled_from(["cancel", "leave"]),
        slow=st.sampled_from([0.0, 1.0]),
        eager=st.booleans(),
        calm=st.sampled_from([0, 10, 20]),
    )
    def open(self, slow: float, eager: bool, limit: int, calm: int, **settings: Any) -> None:
        self.calm = calm  # steps before which nobody ends the group: else few runs would see much of one
        self.cancels = settings["on_leave"] == "cancel"
        self.causes: dict[str, FailureCause | None] = {}
        self.was_left = False
        self.limit, self.retries, self.timeout = limit, settings["retries"], settings["timeout"]
        self.seen: dict[AppHandle, float] = {}

        async def go() -> None:
            if eager and hasattr(asyncio, "eager_task_factory"):
                self.loop.set_task_factory(asyncio.eager_task_factory)
            self.rig = GroupRig(start_delay=None)
            self.rig.service.slow("submit", slow)
            self.rig.service.slow("commit", slow)
            self.rig.service.slow("cancel", slow)
            self.group = self.rig.runner.group(limit=limit, **settings)
            self.leave = asyncio.Event()
            self.raises = False
            self.body = asyncio.create_task(self._body())
            self.told: list[Job] = []
            self.reader = asyncio.create_task(self._read())
            await self.rig.clock.advance(0)

        self.run(go)

    async def _body(self) -> None:
        async with self.group:
            await self.leave.wait()
            if self.raises:
                raise ZeroDivisionError

    async def _read(self) -> None:
        try:
            async for job in self.group.as_completed():
                self.told.append(job)
        except ClosedError:
            pass

    @rule(count=st.integers(1, 4))
    def start(self, count: int) -> None:
        def do() -> None:
            for _ in range(count):
                try:
                    self.group.start(work("sleep 100000"))
                except ClosedError:
                    assert self.group._is_over or self.rig.runner._closed

        self.act(do)

    @rule(which=st.integers(0, 5))
    def begin(self, which: int) -> None:
        self.on_open(which, self.rig.service.start)

    @rule(which=st.integers(0, 5), code=st.sampled_from([0, 0, 1]))
    def end(self, which: int, code: int) -> None:
        self.on_open(which, lambda app_id: self.rig.service.exit(app_id, code))

    @rule(which=st.integers(0, 5))
    def preempt(self, which: int) -> None:
        if jobs := [job for job in self.group.jobs if job.handle and job.handle.app_id in self.open_apps]:
            self.act(lambda: self.rig.fail(jobs[which % len(jobs)], FailureCause.PREEMPTED))

    @rule(which=st.integers(0, 5), cause=st.sampled_from([FailureCause.EXIT, FailureCause.PREEMPTED]))
    def fail_before_a_cancel_arrives(self, which: int, cause: FailureCause) -> None:
        async def go() -> None:
            jobs = [job for job in self.group.jobs if job.handle and job.handle.app_id in self.open_apps]
            if jobs:
                job = jobs[which % len(jobs)]
                task = asyncio.create_task(self._cancel(job))
                await asyncio.sleep(0)
                if job.handle and job.handle.app_id in self.open_apps:
                    self.rig.fail(job, cause)
                await self.rig.clock.advance(70)
                await task

        self.run(go)

    @rule(which=st.integers(0, 5), times=st.integers(1, 4))
    def fail_again_and_again(self, which: int, times: int) -> None:
        async def go() -> None:
            for _ in range(times):
                if apps := self.open_apps:
                    self.rig.service.start(apps[which % len(apps)])
                    self.rig.service.exit(apps[which % len(apps)], 1)
                await self.rig.clock.advance(10)

        self.run(go)

    @rule(which=st.integers(0, 5))
    def vanish(self, which: int) -> None:
        self.on_open(which, self.rig.service.vanish)

    @rule(which=st.integers(0, 5))
    def cancelled_by_others(self, which: int) -> None:
        def do(app_id: str) -> None:
            self.others.add(app_id)
            self.rig.service.cancel(app_id)

        self.on_open(which, do)

    @rule(
        error=st.sampled_from([UnavailableError, InvalidRequestError]), operation=st.sampled_from(["submit", "commit"])
    )
    def launch_fails(self, error: type[Exception], operation: str) -> None:
        self.act(lambda: self.rig.service.fail(operation, error("no")))  # type: ignore[arg-type]

    @rule()
    def launch_fails_and_leaves_an_app(self) -> None:
        def do() -> None:
            self.rig.service.fail("commit", InvalidRequestError("no"))
            self.rig.service.fail("remove", AuthError("no"))

        self.act(do)

    @rule()
    def watch_breaks(self) -> None:
        def do() -> None:
            self.rig.service.fail("connect", AuthError("who are you"))
            self.rig.service.cut()

        self.act(do)

    @rule(which=st.integers(0, 9))
    def cancel_job(self, which: int) -> None:
        async def go() -> None:
            if jobs := self.group.jobs:
                job = jobs[which % len(jobs)]
                task = asyncio.create_task(self._cancel(job))
                await self.rig.clock.advance(2)
                await task
                flight = self.group._engine.flights.get(job.handle) if job.handle else None
                assert job.is_terminal() or self.rig.runner._closed or (flight is not None and flight.asked), job

        self.run(go)

    @rule(steps=st.integers(0, 8))
    def cancel_a_launch(self, steps: int) -> None:
        async def go() -> None:
            if self.group._is_over or self.rig.runner._closed:
                return
            job = self.group.start(work("sleep 100000"))
            for _ in range(steps):
                await asyncio.sleep(0)
            job = next(iter(self.group._engine.launching), job)
            await self._cancel(job)
            await self.rig.clock.advance(0)
            assert job not in self.group._engine.launching

        self.run(go)

    async def _cancel(self, job: Job) -> None:
        if not self.rig.runner._closed:
            self.asked.setdefault(job, len(job.attempts))
        try:
            await job.cancel()
        except ClosedError:
            assert self.rig.runner._closed

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 10.0, 55.0, 700.0]))
    def wait(self, seconds: float) -> None:
        self.run(lambda: self.rig.clock.advance(seconds))

    @invariant()
    def count_steps(self) -> None:
        self.calm -= 1

    @precondition(lambda self: self.calm < 0 and not self.leave.is_set())
    @rule(raises=st.booleans())
    def leave_block(self, raises: bool) -> None:
        def do() -> None:
            self.raises = raises
            self.leave.set()

        self.act(do)

    @precondition(lambda self: self.calm < 0)
    @rule(steps=st.integers(0, 12))
    def cancel_block(self, steps: int) -> None:
        async def go() -> None:
            self.was_left = True
            for _ in range(steps):  # at whatever await it is by then
                await asyncio.sleep(0)
            self.body.cancel()
            await self.rig.clock.advance(0)

        self.run(go)

    @precondition(lambda self: self.calm < 0)
    @rule()
    def cancel_group(self) -> None:
        async def go() -> None:
            self.called_off = True
            task = asyncio.create_task(self.group.cancel())
            await self.rig.clock.advance(2)
            try:
                await task
            except ClosedError:
                assert self.rig.runner._closed

        self.run(go)

    @precondition(lambda self: self.calm < 0 and self.group.jobs)
    @rule()
    def close_runner(self) -> None:
        self.run(lambda: self.advance_over(self.rig.runner.close()))

    @invariant()
    def nothing_runs_that_no_job_answers_for(self) -> None:
        """An open app is one that a job runs or launches, whose loss was told, or that stands in `left_running`."""
        if self.rig.runner._closed:
            return
        engine = self.group._engine
        held = {flight.handle.app_id for flight in engine.flights.values()}
        named = {h.app_id for job in [*engine.lost, *self.group.left_running] for h in job.attempts}
        told = " ".join(job.status.msg for job in engine.lost)
        stray = [app for app in self.open_apps if app not in held | named and app not in told]
        assert len(stray) <= len(engine.launching), (stray, engine.launching)

    @invariant()
    def attempts_are_as_many_as_were_allowed(self) -> None:
        for job in self.group.jobs:
            for handle in job.attempts:
                if handle.app_id in self.rig.service.apps:
                    self.causes[handle.app_id] = self.cause(handle.app_id)
            causes = [self.causes.get(handle.app_id) for handle in job.attempts]
            preempted = causes.count(FailureCause.PREEMPTED)
            assert len(job.attempts) <= self.retries + 1 + preempted, (job, causes)
            if "left behind" not in job.status.msg:  # by a launch that was under way
                assert len(job.attempts) <= self.asked.get(job, len(job.attempts)), job
            assert job._failures <= len(causes) - preempted, (job, causes)
            if job.state is AppState.FAILED and causes and self.was_tried_to_the_end(job):
                assert len(job.attempts) == self.retries + 1 + preempted, (job, causes)

    def cause(self, app_id: str) -> FailureCause | None:
        """Return why an app has failed, if it has."""
        return next((replica.cause for replica in self.rig.service.apps[app_id].replicas.values()), None)

    def was_tried_to_the_end(self, job: Job) -> bool:
        """Tell whether nothing but its retries could have ended a job that has failed."""
        engine = self.group._engine
        is_first = not self.has_been_ended and engine.ledger.failed[0] is job  # which has ended the group itself
        mine = job.error is None and job not in engine.lost and job not in self.asked
        last = job.attempts[-1].app_id
        return mine and (is_first or not engine.stopping) and last in self.rig.service.apps and last not in self.others

    @property
    def has_been_ended(self) -> bool:
        """Whether anything but a failure may have ended the group."""
        return self.called_off or self.leave.is_set() or self.was_left or self.rig.runner._closed

    @invariant()
    def a_slot_is_taken_by_what_runs_and_by_nothing_else(self) -> None:
        engine = self.group._engine
        phases = [job._phase for job in self.group.jobs]
        if engine.error is None:
            assert phases.count(Phase.LAUNCHING) == len(engine.launching)
            assert phases.count(Phase.RUNNING) == len(engine.flights) - len(engine.strays)
            waiting = phases.count(Phase.WAITING)
            assert engine.stopping or not waiting or len(engine.launching) + len(engine.flights) == self.limit
            assert (
                len(engine.ledger.ended) == len({*engine.ledger.ended}) == sum(phase.is_terminal() for phase in phases)
            )

    @invariant()
    def none_runs_longer_than_its_timeout(self) -> None:
        if self.timeout is None or self.group._engine.error is not None:
            return
        now = self.rig.clock.monotonic()
        for flight in self.group._engine.flights.values():
            if flight.deadline is not None and flight.lost is None:
                assert now - self.seen.setdefault(flight.handle, now) <= self.timeout + 1, flight.handle

    @invariant()
    def nothing_is_launched_once_the_group_is_ended(self) -> None:
        if self.group._engine.stopping:
            assert not self.group._engine.launching

    @invariant()
    def never_more_than_the_limit(self) -> None:
        engine = self.group._engine
        lost = {job.handle for job in engine.lost}
        assert len(engine.flights) + len(engine.launching) <= self.limit
        known = {app_id for app_id in self.open_apps if not any(h and h.app_id == app_id for h in lost)}
        assert len(known) <= self.limit

    @invariant()
    def every_job_has_one_outcome(self) -> None:
        assert sum(self.group.counts) == len(self.group.jobs)
        for job in self.group.jobs:
            if job.is_terminal():
                assert self.outcomes.setdefault(job, job.state) is job.state
            else:
                assert job not in self.outcomes

    @override
    async def finish(self) -> None:
        self.leave.set()
        for number in range(2000):
            if self.body.done():
                break
            # What the group has to end ends without our help.
            is_ending = self.group._engine.stopping and (self.cancels or self.called_off or self.group.failed)
            for app_id in self.open_apps if number and not is_ending else ():
                self.rig.service.exit(app_id)
            await self.rig.clock.advance(10)
        assert self.body.done()
        error = None if self.body.cancelled() else self.body.exception()
        assert error is None or isinstance(error, (ZeroDivisionError, ExceptionGroup, ClosedError)), error
        named = {job.handle for job in self.group.left_running}
        if not self.rig.runner._closed:
            left = [app_id for app_id in self.open_apps if not any(h and h.app_id == app_id for h in named)]
            assert not left, left
            assert not self.cancels or {*self.group.left_running} <= {*self.group._engine.lost}
            assert not self.cancels or not self.open_apps or self.group._engine.lost
            assert all(job.is_terminal() or job in self.group.left_running for job in self.group.jobs)
        self.every_job_has_one_outcome()
        for _ in range(2000):
            if self.reader.done():
                break
            await self.rig.clock.advance(1)
        await self.reader
        assert len(self.told) == len({*self.told})
        if all(job.is_terminal() for job in self.group.jobs) and not self.rig.runner._closed:
            assert [*self.group._engine.ledger.ended] == [job async for job in self.group.as_completed()]
            assert {*self.group.jobs} == {*self.group._engine.ledger.ended}


TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = settings(
    max_examples=150, stateful_step_count=30, deadline=None, suppress_health_check=[*HealthCheck]
)
