"""What a monitor costs that shows ten thousand apps, a hundred changes a second, and the log of one that floods it."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import NamedTuple

from textual.app import App, ComposeResult
from textual.widgets import DataTable

from asyncsched.clock import Clock
from asyncsched.logs import LogStream
from asyncsched.specs import AppHandle, AppState
from asyncsched.tui.app import MonitorApp
from asyncsched.views.apps import AppView
from asyncsched.views.live_log import LINES
from asyncsched.views.live_table import LiveTable
from asyncsched.views.replicas import Tally
from benchmarks._floods import Flood, longest_step, stream_of
from benchmarks._harness import LEAST_ROUNDS, Claim, Count, at_most, in_turns_on_loop, on_loop
from benchmarks._reference import STEP, reference_work
from tests._support import eventually

APPS = 10_000
CHANGES = 100
"""Changes a second."""
SECONDS = 4
SIZE = (120, 40)

OURS = "the monitor"
FLOODED = "the monitor beside a flooding log"
TABLE = "textual's DataTable"
CORE = "a core"
STATES = (AppState.RUNNING, AppState.FAILED, AppState.SUCCEEDED, AppState.PENDING)


class Window(NamedTuple):
    """What a few seconds have cost.

    Attributes:
        cpu: CPU of this thread, for each second.
        step: CPU of the longest step.
        paints: How often changes were painted.
        changes: How many there were: on a busy machine fewer than are wanted, and not equally few for both.
    """

    cpu: float
    step: float = 0.0
    paints: int = 0
    changes: int = 1


_CPU: Callable[[Window], float] = attrgetter("cpu")
_STEP: Callable[[Window], float] = attrgetter("step")


def _per_change(window: Window) -> float:
    return window.cpu * SECONDS / window.changes


class _Source:
    """Apps of which a hundred change in a second."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.filled = asyncio.Event()
        self.goes_on = asyncio.Event()
        self.born = datetime.now(UTC)
        self.changes = 0
        self._count = 0

    def view(self, number: int) -> AppView:
        """Return the next state of an app."""
        self._count += 1
        state = STATES[self._count % len(STATES)]
        born = self.born - timedelta(seconds=number % 100)
        return AppView(handle=f"many://me/app-{number:05}", state=state, tally=Tally(8, 1, 0, 7), created_at=born)

    async def follow(self, table: LiveTable, changed: Callable[[], None], note: Callable[[str], None]) -> None:
        for number in range(APPS):
            table.show(self.view(number))
            if number % 100 == 0:
                await asyncio.sleep(0)
        changed()
        self.filled.set()
        await self.goes_on.wait()
        for number in range(1 << 30):
            table.show(self.view(number * 7919 % APPS))
            changed()
            self.changes += 1
            await asyncio.sleep(1 / CHANGES)

    def need(self, handles: Collection[str]) -> None:
        """All are known."""

    def log_lines(self, handles: Sequence[str], *, should_tail: bool = False, **query: object) -> LogStream:
        return stream_of([Flood(0, chunks=None if should_tail else 0)])

    async def cancel(self, handles: Sequence[str]) -> Mapping[AppHandle, Exception]:
        return {}

    async def describe(self, handle: str) -> str:
        return handle


async def claims() -> AsyncIterator[Claim]:
    """Show the same apps and changes in turns; what is claimed is a share of a core, and ratios."""
    measures = {
        OURS: lambda: _monitor(flooded=False),
        FLOODED: lambda: _monitor(flooded=True),
        TABLE: _data_table,
        CORE: on_loop(lambda: Window(1.0)),
        STEP: on_loop(lambda: Window(0.0, reference_work())),
    }
    taken = await in_turns_on_loop(measures, LEAST_ROUNDS)
    cpu = taken.told(1e3, "ms of CPU a second", _CPU)
    yield at_most(f"{APPS} apps, {CHANGES} changes a second", taken.ratio(OURS, CORE, _CPU), 0.1, detail=cpu)
    yield at_most("the same, and a log that floods its pane", taken.ratio(FLOODED, CORE, _CPU), 0.1, detail=cpu)
    changes = taken.told(1e3, "ms of CPU a change", _per_change)
    yield at_most("CPU for the same rows and changes", taken.ratio(OURS, TABLE, _per_change), 0.1, detail=changes)
    steps = taken.told(1e3, "ms", _STEP)
    yield at_most("CPU of the longest step", taken.ratio(FLOODED, STEP, _STEP), 1.0, detail=steps)
    paints = max(window.paints for window in taken.of[OURS])
    yield at_most(f"paintings in {SECONDS} s", Count(number=paints, of="paintings"), 4 * SECONDS + 1)
    apps, log = await _memory()
    yield at_most("memory for an app", Count(number=apps // APPS, of="bytes"), 1536)
    yield at_most(f"memory for a flood of which {LINES} lines are kept", Count(number=log >> 10, of="KiB"), 8192)


@asynccontextmanager
async def _shown() -> AsyncIterator[tuple[_Source, MonitorApp]]:
    source = _Source()
    app = MonitorApp(source)
    async with app.run_test(size=SIZE):
        await source.filled.wait()
        yield source, app
        await app.close()


async def _monitor(*, flooded: bool) -> Window:
    async with _shown() as (source, app):
        if flooded:
            app.action_log()
        await asyncio.sleep(0.5)
        source.goes_on.set()
        paints, cpu = app.painter.paints, time.thread_time()
        with longest_step() as steps:
            await asyncio.sleep(SECONDS)
        used = (time.thread_time() - cpu) / SECONDS
        return Window(used, max(steps), app.painter.paints - paints, source.changes)


class _Table(App[None]):
    def compose(self) -> ComposeResult:
        yield DataTable()


async def _data_table() -> Window:
    """Show the same in textual's own table, in which rows stay where they are."""
    source, app = _Source(), _Table()
    async with app.run_test(size=SIZE):
        table = app.query_one(DataTable)
        table.add_columns("APP", "STATE", "REPLICAS", "AGE", "WHY")
        for number in range(APPS):
            view = source.view(number)
            table.add_row(view.app_id, view.word, str(view.tally), "1s", view.reason, key=view.handle)
            if number % 100 == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(0.5)
        state = table.ordered_columns[1].key
        cpu, end, number = time.thread_time(), time.monotonic() + SECONDS, 0
        with longest_step() as steps:
            while time.monotonic() < end:
                number += 1
                view = source.view(number * 7919 % APPS)
                table.update_cell(view.handle, state, view.word)
                await asyncio.sleep(1 / CHANGES)
        return Window((time.thread_time() - cpu) / SECONDS, max(steps), changes=number)


async def _memory() -> tuple[int, int]:
    """Return the bytes that all apps take, and those that a flood adds in which far more was read than is kept."""
    tracemalloc.start()
    try:
        source, table = _Source(), LiveTable()
        before = tracemalloc.get_traced_memory()[0]
        for number in range(APPS):
            table.show(source.view(number))
            if number % 100 == 0:
                await asyncio.sleep(0)
        apps = tracemalloc.get_traced_memory()[0] - before
        async with _shown() as (_, app):
            before = tracemalloc.get_traced_memory()[0]
            app.action_log()
            await eventually(lambda: app.log_view is not None and app.log_view.count >= 4 * LINES)
            log = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    return apps, log
