"""Print a line when a followed app ends, after the app's last log line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager

from asyncsched.cli.colors import painted, state_color
from asyncsched.cli.control_sequences import visible
from asyncsched.cli.log_printer import LinePrinter
from asyncsched.errors import AsyncSchedError
from asyncsched.logs.stream import LogStream
from asyncsched.runner.runner import Runner
from asyncsched.specs.handle import AppHandle
from asyncsched.views.apps import AppView, app_view
from asyncsched.views.log_names import Names
from asyncsched.views.spans import span

__all__ = ["ends_told"]

LOOK_EVERY = 0.05
"""Seconds between two checks whether the log of an ended app was read to its end."""
WITHIN = 5.0
"""How many seconds to wait for states after all logs have been read."""


@asynccontextmanager
async def ends_told(
    runner: Runner, handles: Collection[AppHandle], lines: LogStream, names: Names, printer: LinePrinter, *, color: bool
) -> AsyncGenerator[None]:
    """Print a line for each app that ends while its log is followed."""
    ends = _Ends(lines, names, printer, color=color)
    watching = asyncio.create_task(ends.watch(runner, handles))
    try:
        yield
        await asyncio.wait([watching], timeout=WITHIN)
    finally:
        watching.cancel()
        await asyncio.wait([watching])
    if not watching.cancelled():
        watching.result()


class _Ends:
    def __init__(self, lines: LogStream, names: Names, printer: LinePrinter, *, color: bool) -> None:
        self._lines = lines
        self._names = names
        self._printer = printer
        self._color = color
        self._unread: list[AppView] = []

    async def watch(self, runner: Runner, handles: Collection[AppHandle]) -> None:
        """Print each end once the app's last line was read."""
        try:
            async with runner.watch(handles) as events:
                looking = asyncio.create_task(self._look())
                try:
                    async for event in events:
                        if event.is_terminal():
                            self._unread.append(app_view(event.handle, event.current))
                    await self._look(to_the_end=True)
                finally:
                    looking.cancel()
                    await asyncio.wait([looking])
        except AsyncSchedError:
            return  # its log fails too, and that error is reported

    async def _look(self, *, to_the_end: bool = False) -> None:
        while self._unread or not to_the_end:
            for view in [view for view in self._unread if self._lines.is_terminal(view.app_id)]:
                self._unread.remove(view)
                self._printer.tell(self._line(view))
            await asyncio.sleep(LOOK_EVERY)

    def _line(self, view: AppView) -> str:
        took = ""
        if view.started_at is not None and view.finished_at is not None:
            took = f" after {span(view.finished_at - view.started_at)}"
        why = f": {visible(view.reason, one_line=True)}" if view.reason else ""
        state = painted(view.word, state_color(view.state) if self._color else "")
        return f"-- {visible(self._names.app(view.app_id), one_line=True)} {state}{took}{why}"
