"""A runner over two services in memory, in real time: nothing in them takes any unless a test says so."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from asyncsched.clock import Clock
from asyncsched.runner import Runner
from asyncsched.specs import AppDef, AppHandle, Role
from asyncsched.testing import FakeScheduler, FakeService


class Rig:
    """Apps wait until they are started by hand.

    Attributes:
        push: A service that reports changes; its scheduler is called ``push``.
        polled: A service that is asked for them; its scheduler is called ``polled``.
        runner: A runner over both.
    """

    def __init__(self, session: str = "me", **options: Any) -> None:
        self.push = FakeService(Clock(), start_delay=None)
        self.polled = FakeService(Clock(), start_delay=None)
        self.schedulers = {
            "push": FakeScheduler(session, self.push),
            "polled": FakeScheduler(session, self.polled, mode="polled"),
        }
        self.schedulers["polled"].poll_interval = 0.001
        self.schedulers["polled"].calls_per_second = 10_000
        self.runner = Runner(session, self.schedulers, **options)

    async def __aenter__(self) -> Rig:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.runner.close()
        for scheduler in self.schedulers.values():
            await scheduler.close()
            scheduler.service.close()

    def service(self, handle: AppHandle) -> FakeService:
        return self.schedulers[handle.scheduler].service

    async def run(self, scheduler: str = "push", *, started: bool = True, **more: Any) -> AppHandle:
        handle = await self.runner.run(app(**more), scheduler)
        if started:
            self.service(handle).start(handle.app_id)
        return handle

    def say(self, handle: AppHandle, text: str) -> None:
        self.service(handle).say(handle.app_id, text + "\n")

    def exit(self, handle: AppHandle, code: int = 0) -> None:
        self.service(handle).exit(handle.app_id, code)

    def vanish(self, handle: AppHandle) -> None:
        self.service(handle).vanish(handle.app_id)


def app(name: str = "job", *, replicas: int = 1, **more: Any) -> AppDef:
    return AppDef(name, [Role("main", "image", entrypoint="work", num_replicas=replicas, **more)])
