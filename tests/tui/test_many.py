"""Ten thousand apps: what is painted, and how often, is counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from textual.pilot import Pilot

from asyncsched.clock import Clock
from asyncsched.logs.stream import LogStream
from asyncsched.specs import AppHandle, AppState
from asyncsched.testing import VirtualClock
from asyncsched.tui.app import MonitorApp
from asyncsched.tui.painter import EVERY
from asyncsched.tui.panes import TablePane
from asyncsched.tui.screens import Question
from asyncsched.views.apps import AppView
from asyncsched.views.live_table import LiveTable
from asyncsched.views.replicas import Tally
from tests._support import eventually

APPS = 10_000
HEIGHT = 30


class Many:
    """A source of apps that change when they are told to."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock: Clock = clock
        self.table: LiveTable | None = None
        self.filled = asyncio.Event()
        self.needed: set[str] = set()
        self.born = timedelta(days=3)
        self._changed: Callable[[], None] = lambda: None

    def view(self, number: int, state: AppState = AppState.RUNNING) -> AppView:
        born = datetime.fromtimestamp(self.clock.time_ns() / 1e9, UTC) - self.born - timedelta(milliseconds=number)
        return AppView(handle=f"many://me/app-{number:05}", state=state, tally=Tally(1, 0, 0, 1), created_at=born)

    def change(self, number: int, state: AppState) -> None:
        assert self.table is not None
        self.table.show(self.view(number, state))
        self._changed()

    async def follow(self, table: LiveTable, changed: Callable[[], None], note: Callable[[str], None]) -> None:
        for number in range(APPS):
            table.show(self.view(number))
            if number % 100 == 0:
                changed()
                await asyncio.sleep(0)
        changed()
        self.table, self._changed = table, changed
        self.filled.set()
        await asyncio.Event().wait()

    def need(self, handles: Collection[str]) -> None:
        self.needed.update(handles)

    def log_lines(self, handles: Sequence[str], **query: object) -> LogStream:
        raise AssertionError("none of these apps has anything to read")

    async def cancel(self, handles: Sequence[str]) -> Mapping[AppHandle, Exception]:
        return {}

    async def describe(self, handle: str) -> str:
        return ""


async def settled(pilot: Pilot[Any], pane: TablePane) -> None:
    """Wait until everything is rendered: textual does that a few times a second of real time."""
    rendered = -1
    while rendered != pane.rendered:
        rendered = pane.rendered
        await pilot.pause()
        await eventually(lambda: not pilot.app.screen._dirty_widgets)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


async def test_changes_are_painted_four_times_a_second_and_only_what_is_visible(clock: VirtualClock) -> None:
    source = Many(clock)
    app = MonitorApp(source)
    async with app.run_test(size=(100, HEIGHT)) as pilot:
        await source.filled.wait()
        await clock.advance(1)
        pane = app.query_one("#table", TablePane)
        await settled(pilot, pane)
        assert pane.lines[1].cells[0] == "app-00000"

        # A hundred changes a second far below what is visible.
        paints, rendered = app.painter.paints, pane.rendered
        for number in range(500):
            source.change(5000 + number, AppState.SUCCEEDED)
            await clock.advance(0.01)
        await settled(pilot, pane)
        seconds = 500 * 0.01
        assert seconds / EVERY - 1 <= app.painter.paints - paints <= seconds / EVERY + 1
        assert rendered == pane.rendered, "of what is not visible nothing is rendered"

        # One change of a visible app.
        rendered = pane.rendered
        source.change(3, AppState.CANCELLED)  # goes to the end, and what is below moves up
        await clock.advance(EVERY)
        await eventually(lambda: pane.rendered > rendered)
        await settled(pilot, pane)
        assert 0 < pane.rendered - rendered <= HEIGHT
        assert len(source.needed) < 2 * HEIGHT


async def test_ages_tick_for_visible_rows_only(clock: VirtualClock) -> None:
    source = Many(clock)
    app = MonitorApp(source)
    async with app.run_test(size=(100, HEIGHT)) as pilot:
        await source.filled.wait()
        await clock.advance(1)
        pane, paints = app.query_one("#table", TablePane), app.painter.paints
        await settled(pilot, pane)
        rendered, before = pane.rendered, [line.cells[3] for line in pane.lines[1:]]
        await clock.advance(10)
        await settled(pilot, pane)
        assert 10 == app.painter.paints - paints, "once a second where nothing changes"
        assert rendered == pane.rendered, "an age of days is the same ten seconds later"

        source.born = timedelta(0)
        for number in range(APPS):
            source.change(number, AppState.RUNNING)
            if number % 100 == 0:
                await asyncio.sleep(0)
        await clock.advance(1)
        await settled(pilot, pane)
        rendered = pane.rendered
        await clock.advance(10)
        await eventually(lambda: pane.rendered > rendered)
        await settled(pilot, pane)
        assert before != [line.cells[3] for line in pane.lines[1:]]
        assert 0 < pane.rendered - rendered <= 10 * HEIGHT


async def test_ten_thousand_are_sorted_filtered_and_marked(clock: VirtualClock) -> None:
    source = Many(clock)
    app = MonitorApp(source)
    async with app.run_test(size=(100, HEIGHT)) as pilot:
        await source.filled.wait()
        await pilot.press("s", "s", "end")
        assert "many://me/app-09999" == app.table.cursor
        await pilot.press("slash", *"0420", "enter")
        assert "showing 11 of 10,000, with '0420', by name" == app.table.showing()
        await pilot.press("M", "escape", "home")
        assert "showing 10,000 of 10,000, by name, 11 marked" == app.table.showing()
        app.table.left_out = {AppState.SUCCEEDED: 2431}
        assert "showing 10,000 of 12,431" in app.table.showing()


@pytest.mark.parametrize("ended", [0, 5_000])
async def test_ten_thousand_marked_are_cancelled_after_a_question_and_have_no_log(
    clock: VirtualClock, ended: int
) -> None:
    source = Many(clock)
    app = MonitorApp(source)
    async with app.run_test(size=(100, HEIGHT)) as pilot:
        await source.filled.wait()
        for number in range(ended):
            source.change(number, AppState.SUCCEEDED)
            if number % 100 == 0:
                await asyncio.sleep(0)
        await pilot.press("M", "c")
        await eventually(lambda: len(app.screen_stack) > 1)
        assert isinstance(app.screen, Question)
        assert f"cancel {APPS - ended:,} apps?" in app.screen.text
        await pilot.press("escape", "enter")
        await eventually(lambda: len(app.screen_stack) == 1)
        await eventually(lambda: "a log shows at most 1,000 apps, and 10,000 are marked" == app._last_line.text)
        assert app.log_view is None
