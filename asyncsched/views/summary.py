"""Summaries of many apps: counts, a bar, and failures grouped by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeAlias

from asyncsched._typing import NamedTuple
from asyncsched.specs.state import AppState
from asyncsched.views.apps import NOT_KNOWN, AppView

__all__ = ["Failure", "Segment", "States", "bar", "failures", "shared", "summary"]

States: TypeAlias = Iterable[AppState | None] | Mapping[AppState | None, int]
"""The states of all apps, or the number of apps in each state; None stands for an unknown state."""

_ORDER = (
    AppState.SUCCEEDED,
    AppState.FAILED,
    AppState.CANCELLED,
    AppState.UNKNOWN,
    AppState.RUNNING,
    AppState.PENDING,
    AppState.SUBMITTED,
    AppState.UNSUBMITTED,
)
_FAR = datetime.max.replace(tzinfo=UTC)


class Segment(NamedTuple):
    """A part of a bar: a number of cells for one state."""

    state: AppState
    cells: int


class Failure(NamedTuple):
    """Apps that failed in the same way.

    Attributes:
        reason: Why.
        apps: The apps, in the order of their ends.
        since: When the first of them failed, if known.
    """

    reason: str
    apps: tuple[AppView, ...]
    since: datetime | None

    @property
    def last_line(self) -> str:
        """The last line of the first of them, if one was read."""
        return next((app.last_line for app in self.apps if app.last_line), "")


def summary(states: States) -> str:
    """Return one line with the number of apps, and the number in each state."""
    counts = Counter(states)
    total = counts.total()
    told = [f"{counts[state]} {state.name.lower()}" for state in _ORDER if counts[state]]
    told += [f"{counts[None]} {NOT_KNOWN}"] if counts[None] else []
    return f"{total} app{'' if total == 1 else 's'}: {', '.join(told)}" if told else "no apps"


def bar(states: States, width: int) -> list[Segment]:
    """Return the parts of a bar of apps by state; each state that occurs has at least one cell.

    Args:
        states: The states of the apps.
        width: The number of cells; there are more if more states occur.
    """
    counts = Counter(states)
    counts[AppState.UNKNOWN] += counts.pop(None, 0)
    present = [state for state in _ORDER if counts[state]]
    shares = {state: counts[state] * width / counts.total() for state in present}
    cells = {state: max(int(share), 1) for state, share in shares.items()}
    while present and (left := width - sum(cells.values())) and (left > 0 or max(cells.values()) > 1):
        step = 1 if left > 0 else -1
        may_change = [state for state in present if step > 0 or cells[state] > 1]
        state = max(may_change, key=lambda state: step * (shares[state] - cells[state]))
        cells[state] += step
    return [Segment(state, cells[state]) for state in present]


def failures(views: Iterable[AppView]) -> list[Failure]:
    """Group apps that failed for the same reason, the largest group first."""
    found: dict[str, list[AppView]] = {}
    for view in views:
        if view.state is AppState.FAILED:
            found.setdefault(view.kind or view.reason, []).append(view)
    made = [_failure(reason, apps) for reason, apps in found.items()]
    return sorted(made, key=lambda failure: -len(failure.apps))


def _failure(reason: str, apps: Sequence[AppView]) -> Failure:
    ordered = sorted(apps, key=lambda app: app.finished_at or _FAR)
    return Failure(reason, tuple(ordered), ordered[0].finished_at)


def shared(found: Sequence[Failure], most: int) -> tuple[list[tuple[Failure, Sequence[AppView]]], Sequence[Failure]]:
    """Return the apps to name for each failure, and the failures without named apps.

    Each failure gets an equal share; what a failure does not need goes to the others.

    Args:
        found: The failures.
        most: How many apps to name.
    """
    shares: dict[int, int] = {}
    left = most
    sizes = sorted((len(failure.apps), index) for index, failure in enumerate(found[:most]))
    for after, (size, index) in enumerate(sizes):
        shares[index] = min(size, left // (len(sizes) - after))
        left -= shares[index]
    return [(failure, failure.apps[: shares[index]]) for index, failure in enumerate(found[:most])], found[most:]
