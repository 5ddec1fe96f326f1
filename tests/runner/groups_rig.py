"""What the tests of groups share: a runner over a service in memory, under a clock that does not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, cast

from hypothesis.stateful import RuleBasedStateMachine

from asyncsched._typing import override
from asyncsched.runner import Runner
from asyncsched.runner.groups.engine import Engine
from asyncsched.runner.groups.group import JobGroup
from asyncsched.runner.groups.job import Job
from asyncsched.specs import AppDef, AppState, FailureCause, Role
from asyncsched.testing import FakeScheduler, FakeService, VirtualClock
from tests._support import eventually

__all__ = ["GroupRig", "GroupRules", "another", "rig_follows", "work"]


class GroupRig:
    """A runner with the scheduler ``fake``; its apps start at once and run as their scripts say.

    Attributes:
        most: The greatest number of apps that ran or waited at a time.
    """

    def __init__(self, *, start_delay: float | None = 0.0) -> None:
        self.clock = VirtualClock()
        self.service = FakeService(self.clock, start_delay=start_delay)
        self.scheduler = FakeScheduler("me", self.service)
        self.runner = Runner("me", {"fake": self.scheduler})
        self.runner.clock = self.clock
        self.most = 0
        self.service.watchers.add(self._changed)

    def _changed(self, app_id: str) -> None:
        self.most = max(self.most, self.running)

    @property
    def running(self) -> int:
        """How many apps have not ended."""
        return sum(not app.ended for app in self.service.apps.values())

    async def held(self, count: int = 1) -> None:
        """Wait until so many jobs are launched; apps are held back before their start from when `hold` is called."""
        await eventually(lambda: self.flying == count)

    def hold(self) -> None:
        """Let apps wait for their start: the clock, which runs by itself, would end them."""
        self.service.start_delay = None

    def let_go(self) -> None:
        """Start all apps that wait, and let others start at once."""
        self.service.start_delay = 0.0
        for app_id in list(self.service.apps):
            self.service.start(app_id)

    def fail(self, job: Job, cause: FailureCause) -> None:
        """End the app of a job's last attempt as failed."""
        assert job.handle is not None
        app = self.service.apps[job.handle.app_id]
        for replica in app.replicas.values():
            self.service._stop(app, replica, AppState.FAILED, cause, cause.value)

    @property
    def flying(self) -> int:
        """How many attempts the runner's groups follow."""
        return sum(len(cast("Engine", group).flights) for group in self.runner._groups)

    async def __aenter__(self) -> GroupRig:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.runner.close()
        await self.scheduler.close()
        self.service.close()
        assert not [task for task in asyncio.all_tasks() if "group" in task.get_name()]


def work(script: str = "exit 0", name: str = "work") -> AppDef:
    """Return an app that runs a script of the fake service; ``; `` ends a line of it."""
    return AppDef(name, [Role("main", "image", entrypoint="sh", args=["-c", script.replace("; ", "\n")])])


def another(rig: GroupRig) -> Runner:
    """Return what another process would have: the same session over the same service."""
    runner = Runner("me", {"fake": rig.scheduler})
    runner.clock = rig.clock
    return runner


async def rig_follows(runner: Runner) -> None:
    """Wait until a runner's groups follow an app."""
    groups: Any = runner._groups
    await eventually(lambda: any(group.flights for group in groups))


class GroupRules(RuleBasedStateMachine):
    """What state machines over groups share: a loop in which each rule is a step, and an end with nothing left.

    Attributes:
        rig: Made by the machine's first rule, as is `group`.
        group: The group that rules act on.
    """

    rig: GroupRig
    group: JobGroup

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()

    def run(self, go: Callable[[], Awaitable[None]]) -> None:
        """Run a step to its end."""

        async def within() -> None:
            await go()
            if hasattr(self, "group"):  # a look for a cancellation reads a file in a thread: it takes real time
                await eventually(lambda: self.group._engine.looking is None)

        self.loop.run_until_complete(within())

    def act(self, do: Callable[[], object]) -> None:
        """Do something, and let happen what is due then."""

        async def go() -> None:
            do()
            await self.settle()

        self.run(go)

    async def settle(self) -> None:
        """Let all that is due happen."""
        await self.rig.clock.advance(0)

    async def advance_over(self, work: Coroutine[Any, Any, object]) -> None:
        """Let time go on until something has been done."""
        task = asyncio.create_task(work)
        while not task.done():
            await self.rig.clock.advance(1)
        await task

    @property
    def open_apps(self) -> list[str]:
        """The apps that have not ended."""
        return [app_id for app_id, app in self.rig.service.apps.items() if not app.ended]

    def on_open(self, which: int, do: Callable[[str], object]) -> None:
        """Do something to one of the apps that have not ended, if there is one."""
        if apps := self.open_apps:
            self.act(lambda: do(apps[which % len(apps)]))

    async def finish(self) -> None:
        """End the group, and check what became of it."""
        raise NotImplementedError

    async def _end(self) -> None:
        await self.finish()
        await self.advance_over(self.rig.__aexit__(None, None, None))
        assert {asyncio.current_task()} == asyncio.all_tasks()

    @override
    def teardown(self) -> None:
        try:
            if hasattr(self, "group"):
                self.run(self._end)
        finally:
            self.loop.close()
