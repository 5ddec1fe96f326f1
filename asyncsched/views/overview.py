"""The apps of a table: failures first, equal failures in one line, and the rest counted."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Collection, Iterable
from typing import TypeAlias

from asyncsched._typing import NamedTuple
from asyncsched.specs.state import AppState, AppStatus
from asyncsched.views.apps import AppView, app_view, by_attention

__all__ = ["MOST", "Line", "Overview", "overview", "overview_of"]

MOST = 50
"""Most lines of a table; a page that is redrawn four times a second must be small."""
ALIKE = 3
"""Equal failures from which they are combined into one line."""

Row: TypeAlias = tuple[str, AppStatus | None]

_REPLICA = re.compile(r"[\w.-]+/\d+: ")


class Line(NamedTuple):
    """A line of a table.

    Attributes:
        view: The app, or the first of several that failed in the same way.
        handles: All apps of the line.
    """

    view: AppView
    handles: tuple[str, ...]


class Overview(NamedTuple):
    """A table of apps.

    Attributes:
        lines: Its lines.
        others: How many apps have no line.
        states: The number of apps in each state.
    """

    lines: list[Line]
    others: int
    states: Counter[AppState | None]


def overview(rows: Collection[Row], most: int = MOST) -> Overview:
    """Return the table of apps with these statuses; details are read only for apps that are shown."""
    states = Counter([None if status is None else status.state for _, status in rows])
    together = {kind: handles for kind, handles in _alike(rows, most).items() if len(handles) >= ALIKE}
    firsts = {handles[0]: handles for handles in together.values()}
    single = (row for row in rows if row[0] in firsts or _kind(row[1]) not in together) if together else rows
    # No object is kept per app, because the garbage collector would have to scan it.
    shown = heapq.nsmallest(most, single, key=lambda row: by_attention(None if row[1] is None else row[1].state))
    lines = [Line(app_view(*row), tuple(firsts.get(row[0], [row[0]]))) for row in shown]
    return Overview(lines, states.total() - sum(len(line.handles) for line in lines), states)


def _alike(rows: Collection[Row], most: int) -> dict[str, list[str]]:
    """Return the handles of failed apps by reason, for at most as many reasons as are shown."""
    found: dict[str, list[str]] = {}
    for handle, status in rows:
        if status is None or status.state is not AppState.FAILED:  # most of ten thousand apps stop here
            continue
        kind = _kind(status)
        if kind and (kind in found or len(found) < most):
            found.setdefault(kind, []).append(handle)
    return found


def _kind(status: AppStatus | None) -> str:
    if status is None or status.state is not AppState.FAILED or not status.msg:
        return ""
    return _REPLICA.sub("", status.msg, count=1)


def overview_of(views: Iterable[AppView], most: int = MOST) -> Overview:
    """Return the table of these apps, in their order."""
    several = [*views]
    lines = [Line(view, (view.handle,)) for view in several[:most]]
    return Overview(lines, len(several) - len(lines), Counter(view.state for view in several))
