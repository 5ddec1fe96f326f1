"""A watch as a state machine: whatever happens in whatever order, it ends right."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from asyncsched.errors import UnavailableError
from asyncsched.schedulers import StateEvent
from asyncsched.specs import AppDef, Role
from asyncsched.testing import FakeScheduler, FakeService, VirtualClock
from asyncsched.testing.fake import Mode

APPS = ("a", "b", "c", "d")
apps = st.sampled_from(APPS)


class WatchMachine(RuleBasedStateMachine):
    """One watch over apps that come, change, end, vanish, are added and discarded, beside another that stays."""

    @initialize(mode=st.sampled_from(["push", "polled"]))
    def open(self, mode: Mode) -> None:
        self.runner = asyncio.Runner()
        self.runner.run(self._open(mode))

    async def _open(self, mode: Mode) -> None:
        self.clock = VirtualClock()
        self.service = FakeService(self.clock)
        self.scheduler = FakeScheduler("mine", self.service, mode=mode)
        self.watch = self.scheduler.watch(follow=True)
        self.beside = self.scheduler.watch(APPS, follow=True)
        self.watched: set[str] = set()
        self.events: dict[str, list[StateEvent]] = {}
        self.failures = 0
        self.runner_of_beside = asyncio.create_task(self._read_beside())

    async def _read_beside(self) -> None:
        async for _ in self.beside:
            pass

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.run(self._finish())
            self.runner.close()

    # What happens to the apps

    @rule(app_id=apps)
    def launch(self, app_id: str) -> None:
        async def go() -> None:
            if app_id not in self.service.apps:
                app = AppDef("job", [Role("main", "i", entrypoint="sh", num_replicas=2)])
                self.service.launch(app_id, app, "mine", "")

        self.runner.run(go())

    @rule(app_id=apps, k=st.sampled_from([0, 1]), code=st.sampled_from([0, 1]))
    def exit(self, app_id: str, k: int, code: int) -> None:
        async def go() -> None:
            if app_id in self.service.apps:
                self.service.exit(app_id, code, k=k)

        self.runner.run(go())

    @rule(app_id=apps)
    def vanish(self, app_id: str) -> None:
        async def go() -> None:
            self.service.vanish(app_id)

        self.runner.run(go())

    @rule()
    def cut(self) -> None:
        self.runner.run(_call(self.service.cut))

    @precondition(lambda self: self.failures < 5)  # more would back off for longer than the quiet at the end
    @rule()
    def fail(self) -> None:
        self.failures += 1
        self.service.fail("describe", UnavailableError("no answer"))

    @rule(seconds=st.sampled_from([0.0, 0.1, 1.0, 10.0]))
    def wait(self, seconds: float) -> None:
        self.runner.run(self.clock.advance(seconds))

    # What the watcher does

    @rule(app_id=apps)
    def add(self, app_id: str) -> None:
        async def go() -> None:
            self.watch.add(app_id)

        if not self._over(app_id):
            self.watched.add(app_id)
        self.runner.run(go())

    @rule(app_id=apps)
    def discard(self, app_id: str) -> None:
        async def go() -> None:
            self.watch.discard(app_id)

        self.watched.discard(app_id)
        self.events.pop(app_id, None)
        self.runner.run(go())

    @rule(steps=st.integers(0, 5))
    def read(self, steps: int) -> None:
        async def go() -> None:
            for _ in range(steps):
                step = asyncio.ensure_future(anext(self.watch))
                for _ in range(5):
                    await asyncio.sleep(0)
                step.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    self._take(await step)

        self.runner.run(go())

    def _take(self, event: StateEvent) -> None:
        seen = self.events.setdefault(event.app_id, [])
        assert event.app_id in self.watched
        assert not (seen and seen[-1].is_terminal())
        assert event.previous == (seen[-1].current if seen else None)
        seen.append(event)

    def _over(self, app_id: str) -> bool:
        return bool(self.events.get(app_id)) and self.events[app_id][-1].is_terminal()

    @invariant()
    def bounded(self) -> None:
        if hasattr(self, "watch"):
            assert self.watch.statistics().pending <= len(APPS)

    async def _finish(self) -> None:
        """However it went: after a quiet minute every watched app's last event says what the service says."""
        await self.clock.advance(120.0)
        for _ in range(2 * len(APPS)):
            step = asyncio.ensure_future(anext(self.watch))
            for _ in range(20):
                await asyncio.sleep(0)
            step.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                self._take(await step)
            await self.clock.advance(15.0)  # an app whose watch has only begun here may have to back off first
        for app_id in self.watched:
            last = self.events[app_id][-1]
            app = self.service.apps.get(app_id)
            if last.is_terminal():
                continue  # it was over when that was told; what came later under this id is another app
            assert app is not None
            assert not app.ended
            assert last.current is not None
            assert [r.state for r in last.current.replicas] == [r.state for r in app.replicas.values()]
        await self.watch.aclose()
        await self.beside.aclose()
        await asyncio.wait([self.runner_of_beside])
        await self.scheduler.close()
        self.service.close()
        assert {asyncio.current_task()} == asyncio.all_tasks()


async def _call(function: Callable[[], None]) -> None:
    function()


TestWatch = WatchMachine.TestCase
TestWatch.settings = settings(stateful_step_count=25, deadline=None)
