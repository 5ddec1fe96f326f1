"""What a runner tells of many apps, and of itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from asyncsched.schedulers.feed import FeedStatistics
from asyncsched.schedulers.responses import ListAppResponse
from asyncsched.specs.rich_display import RichDisplay
from asyncsched.specs.state import AppStatus

__all__ = ["AppList", "RunnerStatistics", "SchedulerStatistics"]


class AppList(RichDisplay, list[ListAppResponse]):
    """The rows that the schedulers gave, newest first, and why those failed that gave none.

    Attributes:
        failures: The errors by scheduler.
    """

    def __init__(self, rows: Iterable[ListAppResponse] = (), failures: Mapping[str, Exception] | None = None) -> None:
        super().__init__(rows)
        self.failures: Mapping[str, Exception] = failures or {}

    def __repr__(self) -> str:
        failed = f", failures={dict(self.failures)!r}" if self.failures else ""
        return f"AppList({list(self)!r}{failed})"

    def _repr_html_(self) -> str:
        from asyncsched.specs.cards import AppRow, table  # only notebooks pay for it

        notes = [f"{scheduler} could not be asked: {error}" for scheduler, error in self.failures.items()]
        return table([AppRow(row.app_handle, AppStatus(row.state), row.created_at) for row in self], notes)


class SchedulerStatistics(NamedTuple):
    """What a runner did with one scheduler.

    Attributes:
        calls: How often each operation was called on it alone.
        feed: What its shared feed of states is doing; None if nobody has watched yet.
    """

    calls: Mapping[str, int]
    feed: FeedStatistics | None


class RunnerStatistics(NamedTuple):
    """What a runner is doing.

    Attributes:
        log_streams: Log streams that are open.
        watches: Watches that are open, those of waiting calls among them.
        calls: How often each operation was called.
        schedulers: What it did with each scheduler that it has used.
    """

    log_streams: int
    watches: int
    calls: Mapping[str, int]
    schedulers: Mapping[str, SchedulerStatistics]
