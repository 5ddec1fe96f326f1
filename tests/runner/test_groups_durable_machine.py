"""Any interleaving of ends, crashes and new starts of a group with a key: each attempt counts once, no app is lost."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import cast

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from asyncsched._typing import override
from asyncsched.runner.groups.durable import DurableEngine
from asyncsched.runner.groups.job import Phase
from asyncsched.specs import AppState, FailureCause
from tests._support import eventually
from tests.runner.groups_rig import GroupRig, GroupRules, another, work

NAMES = "abcde"


class DurableMachine(GroupRules):
    """A group whose script dies, and is started again with some of its jobs, in whatever order."""

    def __init__(self) -> None:
        super().__init__()
        self.home = tempfile.mkdtemp()
        self.before = os.environ.get("ASYNCSCHED_HOME")
        os.environ["ASYNCSCHED_HOME"] = self.home
        self.numbers: dict[str, int] = {}

    @initialize(limit=st.sampled_from([1, 2, 4]), retries=st.integers(0, 2), first=st.permutations(NAMES))
    def open(self, limit: int, retries: int, first: list[str]) -> None:
        self.limit, self.retries = limit, retries

        async def go() -> None:
            self.rig = GroupRig(start_delay=None)
            await self._enter("leave")
            self._start(first[:3])
            await self.settle()

        self.run(go)

    async def _enter(self, on_leave: str) -> None:
        self.runner = another(self.rig)
        self.group = self.runner.group(
            key="sweep",
            limit=self.limit,
            retries=self.retries,
            on_failure="continue",
            on_leave=on_leave,  # type: ignore[arg-type]
        )
        await self.group.__aenter__()

    @property
    def engine(self) -> DurableEngine:
        return cast("DurableEngine", self.group._engine)

    @override
    async def settle(self) -> None:
        """Let all that is due happen; journals are written by threads."""

        def is_calm() -> bool:
            journal = self.engine._journal
            return not self.engine.launching and not journal._pending and not journal._lock.locked()

        await self.rig.clock.advance(0)
        for _ in range(3):
            await eventually(is_calm)
            await self.rig.clock.advance(0)

    def _start(self, names: list[str]) -> None:
        for name in names:
            if name not in {job.name for job in self.group.jobs}:
                self.group.start(work("sleep 100000", name), name=name)

    @rule(names=st.lists(st.sampled_from(NAMES), max_size=3))
    def start(self, names: list[str]) -> None:
        self.act(lambda: self._start(names))

    @rule(
        which=st.integers(0, 5),
        cause=st.sampled_from([None, FailureCause.EXIT, FailureCause.PREEMPTED, FailureCause.PREEMPTED]),
    )
    def end(self, which: int, cause: FailureCause | None) -> None:
        def do(app_id: str) -> None:
            app = self.rig.service.apps[app_id]
            for replica in app.replicas.values():
                state = AppState.SUCCEEDED if cause is None else AppState.FAILED
                self.rig.service._stop(app, replica, state, cast("FailureCause", cause))

        self.on_open(which, do)

    @rule()
    def wait(self) -> None:
        async def go() -> None:
            await self.rig.clock.advance(100)
            await self.settle()

        self.run(go)

    @rule(order=st.permutations(NAMES), count=st.integers(0, 5), on_leave=st.sampled_from(["cancel", "leave"]))
    def die_and_start_again(self, order: list[str], count: int, on_leave: str) -> None:
        async def go() -> None:
            await self.runner.close()
            await self._enter(on_leave)
            self._start(order[:count])
            await self.settle()

        self.run(go)

    @rule(order=st.permutations(NAMES), count=st.integers(0, 5))
    def leave_and_start_again(self, order: list[str], count: int) -> None:
        async def go() -> None:
            await self._leave()
            await self._enter("leave")
            self._start(order[:count])
            await self.settle()

        self.run(go)

    async def _leave(self) -> None:
        await self.advance_over(self.group.aclose())
        named = {job.handle.app_id for job in self.group.left_running if job.handle}
        assert named == {*self.open_apps}
        assert not named or self.group._engine.settings.on_leave == "leave"
        await self.runner.close()

    @invariant()
    def every_app_is_known(self) -> None:
        assert {*self.open_apps} == {flight.handle.app_id for flight in self.engine.flights.values()}
        assert len({app.app.name for app in self.rig.service.apps.values() if not app.ended}) == len(self.open_apps)

    @invariant()
    def attempts_are_as_many_as_were_allowed(self) -> None:
        for job in self.group.jobs:
            failed = [self._cause(handle.app_id) for handle in job.attempts]
            counted = sum(cause is FailureCause.EXIT for cause in failed)
            assert len({*job.attempts}) == len(job.attempts)
            assert job._failures == counted, (job, failed)
            if job._phase is Phase.FAILED:
                assert counted > self.retries, (job, failed)

    def _cause(self, app_id: str) -> FailureCause | None:
        replicas = self.rig.service.apps[app_id].replicas.values()
        return next((replica.cause for replica in replicas if replica.state is AppState.FAILED), None)

    @invariant()
    def numbers_are_unique_and_stay(self) -> None:
        jobs = self.group.jobs
        assert len({job.index for job in jobs}) == len(jobs)
        for job in jobs:
            if job.handle is not None:
                assert self.numbers.setdefault(job.name, job.index) == job.index
        assert len({*self.numbers.values()}) == len(self.numbers)

    @invariant()
    def never_more_than_the_limit(self) -> None:
        assert len(self.open_apps) <= self.limit

    @override
    async def finish(self) -> None:
        await self._leave()

    @override
    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            shutil.rmtree(self.home)
            if self.before is None:
                os.environ.pop("ASYNCSCHED_HOME")
            else:
                os.environ["ASYNCSCHED_HOME"] = self.before


TestDurableMachine = DurableMachine.TestCase
TestDurableMachine.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=[*HealthCheck]
)
