"""The order and the filters of a live table; sort keys are computed once per change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from asyncsched.specs.state import AppState
from asyncsched.views.apps import AppView, by_attention

__all__ = ["SORTS", "STATE_FILTERS", "Row", "key_of", "row_of", "sort_rows"]


@dataclass(frozen=True, slots=True)
class Row:
    """An app with its sort keys and search text."""

    view: AppView
    handle: str
    rank: int
    newest: float
    failed: int
    change: int
    text: str


SORTS: Mapping[str, tuple[str, ...]] = {
    "attention": ("rank", "newest", "handle"),
    "newest": ("newest", "handle"),
    "name": ("handle",),
    "failures": ("failed", "rank", "newest", "handle"),
    "last change": ("change", "handle"),
}
"""The orders of rows, each with its sort keys, the first key first."""

STATE_FILTERS: Mapping[str, frozenset[AppState | None]] = {
    "all": frozenset(),
    "failed": frozenset({AppState.FAILED}),
    "running": frozenset({AppState.RUNNING}),
    "waiting": frozenset({AppState.PENDING, AppState.SUBMITTED, AppState.UNSUBMITTED}),
    "succeeded": frozenset({AppState.SUCCEEDED}),
    "cancelled": frozenset({AppState.CANCELLED}),
    "not known": frozenset({AppState.UNKNOWN, None}),
}
"""The filters by state; an empty one means every state."""


def row_of(view: AppView, change: int) -> Row:
    """Return the row of an app.

    Args:
        view: The app.
        change: The number of earlier changes.
    """
    born = view.created_at or view.started_at
    return Row(
        view,
        view.handle,
        by_attention(view.state),
        -born.timestamp() if born is not None else 0.0,
        -view.tally.failed,
        -change,
        f"{view.handle}\n{view.name}\n{view.word}\n{view.reason}".lower(),
    )


def key_of(sort: str) -> Callable[[Row], Any]:
    """Return the sort key of an order, as a function of a row."""
    return attrgetter(*SORTS[sort])


def sort_rows(rows: list[Row], sort: str) -> None:
    """Sort rows by one key after the other, which takes half the time of sorting by tuples."""
    for name in reversed(SORTS[sort]):
        rows.sort(key=attrgetter(name))
