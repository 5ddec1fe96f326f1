"""The jobs of a group for a monitor: one row per job, that of its last attempt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from asyncsched._typing import override
from asyncsched.runner.convert import AppEvent
from asyncsched.runner.groups.states import GroupStates
from asyncsched.runner.shown_apps import ShownApps
from asyncsched.views.apps import app_view
from asyncsched.views.live_table import LiveTable

if TYPE_CHECKING:
    from asyncsched.runner.groups.engine import Engine
    from asyncsched.runner.groups.job import Job
    from asyncsched.specs.handle import AppHandle

__all__ = ["GroupApps"]


class _Heading:
    """Reports changes of the group itself: it may learn of an end after the row that shows it."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.wake = changed


class GroupApps(ShownApps):
    """The apps of a group.

    Args:
        engine: The group.
        title: Returns the number of its jobs by phase, as text.
    """

    def __init__(self, engine: Engine, title: Callable[[], str]) -> None:
        super().__init__(engine.host, GroupStates(engine))
        self._engine = engine
        self._title = title
        self._jobs: dict[AppHandle, Job] = {}

    @override
    async def follow(self, table: LiveTable, changed: Callable[[], None], note: Callable[[str], None]) -> None:
        """Update the table until all jobs have ended. Cancelling this does not affect the jobs."""
        table.title = self._title
        heading = _Heading(changed)
        waiters = self._engine.ledger.waiters
        waiters.add(heading)
        try:
            await super().follow(table, changed, note)
        finally:
            waiters.discard(heading)

    @override
    def _show(self, table: LiveTable, event: AppEvent) -> None:
        *earlier, last = self._attempts(event.handle)
        for attempt in earlier:
            table.take_off(attempt)
        if event.handle == last:  # the end of an attempt may be told after the next one has begun
            job = self._jobs.get(event.handle)
            table.show(replace(app_view(event.handle, event.current), name=job.name if job is not None else ""))

    def _attempts(self, handle: AppHandle) -> Sequence[AppHandle]:
        """Return all attempts of the job that this one belongs to; only itself if there is no such job."""
        if handle not in self._jobs:
            self._jobs |= {attempt: job for job in self._engine.ledger.jobs for attempt in job.attempts}
        job = self._jobs.get(handle)
        return (handle,) if job is None else job.attempts
