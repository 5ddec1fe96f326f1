"""The monitor: events of many apps into a table, keys into deeds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from asyncsched.cli.apps import finish
from asyncsched.cli.changes import watch_found
from asyncsched.cli.console import Console
from asyncsched.cli.errors import exit_code, in_one_line, worst
from asyncsched.cli.lines import LinePrinter, print_lines, printer_for
from asyncsched.cli.loop import next_event, warnings_to
from asyncsched.cli.monitor_board import Board
from asyncsched.cli.monitor_screen import Screen
from asyncsched.cli.targets import Found, Target, failures_of, find_apps, list_apps
from asyncsched.errors import AsyncSchedError
from asyncsched.runner.runner import Runner
from asyncsched.specs.handle import AppHandle

__all__ = ["monitor"]

REDRAW_EVERY = 0.1
"""Seconds between two drawings at least, however many events there are."""

_PAGE = {"up": -1, "down": 1, "page up": -10, "page down": 10}


async def monitor(console: Console, runner: Runner, targets: Sequence[Target], *, only: str = "") -> int:
    """Show the apps until the user leaves; without a terminal, print each change until all have ended."""
    found = await (find_apps(console, runner, targets) if targets else _all_unfinished(console, runner, only))
    if console.width is None or console.format != "table" or not Screen.is_supported():
        if found.apps and console.format == "table":
            console.say("note: this is no terminal, so each change is a line; in one there is a live table")
        return await watch_found(console, runner, found)
    if not found.apps:
        return finish(console, found.failures)
    view = _Monitor(console, runner, found)
    return await view.run()


async def _all_unfinished(console: Console, runner: Runner, only: str) -> Found:
    rows = await list_apps(runner, only=only)
    found = Found(failures=[*rows.failures.values()] if only else failures_of(rows))
    unfinished = [AppHandle(row.app_handle) for row in rows if not row.state.is_terminal()]
    found.apps = [(handle, Target(app=handle)) for handle in unfinished]
    if not unfinished:
        console.say("no app runs")
    return found


class _Monitor:
    def __init__(self, console: Console, runner: Runner, found: Found) -> None:
        self._console = console
        self._runner = runner
        self._handles = found.handles
        self._board = Board(color=console.color)
        self._keys: asyncio.Queue[str] = asyncio.Queue()
        self._dirty = asyncio.Event()
        self._on_top = asyncio.Event()  # while a log is shown, nothing is drawn
        self._on_top.set()
        self._failures = found.failures
        for failure in found.failures:
            self._note(in_one_line(failure))

    async def run(self) -> int:
        try:
            with Screen(self._keys.put_nowait, self._dirty.set) as screen, warnings_to(self._note):
                async with asyncio.TaskGroup() as group:  # what fails ends all of it
                    tasks = [group.create_task(work) for work in (self._watch(), self._draw(screen))]
                    await self._obey(screen, group)
                    for task in tasks:
                        task.cancel()
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return worst([exit_code(failure) for failure in self._failures])

    async def _watch(self) -> None:
        async with self._runner.watch(self._handles) as events:
            while (event := await next_event(events, self._failed)) is not None:
                self._board.update(event.handle, event.current)
                self._dirty.set()

    def _failed(self, error: Exception) -> None:
        self._failures.append(error)
        self._note(in_one_line(error))

    async def _draw(self, screen: Screen) -> None:
        while True:
            await self._dirty.wait()
            await self._on_top.wait()
            self._dirty.clear()
            screen.draw(self._board.lines(*screen.size))
            await asyncio.sleep(REDRAW_EVERY)

    async def _obey(self, screen: Screen, group: asyncio.TaskGroup) -> None:
        self._dirty.set()
        while (key := await self._keys.get()) != "q":
            selected = self._board.selected
            if key in _PAGE:
                self._board.move(_PAGE[key])
            elif key == "enter" and selected is not None:
                await self._show_log(screen, group, selected)
            elif key == "c" and selected is not None:
                await self._cancel(selected)
            self._dirty.set()

    async def _cancel(self, handle: AppHandle) -> None:
        self._note(f"cancel {handle.app_id}? y/n")
        if await self._keys.get() != "y":
            self._note("")
            return
        try:
            await self._runner.cancel(handle)
            self._note(f"cancel of {handle.app_id} was asked for")
        except AsyncSchedError as error:
            self._note(in_one_line(error))

    async def _show_log(self, screen: Screen, group: asyncio.TaskGroup, handle: AppHandle) -> None:
        """Show the log on the user's own screen, where it stays; any of q, enter and escape returns."""
        self._on_top.clear()
        screen.give_back()
        self._console.say(f"log of {handle}; q returns")
        printer = printer_for(self._console)
        reading = group.create_task(self._read(handle, printer))
        try:
            while await self._keys.get() not in ("q", "enter", "escape"):
                pass
        finally:
            reading.cancel()
            await asyncio.wait([reading])
        screen.take()
        self._on_top.set()

    async def _read(self, handle: AppHandle, printer: LinePrinter) -> None:
        try:
            await print_lines(self._runner.log_lines(handle, should_tail=True), printer)
            self._console.say("end of the log; q returns")
        except AsyncSchedError as error:
            self._console.say(in_one_line(error))

    def _note(self, text: str) -> None:
        self._board.note = text
        self._dirty.set()
