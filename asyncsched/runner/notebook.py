"""Tables and logs in notebooks: updated while the cell runs, kept as the cell's output."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import Protocol, TypeAlias, cast

from asyncsched._error_text import quiet
from asyncsched._streams import AsyncStream
from asyncsched._typing import override
from asyncsched.clock import Clock, Timeout
from asyncsched.errors import AsyncSchedError, MissingExtraError
from asyncsched.logs.stream import LogStream
from asyncsched.runner.convert import AppEvent
from asyncsched.specs.handle import AppHandle
from asyncsched.specs.rich_display import RichDisplay
from asyncsched.specs.state import AppStatus
from asyncsched.views.cards import table
from asyncsched.views.log_view import LogView
from asyncsched.views.overview import Overview, overview
from asyncsched.views.summary import summary

__all__ = ["AppTable", "LogBox", "LogBoxes", "check_notebook", "is_notebook", "show_events", "show_lines"]

Rows: TypeAlias = Collection[tuple[AppHandle, AppStatus | None]]

INTERVAL = 0.25
"""The minimum number of seconds between two updates."""
MOST_BOXES = 8
"""How many shown logs are kept open."""
QUIET_INTERVALS = 20
"""After how many intervals without a change the ages are updated."""


class _Shown(Protocol):
    """A cell's output that can be replaced."""

    def update(self, content: object) -> None: ...


class AppTable(RichDisplay):
    """The followed apps, those that need attention first.

    Args:
        handles: The apps at the beginning.
        rows: Returns the rows to show; by default the recorded statuses.
        title: Returns the line above the table; by default the number of apps by state.
    """

    def __init__(
        self, handles: Sequence[AppHandle], rows: Callable[[], Rows] | None = None, title: Callable[[], str] = str
    ) -> None:
        self.statuses: dict[AppHandle, AppStatus | None] = dict.fromkeys(handles)
        self.note = ""
        self._rows = rows or self.statuses.items
        self._title = title

    def __repr__(self) -> str:
        return self._text(overview(self._rows()))

    def _repr_html_(self) -> str:
        return self._html(overview(self._rows()))

    @override
    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        shown = overview(self._rows())  # once for both: there may be ten thousand rows
        return {"text/plain": self._text(shown), "text/html": self._html(shown)}

    def _text(self, shown: Overview) -> str:
        lines = [
            f"{line.handles[0]}  {line.view.word}" + (f" ({len(line.handles)} alike)" if len(line.handles) > 1 else "")
            for line in shown.lines
        ]
        more = [f"and {shown.others} more"] if shown.others else []
        return "\n".join([self._title() or summary(shown.states), *lines, *more, *filter(None, [self.note])])

    def _html(self, shown: Overview) -> str:
        return table(shown, datetime.now(UTC), filter(None, [self.note]), self._title())


async def show_events(shown: AppTable, events: AsyncStream[AppEvent], clock: Clock) -> None:
    """Show a table of apps and update it until all have ended, or the cell is stopped; the apps keep running."""
    output = _display(shown)
    try:
        async with events:
            await _follow(shown, events, clock, output.update)
    except asyncio.CancelledError as error:
        shown.note = "no longer followed; the apps keep running"

        def forget_note() -> None:
            shown.note = ""
            output.update(shown)

        quiet(error, shown.note, forget_note)
        raise
    finally:
        output.update(shown)


async def _follow(
    shown: AppTable, events: AsyncStream[AppEvent], clock: Clock, update: Callable[[object], None]
) -> None:
    quiet = 0  # intervals without a change; ages are still updated, less often
    over = False
    failure: AsyncSchedError | None = None
    while not over:
        try:
            changed, over = await _collect(shown, events, clock.timeout(INTERVAL))
        except AsyncSchedError as error:  # of one scheduler; the other schedulers' apps are followed to their end
            failure, changed = failure or error, True
            shown.note = str(error)
        quiet = 0 if changed else quiet + 1
        if quiet % QUIET_INTERVALS == 0:
            update(shown)
    if failure is not None:
        raise failure


async def _collect(shown: AppTable, events: AsyncStream[AppEvent], limit: Timeout) -> tuple[bool, bool]:
    """Collect the events of one interval; return whether there were any, and whether the watch has ended."""
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


def check_notebook(what: str, instead: str, other: str = "") -> None:
    """Raise MissingExtraError if this is not a notebook.

    Args:
        what: What the caller wants to show.
        instead: The method to use instead.
        other: Where else it could be shown.
    """
    if not is_notebook():
        raise MissingExtraError(
            f"a {what} that updates itself needs a notebook{other and f', or {other}'}",
            why="this is neither" if other else "this is not a notebook",
            fix=f"use `{instead}` instead",
        )


def is_notebook() -> bool:
    """Tell whether this is a notebook, or another shell of IPython."""
    ipython = sys.modules.get("IPython")  # a notebook has imported it
    return ipython is not None and ipython.get_ipython() is not None


def _display(content: object) -> _Shown:
    check_notebook("table", "watch", "a terminal and `pip install 'asyncsched[tui]'`")
    return cast("_Shown", import_module("IPython.display").display(content, display_id=True))


class LogBox(RichDisplay):
    """The log of some apps in a cell, which continues where it was when it is shown again.

    Args:
        lines: The log. It stays open while it is not shown; its sources then buffer a bounded number of lines.
        several: Whether there are several apps.
    """

    def __init__(self, lines: LogStream, *, several: bool) -> None:
        self.lines = lines
        self.view = LogView(several=several)

    def __repr__(self) -> str:
        return self.view.text()

    def _repr_html_(self) -> str:
        return self.view.html()


class LogBoxes:
    """The recently shown logs; the least recently shown one is closed first."""

    def __init__(self) -> None:
        self._boxes: dict[tuple[str, ...], LogBox] = {}

    async def get(self, handles: Sequence[str], make: Callable[[], LogStream]) -> LogBox:
        """Return the box of these apps, or a new one if none is open."""
        key = tuple(handles)
        box = self._boxes.pop(key, None)
        if box is None:
            box = LogBox(make(), several=len(key) > 1)
        self._boxes[key] = box
        while len(self._boxes) > MOST_BOXES:
            oldest = next(iter(self._boxes))
            await self._boxes.pop(oldest).lines.aclose()
        return box


async def show_lines(box: LogBox, clock: Clock) -> None:
    """Show a log and update it until it ends, or the cell is stopped; the apps keep running."""
    box.view.note = ""
    output = _display(box)
    try:
        while await _take(box, clock.timeout(INTERVAL)):
            output.update(box)
    except asyncio.CancelledError as error:
        box.view.note = "no longer followed; run the cell again to go on"

        def forget_note() -> None:
            box.view.note = ""
            output.update(box)

        quiet(error, box.view.note, forget_note)
        raise
    except AsyncSchedError as error:
        box.view.note = str(error)
        raise
    finally:
        output.update(box)


async def _take(box: LogBox, limit: Timeout) -> bool:
    """Collect the lines of one interval; return whether more may come."""
    try:
        async with limit:
            async for line in box.lines:
                box.view.add(line)
    except TimeoutError:
        if not limit.expired:
            raise
        return True
    return False
