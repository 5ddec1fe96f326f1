"""The log below the table: its apps, its attempt, and the task that reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from asyncsched._tasks import BackgroundTasks
from asyncsched.tui.readers import PaneReader, tail_for
from asyncsched.tui.source import MonitorSource
from asyncsched.views.apps import AppView
from asyncsched.views.live_log import LiveLog
from asyncsched.views.live_table import LiveTable
from asyncsched.views.log_names import Names
from asyncsched.views.text import one_line

__all__ = ["MOST", "ShownLog"]

MOST = 1000
"""The largest number of apps of one log."""

STEP = 20
"""How many cells long lines scroll at a time."""


class ShownLog:
    """The merged log of some apps.

    Args:
        source: Where the log comes from.
        table: The apps.
        tasks: Owns the task that reads.
        changed: Called when there are more lines.

    Attributes:
        log: Its lines; None while no log is open.
        cut: How many cells to leave out at the beginning of each line.
    """

    def __init__(
        self, source: MonitorSource, table: LiveTable, tasks: BackgroundTasks, changed: Callable[[], None]
    ) -> None:
        self.log: LiveLog | None = None
        self.cut = 0
        self._source = source
        self._table = table
        self._tasks = tasks
        self._changed = changed
        self._handles: Sequence[str] = ()
        self._attempt: int | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def _views(self) -> list[AppView]:
        return [view for handle in self._handles if (view := self._table.view(handle)) is not None]

    def open(self, handles: Sequence[str]) -> None:
        """Show the log of these apps."""
        self._handles, self._attempt, self.cut = handles, None, 0
        self._read()

    def next_attempt(self) -> None:
        """Show the next attempt of the same apps: all, the first, and so on."""
        most = max((view.restarts for view in self._views), default=0)
        following = 0 if self._attempt is None else self._attempt + 1
        self._attempt = following if following <= most else None
        self._read()

    def close(self) -> None:
        """Close the log."""
        self._stop()
        self.log = None

    def move(self, by: int) -> None:
        """Scroll long lines to the right (1) or to the left (-1)."""
        self.cut = max(self.cut + by * STEP, 0)

    def title(self) -> str:
        """Return the title: the apps, the attempt, and the number of lines."""
        views = self._views
        which = self._table.name(views[0]) if len(views) == 1 else f"{len(self._handles):,} apps"
        attempt = "" if self._attempt is None else f", attempt {self._attempt}"
        told = [self.log.told()] if self.log is not None else []
        told += [f"from column {self.cut + 1}"] if self.cut else []
        return f"log of {one_line(which)}{attempt}: {', '.join(told)}"

    def _read(self) -> None:
        self._stop()
        views = self._views
        log = self.log = LiveLog(Names.of_views({self._table.name(view): view for view in views}))
        tail = tail_for(sum(max(view.tally.of, 1) for view in views))
        try:
            lines = self._source.log_lines(self._handles, should_tail=True, tail_lines=tail, attempt=self._attempt)
        except Exception as error:  # noqa: BLE001 - also a plugin's own errors; the table continues
            log.note = one_line(f"error: {error}")
        else:
            reader = PaneReader(self._source, log, self._changed)
            self._reading = self._tasks.start(reader.read(lines), name="log of the monitor")

    def _stop(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
