"""The jobs of a group as a monitor shows them: each is one row, that of its last attempt."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from asyncsched._typing import override
from asyncsched.runner.answers import AppEvent
from asyncsched.runner.groups.states import GroupStates
from asyncsched.runner.shown_apps import ShownApps
from asyncsched.views.live_table import LiveTable

if TYPE_CHECKING:
    from asyncsched.runner.groups.engine import Engine

__all__ = ["GroupApps"]


class GroupApps(ShownApps):
    """The apps of a group.

    Args:
        engine: The group.
        title: Returns how many of its jobs are where.
    """

    def __init__(self, engine: Engine, title: Callable[[], str]) -> None:
        super().__init__(engine.host, GroupStates(engine))
        self._engine = engine
        self._title = title

    @override
    def _show(self, table: LiveTable, event: AppEvent) -> None:
        flight = self._engine.flights.get(event.handle)
        for earlier in flight.of.attempts[:-1] if flight is not None else ():
            table.take_off(earlier)
        super()._show(table, event)
        table.title = self._title()
