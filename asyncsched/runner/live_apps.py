"""The apps of a monitor that stays open: one watch, and a periodic list for new apps."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING

from asyncsched._typing import override
from asyncsched.logs.loop_time import budget_of
from asyncsched.runner.convert import AppEvent
from asyncsched.runner.listed_apps import ListedApps
from asyncsched.runner.results import AppList, is_set_up
from asyncsched.runner.shown_apps import ShownApps
from asyncsched.runner.watch import AppEventStream
from asyncsched.schedulers.responses import ListAppResponse
from asyncsched.specs.state import AppState
from asyncsched.views.answers import listed, with_listed
from asyncsched.views.apps import app_view
from asyncsched.views.live_table import LiveTable

if TYPE_CHECKING:
    from asyncsched.runner.groups.host import Host

__all__ = ["MOST", "LiveApps"]

MOST = 10_000
"""How many apps are shown, the newest; the others are counted."""


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
        self._listed = None if look is None else ListedApps(look, host.clock)
        self._since_now = since_now
        self._most = most
        self._past: set[str] | None = None
        self._watched: set[str] = {*handles}

    @override
    async def follow(self, table: LiveTable, changed: Callable[[], None], note: Callable[[str], None]) -> None:
        """Update the table until all apps have ended. Cancelling this does not affect the apps."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(super().follow(table, changed, note))
                if self._listed is not None:
                    group.create_task(self._keep_looking(self._listed, table, changed))
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None

    @override
    def _show(self, table: LiveTable, event: AppEvent) -> None:
        if event.handle in self._watched:
            row = None if self._listed is None else self._listed.rows.get(event.handle)
            table.show(with_listed(app_view(event.handle, event.current), row))

    @override
    def need(self, handles: Collection[str]) -> None:
        """Look into these apps: they are seen, and so far only listed."""
        new = [handle for handle in handles if handle not in self._watched]
        if new:
            self._watched.update(new)
            self._watch.add(new)

    async def _keep_looking(self, listed_apps: ListedApps, table: LiveTable, changed: Callable[[], None]) -> None:
        async def take(rows: AppList) -> None:
            for error in filter(is_set_up, rows.failures.values()):
                self._failed(error)
            found = await self._choose(rows, table)
            await listed_apps.update(found, rows.failures, new, gone, self._fixed)
            changed()

        def new(row: ListAppResponse) -> None:
            if table.view(row.app_handle) is None:
                table.show(listed(row))
            if not row.state.is_terminal():
                self.need([row.app_handle])

        def gone(handle: str) -> None:
            self._watched.discard(handle)
            self._watch.discard(handle)
            table.take_off(handle)

        def failed(error: Exception) -> None:
            self._failed(error)
            changed()

        await listed_apps.keep_looking(take, failed)

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
