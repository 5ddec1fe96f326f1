"""The apps of a monitor: their states from a watch, and the actions of its user."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from asyncsched._streams import AsyncStream
from asyncsched.clock import Clock
from asyncsched.errors import UnknownAppError
from asyncsched.logs.loop_time import budget_of
from asyncsched.logs.stream import LogStream
from asyncsched.runner.convert import AppEvent, app_def_of
from asyncsched.specs.handle import AppHandle, schedulers_of
from asyncsched.specs.masking import masked
from asyncsched.specs.yaml import to_yaml
from asyncsched.views.apps import app_view
from asyncsched.views.live_table import LiveTable
from asyncsched.views.text import one_line

if TYPE_CHECKING:
    from asyncsched.logs.query import LogArguments
    from asyncsched.runner.groups.host import Host

__all__ = ["ShownApps"]

MOST_FAILURES = 100
MOST_NOTES = 8


class ShownApps:
    """The apps of a watch.

    Args:
        host: The runner.
        events: The watch.
        failures: Errors that happened before.

    Attributes:
        failures: The errors so far.
    """

    def __init__(self, host: Host, events: AsyncStream[AppEvent], failures: Sequence[Exception] = ()) -> None:
        self.failures: list[Exception] = [*failures]
        self._host = host
        self._events = events
        self._tell: Callable[[str], None] | None = None
        self._untold = [one_line(f"error: {failure}") for failure in failures]

    @property
    def clock(self) -> Clock:
        """The runner's clock."""
        return self._host.clock

    async def follow(self, table: LiveTable, changed: Callable[[], None], note: Callable[[str], None]) -> None:
        """Update the table until all apps have ended. Cancelling this does not affect the apps."""
        self._tell = note
        for text in self._untold:
            note(text)
        budget = budget_of(asyncio.get_running_loop())
        async with self._events as events:
            while True:
                try:
                    event = await anext(events)
                except StopAsyncIteration:
                    return
                except Exception as error:  # noqa: BLE001 - one scheduler's; the steps after it are the others'
                    self._failed(error)
                else:
                    budget.begin()
                    self._show(table, event)
                    await budget.breathe()
                changed()

    def _show(self, table: LiveTable, event: AppEvent) -> None:
        """Show an event in the table."""
        table.show(app_view(event.handle, event.current))

    def need(self, handles: Collection[str]) -> None:
        """Do nothing: all apps are watched anyway."""

    def _failed(self, error: Exception) -> None:
        if str(error) not in map(str, self.failures):
            self.failures = [*self.failures, error][-MOST_FAILURES:]
        self.note(one_line(f"error: {error}"))

    def note(self, text: str) -> None:
        """Show a text; texts from before the monitor has started are shown when it starts."""
        if self._tell is None:
            self._untold = [*self._untold, text][-MOST_NOTES:]
        else:
            self._tell(text)

    # Actions of the user

    def log_lines(
        self,
        handles: Sequence[str],
        *,
        should_tail: bool = False,
        tail_lines: int | None = None,
        attempt: int | None = None,
        replicas: tuple[str, Sequence[int]] | None = None,
    ) -> LogStream:
        """Return the merged log lines of apps; with `replicas`, only of these replicas of one role."""
        query: LogArguments = {"should_tail": should_tail, "tail_lines": tail_lines, "attempts": attempt}
        if replicas is not None:
            query["role_name"], query["k"] = replicas
        what = handles[0] if len(handles) == 1 else f"{len(handles)} apps"
        return self._host.log_lines_of(_one_by_one(handles), schedulers_of(handles), what, query)

    async def cancel(self, handles: Sequence[str]) -> Mapping[AppHandle, Exception]:
        """Cancel apps; return the errors of those that could not be cancelled."""
        return await self._host.cancel([AppHandle(handle) for handle in handles])

    async def describe(self, handle: str) -> str:
        """Return the definition of an app as YAML, without its secrets."""
        parsed = AppHandle(handle)
        answer = await (await self._host.open(parsed.scheduler)).describe(parsed.app_id)
        if answer is None:
            raise UnknownAppError(f"no app {handle}", fix="its scheduler may have forgotten it")
        return to_yaml({"handle": handle, "app": masked(app_def_of(answer))})


async def _one_by_one(handles: Sequence[str]) -> AsyncGenerator[AppHandle]:
    for handle in handles:
        yield AppHandle(handle)
