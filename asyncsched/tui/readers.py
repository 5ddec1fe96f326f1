"""Readers of logs for the monitor: for the open log, for a peek, and for the last line of each app."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from asyncsched.logs.line import LogLine
from asyncsched.logs.loop_time import budget_of
from asyncsched.logs.stream import LogStream
from asyncsched.tui.painter import EVERY
from asyncsched.tui.source import MonitorSource
from asyncsched.views.apps import AppView
from asyncsched.views.live_log import LINES, LiveLog
from asyncsched.views.live_table import LiveTable
from asyncsched.views.log_view import LogView
from asyncsched.views.replicas import first_failure
from asyncsched.views.text import one_line, written_out

__all__ = ["PEEKED", "LastLines", "PaneReader", "description", "peek", "tail_for"]

PEEKED = 20
"""How many lines a peek shows."""
PEEKED_REPLICAS = 8
"""The maximum number of replicas that a peek reads."""
MOST_AT_ONCE = 1000
"""The maximum number of lines read between two paintings: a flood waits at its source, and does not use a core here."""
LEAST_OF_EACH = 20
WITHIN = 10.0
"""The time limit of a peek, in seconds."""
READERS = 4
"""How many logs are read at a time for their last lines."""
AGAIN = 60.0
"""Seconds after which the last line of a running app is read again."""
PAUSE = 1.0


def tail_for(replicas: int) -> int:
    """Return how many last lines to read of each replica, so that the log can keep all of them."""
    return max(LINES // max(replicas, 1), LEAST_OF_EACH)


class PaneReader:
    """Reads a log into a pane, no faster than the pane is painted.

    Args:
        source: Where the log comes from.
        log: Gets the lines.
        changed: Called when there are more.
    """

    def __init__(self, source: MonitorSource, log: LiveLog, changed: Callable[[], None]) -> None:
        self._clock = source.clock
        self._log = log
        self._changed = changed

    async def read(self, lines: LogStream) -> None:
        """Read to the end; an error becomes the log's note."""
        budget = budget_of(asyncio.get_running_loop())
        taken, since = 0, self._clock.monotonic()
        try:
            async with lines:
                async for line in lines:
                    budget.begin()
                    self._log.add(line)
                    self._changed()
                    taken += 1
                    if taken >= MOST_AT_ONCE:
                        await self._clock.sleep(max(since + EVERY - self._clock.monotonic(), 0.0))
                        taken, since = 0, self._clock.monotonic()
                    await budget.breathe()
            self._log.note = "end of the log"
        except Exception as error:  # noqa: BLE001 - also a plugin's own errors; shown in the pane
            self._log.note = one_line(f"error: {error}")
        self._changed()


async def peek(source: MonitorSource, view: AppView) -> list[str]:
    """Return the last lines of an app: of the replica that failed first, or else of its first eight."""
    lines = source.log_lines([view.handle], tail_lines=PEEKED, replicas=_replicas(view, PEEKED_REPLICAS))
    found: list[LogLine] = []
    async with source.clock.deadline(WITHIN), lines:
        found += [line async for line in lines]
    found.sort(key=lambda line: line.ns or 0)  # stable: lines without a time keep their order
    shown = LogView(kept=PEEKED)
    for line in found:
        shown.add(line)
    rows = shown.rows()
    width = max((len(one_line(row.who)) for row in rows), default=0)
    return [f"{one_line(row.who):<{width}} {row.mark} {row.text}" for row in rows] or ["no output"]


async def description(source: MonitorSource, view: AppView) -> list[str]:
    """Return the definition of an app, line by line."""
    return [written_out(line) for line in (await source.describe(view.handle)).splitlines()]


def _replicas(view: AppView, most: int) -> tuple[str, Sequence[int]] | None:
    """Return the replicas to read: the one that failed first, or the first ones of the first role."""
    failed = first_failure(view.replicas)
    if failed is not None:
        return failed.role, [failed.id]
    if not view.roles:
        return None
    return view.roles[0].role, [replica.id for replica in view.roles[0].replicas[:most]]


def _how(view: AppView) -> tuple[bool, bool]:
    """Return what decides which replica's last line is read: whether the app is over, and whether a replica failed."""
    return view.is_over, view.tally.failed > 0


@dataclass(slots=True)
class LastLines:
    """Reads the last line of each visible app, a few at a time; of running apps once a minute.

    Attributes:
        source: Where the logs come from.
        table: Gets the lines.
        changed: Called when there is a new one.
    """

    source: MonitorSource
    table: LiveTable
    changed: Callable[[], None]
    _read: dict[str, tuple[float, tuple[bool, bool]]] = field(
        default_factory=dict[str, tuple[float, tuple[bool, bool]]]
    )

    async def run(self, visible: Callable[[], list[str]]) -> None:
        """Read until cancelled.

        Args:
            visible: Returns the handles of the visible apps.
        """
        clock = self.source.clock
        while True:
            due = [view for handle in visible() if (view := self.table.view(handle)) is not None and self._is_due(view)]
            for start in range(0, len(due), READERS):
                async with asyncio.TaskGroup() as group:
                    for view in due[start : start + READERS]:
                        group.create_task(self._read_one(view))
            self._read = {handle: read for handle, read in self._read.items() if self.table.view(handle) is not None}
            await clock.sleep(PAUSE)

    def _is_due(self, view: AppView) -> bool:
        if view.started_at is None and not view.replicas:  # it has not run, or was only listed so far
            return False
        when, how = self._read.get(view.handle, (-AGAIN, None))
        if how != _how(view):
            return True
        return not view.is_over and self.source.clock.monotonic() - when >= AGAIN

    async def _read_one(self, view: AppView) -> None:
        self._read[view.handle] = self.source.clock.monotonic(), _how(view)
        try:
            lines = self.source.log_lines([view.handle], tail_lines=1, replicas=_replicas(view, 1))
            last = LogView(kept=1)
            async with self.source.clock.deadline(WITHIN), lines:
                async for line in lines:
                    last.add(line)
        except Exception:  # noqa: BLE001 - also a plugin's own errors; opening the log shows them
            return
        if rows := last.rows():
            self.table.note_last_line(view.handle, rows[-1].text)
            self.changed()
