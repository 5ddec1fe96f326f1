"""The results of `Runner.list`, `status_all`, `wait_all` and `statistics`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from asyncsched._typing import NamedTuple
from asyncsched.errors import ConfigError
from asyncsched.schedulers.responses import ListAppResponse
from asyncsched.schedulers.state_stream import FeedStatistics
from asyncsched.specs.handle import AppHandle
from asyncsched.specs.rich_display import RichDisplay
from asyncsched.specs.state import AppStatus

if TYPE_CHECKING:
    from asyncsched.views.apps import AppView

__all__ = ["AppList", "AppStatuses", "RunnerStatistics", "SchedulerStatistics", "is_set_up"]


class AppList(RichDisplay, list[ListAppResponse]):
    """The rows of the schedulers, newest first, and the errors of schedulers that failed.

    Printed as a table, it leaves out schedulers that are not installed or not set up here.

    Attributes:
        failures: The errors by scheduler, including those left out of the table.
    """

    def __init__(self, rows: Iterable[ListAppResponse] = (), failures: Mapping[str, Exception] | None = None) -> None:
        super().__init__(rows)
        self.failures: Mapping[str, Exception] = failures or {}

    def __repr__(self) -> str:
        failed = f", failures={dict(self.failures)!r}" if self.failures else ""
        return f"AppList({list(self)!r}{failed})"

    def __str__(self) -> str:
        return _as_text(self._views(), self._missed) if self or self._missed else "no apps"

    def _repr_html_(self) -> str:
        return _as_html(self._views(), self._missed)

    @property
    def _missed(self) -> Mapping[str, Exception]:
        return {name: error for name, error in self.failures.items() if is_set_up(error)}

    def _views(self) -> list[AppView]:
        from asyncsched.views.answers import listed

        return [listed(row) for row in self]


class AppStatuses(RichDisplay, dict[AppHandle, AppStatus | None]):
    """Statuses by handle: a dict that prints, and shows in a notebook, as a table like that of `Runner.list`.

    The status is None for an app that its scheduler does not know.

    Attributes:
        failures: The errors by scheduler; the apps of these schedulers are left out.
    """

    def __init__(
        self,
        statuses: Mapping[AppHandle, AppStatus | None] | None = None,
        failures: Mapping[str, Exception] | None = None,
    ) -> None:
        super().__init__(statuses or {})
        self.failures: Mapping[str, Exception] = failures or {}

    def __repr__(self) -> str:
        from collections import Counter

        counts = Counter("not known" if status is None else status.state.name for status in self.values())
        told = [f"{count} {state}" for state, count in counts.items()]
        told += [f"{scheduler} failed" for scheduler in self.failures]
        return f"<AppStatuses of {len(self)} apps: {', '.join(told) or 'none'}>"

    def __str__(self) -> str:
        return _as_text(self._views(), self.failures)

    def _repr_html_(self) -> str:
        return _as_html(self._views(), self.failures)

    def _views(self) -> list[AppView]:
        from asyncsched.views.apps import app_view

        return [app_view(*item) for item in self.items()]


def is_set_up(error: Exception) -> bool:
    """Tell whether an error comes from a scheduler that is set up here."""
    return not isinstance(error, ConfigError) and getattr(error, "is_set_up", True) is True


# Imported when a table is printed.


def _as_text(views: Sequence[AppView], failures: Mapping[str, Exception]) -> str:
    from asyncsched.views.text import text_table

    return text_table(views, datetime.now(UTC), _notes(failures))


def _as_html(views: Sequence[AppView], failures: Mapping[str, Exception]) -> str:
    from asyncsched.views.cards import table
    from asyncsched.views.overview import overview_of

    return table(overview_of(views), datetime.now(UTC), _notes(failures))


def _notes(failures: Mapping[str, Exception]) -> list[str]:
    return [f"{scheduler} could not be asked: {error}" for scheduler, error in failures.items()]


class SchedulerStatistics(NamedTuple):
    """A runner's use of one scheduler.

    Attributes:
        calls: How often each operation was called on this scheduler alone.
        feed: The statistics of its shared feed of states; None if nothing was watched yet.
    """

    calls: Mapping[str, int]
    feed: FeedStatistics | None


class RunnerStatistics(NamedTuple):
    """The activity of a runner.

    Attributes:
        log_streams: The number of open log streams.
        watches: The number of open watches, including those of waiting calls.
        calls: How often each operation was called.
        schedulers: The statistics of each scheduler that was used.
    """

    log_streams: int
    watches: int
    calls: Mapping[str, int]
    schedulers: Mapping[str, SchedulerStatistics]
