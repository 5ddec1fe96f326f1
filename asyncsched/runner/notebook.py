"""A table in a notebook that follows apps while its cell runs, and stays as the cell's output."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Protocol, cast

from asyncsched.clock import Clock, Timeout
from asyncsched.errors import AsyncSchedError, MissingExtraError
from asyncsched.runner.monitor import AppEventStream
from asyncsched.specs.cards import AppRow, table
from asyncsched.specs.handle import AppHandle
from asyncsched.specs.rich_display import RichDisplay
from asyncsched.specs.state import AppState, AppStatus

__all__ = ["show_events"]

INTERVAL = 0.25
"""Seconds between two updates at least: a browser draws no faster than people read."""
QUIET_INTERVALS = 20
"""After so many intervals without a change the ages are drawn anew."""

LINES = 50
"""How many apps the table shows."""

_ATTENTION = {AppState.FAILED: 0, AppState.UNKNOWN: 1, AppState.PENDING: 2, AppState.RUNNING: 3}


class _Shown(Protocol):
    """A cell's output that can be replaced."""

    def update(self, content: object) -> None: ...


class AppTable(RichDisplay):
    """The apps that are followed, those that need attention first."""

    def __init__(self, handles: Sequence[AppHandle]) -> None:
        self.statuses: dict[AppHandle, AppStatus | None] = dict.fromkeys(handles)
        self.note = ""

    def _first(self) -> list[tuple[AppHandle, AppStatus | None]]:
        return sorted(self.statuses.items(), key=lambda item: _attention(item[1]))[:LINES]

    def __repr__(self) -> str:
        rows = [f"{handle}  {'not known' if s is None else s.state}" for handle, s in self._first()]
        more = [f"and {len(self.statuses) - LINES} more"] if len(self.statuses) > LINES else []
        return "\n".join([*rows, *more, *filter(None, [self.note])])

    def _repr_html_(self) -> str:
        rows = [AppRow(*item) for item in self._first()]
        return table(rows, [self.note] if self.note else [], others=len(self.statuses) - len(rows))


async def show_events(handles: Sequence[AppHandle], events: AppEventStream, clock: Clock) -> None:
    """Show a table of the apps and update it until all have ended, or the cell is stopped: the apps run on."""
    shown = AppTable(handles)
    output = _display(shown)
    try:
        async with events:
            await _follow(shown, events, clock, output.update)
    except asyncio.CancelledError:
        shown.note = "no longer followed; the apps run on"
        raise
    finally:
        output.update(shown)


async def _follow(shown: AppTable, events: AppEventStream, clock: Clock, update: Callable[[object], None]) -> None:
    quiet = 0  # intervals without a change; ages are brought up to date all the same, less often
    over = False
    failure: AsyncSchedError | None = None
    while not over:
        try:
            changed, over = await _collect(shown, events, clock.timeout(INTERVAL))
        except AsyncSchedError as error:  # one scheduler's: the apps of the others are followed to their end
            failure, changed = failure or error, True
            shown.note = str(error)
        quiet = 0 if changed else quiet + 1
        if quiet % QUIET_INTERVALS == 0:
            update(shown)
    if failure is not None:
        raise failure


async def _collect(shown: AppTable, events: AppEventStream, limit: Timeout) -> tuple[bool, bool]:
    """Take what happens within one interval; returns whether something did, and whether that was the end."""
    changed = False
    try:
        async with limit:  # a step of a watch that times out loses nothing
            async for event in events:
                shown.statuses[event.handle] = event.current
                changed = True
    except TimeoutError:
        if not limit.expired:
            raise
        return changed, False
    return changed, True


def _display(content: object) -> _Shown:
    ipython = sys.modules.get("IPython")  # whoever runs in a notebook has it
    if ipython is None or ipython.get_ipython() is None:
        raise MissingExtraError(
            "a table that updates itself needs a notebook", why="this is none", fix="use `watch` outside of one"
        )
    return cast("_Shown", import_module("IPython.display").display(content, display_id=True))


def _attention(status: AppStatus | None) -> int:
    return len(_ATTENTION) if status is None else _ATTENTION.get(status.state, len(_ATTENTION))
