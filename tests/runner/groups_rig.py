"""A runner over a service in memory that keeps count of what runs, under a clock that does not wait."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, cast

from asyncsched.runner import Runner
from asyncsched.runner.groups.engine import Engine
from asyncsched.runner.groups.job import Job
from asyncsched.specs import AppDef, AppState, FailureCause, Role
from asyncsched.testing import FakeScheduler, FakeService, VirtualClock
from tests._support import eventually

__all__ = ["GroupRig", "another", "rig_follows", "work"]


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
