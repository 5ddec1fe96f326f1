"""The apps of a monitor: what a watch tells of them, and what is asked for on behalf of who sits before it."""

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
    """The apps that a watch tells of.

    Args:
        host: The runner.
        events: The watch.
        failures: What has gone wrong before.

    Attributes:
        failures: What went wrong.
    """

    def __init__(self, host: Host, events: AsyncStream[AppEvent], failures: Sequence[Exception] = ()) -> None:
        self.failures: list[Exception] = [*failures]
        self._host = host
        self._events = events
        self._tell: Callable[[str], None] | None = None
        self._untold = [one_line(f"error: {failure}") for failure in failures]

    @property
    def clock(self) -> Clock:
        """What tells the time."""
        return self._host.clock

    async def follow(self, table: LiveTable, changed: Callable[[], None], note: Callable[[str], None]) -> None:
        """Keep the table up to date until nothing will change any more; cancelling this touches no app."""
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
        """Show what has happened to an app."""
        table.show(app_view(event.handle, event.current))

    def need(self, handles: Collection[str]) -> None:
        """Look into these apps; all that are here are looked into."""

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
