"""The apps of a monitor that stays open: one watch, and a periodic list for new apps."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING

from asyncsched._typing import override
from asyncsched.errors import ConfigError
from asyncsched.logs.loop_time import budget_of
from asyncsched.runner.convert import AppEvent
from asyncsched.runner.results import AppList
from asyncsched.runner.shown_apps import ShownApps
from asyncsched.runner.watch import AppEventStream
from asyncsched.schedulers.responses import ListAppResponse
from asyncsched.specs.handle import AppHandle
from asyncsched.specs.state import AppState
from asyncsched.views.answers import listed, with_listed
from asyncsched.views.apps import app_view
from asyncsched.views.live_table import LiveTable

if TYPE_CHECKING:
    from asyncsched.runner.groups.host import Host

__all__ = ["LOOK_EVERY", "MOST", "LiveApps"]

MOST = 10_000
"""How many apps are shown, the newest; the others are counted."""

LOOK_EVERY = 5.0
"""Seconds between two lists for new apps; more if a list takes long."""

LONGEST_PAUSE = 60.0


class LiveApps(ShownApps):
    """Apps as they change, and new apps as they appear.

    Args:
        host: The runner.
        events: The watch; it already has the apps in `handles`.
        handles: The apps at the beginning.
        look: Lists the existing apps, newest first; without it, no apps are added.
        since_now: Whether to leave out apps that had ended before the first list.
        most: How many apps are shown.
        failures: Errors that happened before.
    """

    def __init__(
        self,
        host: Host,
        events: AppEventStream,
        handles: Collection[str] = (),
        look: Callable[[], Awaitable[AppList]] | None = None,
        *,
        since_now: bool = False,
        most: int = MOST,
        failures: Sequence[Exception] = (),
    ) -> None:
        super().__init__(host, events, failures)
        self._watch = events
        self._fixed = frozenset(handles)
        self._look = look
        self._since_now = since_now
        self._most = most
        self._rows: dict[str, ListAppResponse] = {}
        self._past: set[str] | None = None
        self._watched: set[str] = {*handles}

    @override
    async def follow(self, table: LiveTable, changed: Callable[[], None], note: Callable[[str], None]) -> None:
        """Update the table until all apps have ended. Cancelling this does not affect the apps."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(super().follow(table, changed, note))
                if self._look is not None:
                    group.create_task(self._keep_looking(self._look, table, changed))
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None

    @override
    def _show(self, table: LiveTable, event: AppEvent) -> None:
        if event.handle in self._watched:
            table.show(with_listed(app_view(event.handle, event.current), self._rows.get(event.handle)))

    @override
    def need(self, handles: Collection[str]) -> None:
        """Look into these apps: they are seen, and so far only listed."""
        new = [handle for handle in handles if handle not in self._watched]
        if new:
            self._watched.update(new)
            self._watch.add(new)

    async def _keep_looking(
        self, look: Callable[[], Awaitable[AppList]], table: LiveTable, changed: Callable[[], None]
    ) -> None:
        while True:
            began = self.clock.monotonic()
            try:
                rows = await look()
            except Exception as error:  # noqa: BLE001 - a plugin's own, too: the next look may find more
                self._failed(error)
            else:
                await self._take(rows, table)
            changed()
            took = self.clock.monotonic() - began
            await self.clock.sleep(min(max(LOOK_EVERY, 5 * took), LONGEST_PAUSE))

    async def _take(self, rows: AppList, table: LiveTable) -> None:
        for error in rows.failures.values():
            # One that is not installed or not configured here is not missed.
            if not isinstance(error, ConfigError) and getattr(error, "is_set_up", True):
                self._failed(error)
        found = await self._choose(rows, table)
        budget = budget_of(asyncio.get_running_loop())
        for handle, row in found.items():
            budget.begin()
            if handle not in self._rows:
                self._rows[handle] = row
                view = table.view(handle)
                table.show(listed(row) if view is None else with_listed(view, row))
                if not row.state.is_terminal():
                    self.need([handle])
            await budget.breathe()
        for handle in [*self._rows]:
            budget.begin()
            if handle not in found and AppHandle(handle).scheduler not in rows.failures and handle not in self._fixed:
                self._forget(handle, table)
            await budget.breathe()

    async def _choose(self, rows: AppList, table: LiveTable) -> dict[str, ListAppResponse]:
        """Return the rows that are shown, and count the others."""
        if self._past is None:
            self._past = {row.app_handle for row in rows if self._since_now and row.state.is_terminal()}
        budget = budget_of(asyncio.get_running_loop())
        found: dict[str, ListAppResponse] = {}
        others = Counter[AppState | None]()
        for row in rows:
            budget.begin()
            if row.app_handle not in self._past:
                if len(found) < self._most:
                    found[row.app_handle] = row
                else:
                    others[row.state] += 1
            await budget.breathe()
        table.left_out = others
        return found

    def _forget(self, handle: str, table: LiveTable) -> None:
        del self._rows[handle]
        self._watched.discard(handle)
        self._watch.discard(handle)
        table.take_off(handle)
