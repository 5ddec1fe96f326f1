"""Facades over services in memory; a service's own methods are called in the facade's loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from asyncsched.clock import Clock
from asyncsched.specs import AppDef, AppHandle, Role
from asyncsched.sync import SyncRunner
from asyncsched.testing import FakeScheduler, FakeService

R = TypeVar("R")


class Rig:
    """A blocking runner over one service, whose apps end when they are told to."""

    def __init__(self) -> None:
        self.service = FakeService(Clock(), start_delay=None)
        self.runner = SyncRunner("me", {"fake": FakeScheduler("me", self.service)})

    def do(self, what: Callable[[], R]) -> R:
        """Do something in the loop, where the service lives."""

        async def call() -> R:
            return what()

        return self.runner._bridge.call(call)

    def run(self) -> AppHandle:
        handle = self.runner.run(app(), "fake")
        self.do(lambda: self.service.start(handle.app_id))
        return handle

    def say(self, handle: AppHandle, text: str) -> None:
        self.do(lambda: self.service.say(handle.app_id, text))

    def exit(self, handle: AppHandle, code: int = 0) -> None:
        self.do(lambda: self.service.exit(handle.app_id, code))


def app() -> AppDef:
    return AppDef("job", [Role("main", "image", entrypoint="work")])
