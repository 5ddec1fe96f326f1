"""The apps of a monitor: one watch over them, and a look for new ones from time to time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from asyncsched.clock import Clock
from asyncsched.errors import ConfigError, UnknownAppError
from asyncsched.logs.budget import budget_of
from asyncsched.logs.stream import LogStream
from asyncsched.runner.answers import AppEvent, app_def_of
from asyncsched.runner.monitor import AppEventStream
from asyncsched.runner.report import AppList
from asyncsched.schedulers.responses import ListAppResponse
from asyncsched.specs.handle import AppHandle, schedulers_of
from asyncsched.specs.masking import masked
from asyncsched.specs.state import AppState
from asyncsched.specs.yaml import to_yaml
from asyncsched.views.answers import listed, with_listed
from asyncsched.views.apps import app_view
from asyncsched.views.live_table import LiveTable
from asyncsched.views.text import one_line

if TYPE_CHECKING:
    from asyncsched.runner.groups.host import Host
    from asyncsched.runner.groups.log_query import LogArguments

__all__ = ["LOOK_EVERY", "MOST", "LiveApps"]

MOST = 10_000
"""Apps that are shown, the newest; the others are counted."""

LOOK_EVERY = 5.0
"""Seconds between two looks for new apps; more, where a look takes long."""

LONGEST_PAUSE = 60.0
MOST_FAILURES = 100
MOST_NOTES = 8


class LiveApps:
    """Apps as they change.

    Args:
        host: The runner.
        events: The watch that tells of them, in which those are already that are known from the beginning.
        handles: The apps that are known from the beginning.
        look: Lists the apps that there are, newest first; without it there will be no others.
        since_now: Whether apps that had ended before the first look are left out.
        most: How many are shown.
        failures: What has gone wrong before.

    Attributes:
        failures: What went wrong.
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
        self.failures: list[Exception] = [*failures]
        self._host = host
        self._events = events
        self._fixed = frozenset(handles)
        self._look_at = look
        self._since_now = since_now
        self._most = most
        self._rows: dict[str, ListAppResponse] = {}
        self._past: set[str] | None = None
        self._watched: set[str] = {*handles}
        self._tell: Callable[[str], None] | None = None
        self._untold = [one_line(f"error: {failure}") for failure in failures]

    @property
    def clock(self) -> Clock:
        """What tells the time."""
        return self._host.clock

    # Apps

    async def follow(self, table: LiveTable, changed: Callable[[], None], note: Callable[[str], None]) -> None:
        """Keep the table up to date until nothing will change any more; cancelling this touches no app."""
        self._tell = note
        for text in self._untold:
            note(text)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._watch(table, changed))
                if self._look_at is not None:
                    group.create_task(self._keep_looking(self._look_at, table, changed))
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _watch(self, table: LiveTable, changed: Callable[[], None]) -> None:
        budget = budget_of(asyncio.get_running_loop())
        async with self._events as events:
            while True:
                try:
                    event = await anext(events)
                except StopAsyncIteration:
                    return
                except Exception as error:  # noqa: BLE001 - one scheduler's; the steps after it are the others'
                    self._failed(error)
                    changed()
                    continue
                budget.begin()
                if event.handle in self._watched:
                    self.show(table, event)
                    changed()
                await budget.breathe()

    def show(self, table: LiveTable, event: AppEvent) -> None:
        """Show what has happened to an app."""
        table.show(with_listed(app_view(event.handle, event.current), self._rows.get(event.handle)))

    async def _keep_looking(
        self,
        look: Callable[[], Awaitable[AppList]],
        table: LiveTable,
        changed: Callable[[], None],
    ) -> None:
        while True:
            began = self.clock.monotonic()
            try:
                await self._take(await look(), table)
            except Exception as error:  # noqa: BLE001 - a plugin's own, too: the next look may find more
                self._failed(error)
            changed()
            took = self.clock.monotonic() - began
            await self.clock.sleep(min(max(LOOK_EVERY, 5 * took), LONGEST_PAUSE))

    async def _take(self, rows: AppList, table: LiveTable) -> None:
        budget = budget_of(asyncio.get_running_loop())
        for error in rows.failures.values():
            # One that is not installed or not configured here is not missed.
            if not isinstance(error, ConfigError) and getattr(error, "is_set_up", True):
                self._failed(error)
        if self._past is None:
            self._past = {row.app_handle for row in rows if self._since_now and row.state.is_terminal()}
        found: dict[str, ListAppResponse] = {}
        others = Counter[AppState | None]()
        for row in rows:
            budget.begin()
            if row.app_handle in self._past:
                continue
            if len(found) < self._most:
                found[row.app_handle] = row
            else:
                others[row.state] += 1
            await budget.breathe()
        table.left_out = others
        for handle, row in found.items():
            budget.begin()
            if handle not in self._rows:
                self._rows[handle] = row
                table.show(listed(row))
                if not row.state.is_terminal():
                    self.need([handle])
            await budget.breathe()
        for handle in [*self._rows]:
            budget.begin()
            if handle not in found and AppHandle(handle).scheduler not in rows.failures and handle not in self._fixed:
                del self._rows[handle]
                self._watched.discard(handle)
                self._events.discard(handle)
                table.take_off(handle)
            await budget.breathe()

    def need(self, handles: Collection[str]) -> None:
        """Look into these apps: they are seen, and so far only listed."""
        new = [handle for handle in handles if handle not in self._watched]
        if new:
            self._watched.update(new)
            self._events.add(*new)

    def _failed(self, error: Exception) -> None:
        if str(error) not in map(str, self.failures):
            self.failures = [*self.failures, error][-MOST_FAILURES:]
        self.note(one_line(f"error: {error}"))

    def note(self, text: str) -> None:
        """Show a text; what comes before there is a monitor is shown with it."""
        if self._tell is None:
            self._untold = [*self._untold, text][-MOST_NOTES:]
        else:
            self._tell(text)

    # What is asked for

    def log_lines(
        self,
        handles: Sequence[str],
        *,
        should_tail: bool = False,
        tail_lines: int | None = None,
        attempt: int | None = None,
        replicas: tuple[str, Sequence[int]] | None = None,
    ) -> LogStream:
        """Return the merged lines of apps; with `replicas` those of some replicas of one role."""
        query: LogArguments = {"should_tail": should_tail, "tail_lines": tail_lines, "attempts": attempt}
        if replicas is not None:
            query["role_name"], query["k"] = replicas
        what = handles[0] if len(handles) == 1 else f"{len(handles)} apps"
        return self._host.log_lines_of(_one_by_one(handles), schedulers_of(handles), what, query)

    async def cancel(self, handles: Sequence[str]) -> Mapping[AppHandle, Exception]:
        """Ask for the end of apps; return why some could not be cancelled."""
        return await self._host.cancel([AppHandle(handle) for handle in handles])

    async def describe(self, handle: str) -> str:
        """Return what an app is made of, without its secrets."""
        parsed = AppHandle(handle)
        answer = await (await self._host.open(parsed.scheduler)).describe(parsed.app_id)
        if answer is None:
            raise UnknownAppError(f"no app {handle}", fix="its scheduler may have forgotten it")
        return to_yaml({"handle": handle, "app": masked(app_def_of(answer))})


async def _one_by_one(handles: Sequence[str]) -> AsyncGenerator[AppHandle]:
    for handle in handles:
        yield AppHandle(handle)
