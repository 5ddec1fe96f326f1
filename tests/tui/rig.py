"""A monitor over two services in memory, whose keys are pressed and whose screen is read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from textual.pilot import Pilot

from asyncsched.runner.live_apps import LiveApps
from asyncsched.runner.runner_host import RunnerHost
from asyncsched.specs import AppHandle
from asyncsched.tui.app import MonitorApp
from asyncsched.tui.panes import LinesPane
from tests._support import eventually
from tests.runner.rig import Rig


class Seen:
    """A monitor as somebody sees it."""

    def __init__(self, app: MonitorApp, pilot: Pilot[Any]) -> None:
        self.app = app
        self.pilot = pilot

    def pane(self, name: str) -> str:
        return self.app.screen_stack[0].query_one(f"#{name}", LinesPane).text

    @property
    def rows(self) -> list[str]:
        """The lines of the table, without the titles."""
        return self.pane("table").splitlines()[1:]

    @property
    def names(self) -> list[str]:
        """The first word of each line of the table."""
        return [row[2:].split()[0] for row in self.rows]

    @property
    def over(self) -> str:
        """What lies over the table."""
        stack = self.app.screen_stack
        return stack[-1].query_one(LinesPane).text if len(stack) > 1 else ""

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        await self.press(*({" ": "space"}.get(char, char) for char in text))

    async def shows(self, text: str, pane: str = "table") -> None:
        """Wait until a pane, or what lies over the table, shows a text."""
        await eventually(lambda: text in (self.over if pane == "over" else self.pane(pane)))

    async def has(self, *names: str) -> None:
        """Wait until these apps are shown, in this order."""
        await eventually(lambda: [*names] == self.names)


@asynccontextmanager
async def monitoring(
    rig: Rig, handles: Sequence[AppHandle] = (), *, size: tuple[int, int] = (120, 30), **options: Any
) -> AsyncIterator[Seen]:
    """Monitor these apps; none means all that there are, and those that appear."""
    leaves = options.pop("leaves", False)
    look = None if handles else rig.runner.list
    events = rig.runner.watch(handles, follow=not handles)
    source = LiveApps(RunnerHost(rig.runner), events, handles, look, **options)
    app = MonitorApp(source, leaves=leaves)
    async with app.run_test(size=size) as pilot:
        yield Seen(app, pilot)
        await app.close()
