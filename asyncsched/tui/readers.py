"""What reads logs for the monitor: the pane's, the last lines that a peek shows, and the last line of each app."""

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
"""How many replicas a peek reads at most."""
MOST_AT_ONCE = 1000
"""Lines that are read between two paintings at most: a flood waits at its source, and takes no core here."""
LEAST_OF_EACH = 20
WITHIN = 10.0
"""Seconds that a log has to answer a peek."""
READERS = 4
"""Logs that are read at a time for their last lines."""
AGAIN = 60.0
"""Seconds after which the last line of an app that runs is read again."""
PAUSE = 1.0


def tail_for(replicas: int) -> int:
    """Return with how many lines of each replica a log begins, so that all of them fit into what is kept."""
    return max(LINES // max(replicas, 1), LEAST_OF_EACH)


class PaneReader:
    """Reads a log into what is shown of it, no faster than that is painted.

    Args:
        source: Opens the log.
        log: Where the lines go.
        changed: Is called when there are more.
    """

    def __init__(self, source: MonitorSource, log: LiveLog, changed: Callable[[], None]) -> None:
        self._clock = source.clock
        self._log = log
        self._changed = changed

    async def read(self, lines: LogStream) -> None:
        """Read to the end; what fails is noted."""
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
        except Exception as error:  # noqa: BLE001 - a plugin's own, too: the table goes on, and the pane says why not
            self._log.note = one_line(f"error: {error}")
        self._changed()


async def peek(source: MonitorSource, view: AppView) -> list[str]:
    """Return the last lines of an app: of the replica that failed first, or else of its first replicas."""
    lines = source.log_lines([view.handle], tail_lines=PEEKED, replicas=_replicas(view, PEEKED_REPLICAS))
    found: list[LogLine] = []
    async with source.clock.deadline(WITHIN), lines:
        found += [line async for line in lines]
    found.sort(key=lambda line: line.ns or 0)  # stable: those without times stay as they came
    shown = LogView(kept=PEEKED)
    for line in found:
        shown.add(line)
    rows = shown.rows()
    width = max((len(one_line(row.who)) for row in rows), default=0)
    return [f"{one_line(row.who):<{width}} {row.mark} {row.text}" for row in rows] or ["nothing was written"]


async def description(source: MonitorSource, view: AppView) -> list[str]:
    """Return what an app is made of."""
    return [written_out(line) for line in (await source.describe(view.handle)).splitlines()]


def _replicas(view: AppView, most: int) -> tuple[str, Sequence[int]] | None:
    """Return the replicas to read: that which failed first, or the first ones of the first role."""
    failed = first_failure(view.replicas)
    if failed is not None:
        return failed.role, [failed.id]
    if not view.roles:
        return None
    return view.roles[0].role, [replica.id for replica in view.roles[0].replicas[:most]]


def _how(view: AppView) -> tuple[bool, bool]:
    """Return what decides of whom the last line is read: whether it is over, and whether a replica has failed."""
    return view.is_over, view.tally.failed > 0


@dataclass(slots=True)
class LastLines:
    """Reads the last line of each app that is seen, a few at a time; of one that runs every minute.

    Attributes:
        source: Opens the logs.
        table: Is told the lines.
        changed: Is called when there is one.
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
            visible: Returns the apps that are seen.
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
        if view.started_at is None and not view.replicas:  # it has not run, or is not looked into yet
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
        except Exception:  # noqa: BLE001 - a plugin's own, too: who wants to know why reads the log
            return
        if rows := last.rows():
            self.table.note_last_line(view.handle, rows[-1].text)
            self.changed()
