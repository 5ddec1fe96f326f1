"""The model of a live table of many apps: its rows, cursor, marks and filters, independent of a terminal.

The cursor and the marks belong to apps, never to rows. A change costs a search in a sorted list, not a sort.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from asyncsched._typing import NamedTuple
from asyncsched.specs.state import AppState
from asyncsched.views.apps import AppView
from asyncsched.views.live_order import SORTS, STATE_FILTERS, Row, key_of, row_of, sort_rows
from asyncsched.views.replicas import ReplicaGroup, groups
from asyncsched.views.spans import short
from asyncsched.views.summary import Segment, bar, summary
from asyncsched.views.text import one_line

__all__ = ["MOST_GROUPS", "LiveTable", "TableLine"]

MOST_GROUPS = 20
"""Most groups of replicas to show below an app; the others are counted."""


class TableLine(NamedTuple):
    """A line of the table: an app, or a group of similar replicas of the app above it.

    Attributes:
        handle: The app.
        state: The state that sets its colour.
        cells: Name, state, replicas (done/failed/of), age, and the reason with the last line of the log.
        is_cursor: Whether the cursor is on it.
        is_marked: Whether it is marked.
        is_group: Whether it is a group of replicas.
    """

    handle: str
    state: AppState | None
    cells: tuple[str, str, str, str, str]
    is_cursor: bool = False
    is_marked: bool = False
    is_group: bool = False


class LiveTable:
    """The apps of a monitor.

    Attributes:
        sort: The order, a name of `SORTS`.
        states: The shown states, a name of `STATE_FILTERS`.
        text: Only apps with this text in their handle, name, state or reason are shown.
        left_out: The states of existing apps that have no row.
        title: Returns the heading, in place of the summary; None for the summary.
    """

    def __init__(self) -> None:
        self.sort = next(iter(SORTS))
        self.states = next(iter(STATE_FILTERS))
        self.text = ""
        self.left_out: Mapping[AppState | None, int] = {}
        self.title: Callable[[], str] | None = None
        self._rows: dict[str, Row] = {}
        self._order: list[Row] = []
        self._shown = self._order
        self._key = key_of(self.sort)
        self._changes = 0
        self._states: Counter[AppState | None] = Counter()
        self._schedulers: Counter[str] = Counter()
        self._names: Counter[str] = Counter()
        self._marks: dict[str, None] = {}
        self._expanded: str | None = None
        self._at: Row | None = None  # the row of the cursor; None for the top row
        self._line = 0  # the line of the window that the cursor is on

    def __len__(self) -> int:
        return len(self._rows)

    # Apps

    def show(self, view: AppView) -> None:
        """Add or update an app."""
        known = self._rows.get(view.handle)
        if known is not None:
            if not view.last_line and known.view.last_line:
                view = replace(view, last_line=known.view.last_line)
            if known.view == view:
                return
            self._remove(known)
        self._changes += 1
        row = self._rows[view.handle] = row_of(view, self._changes)
        self._states[view.state] += 1
        self._schedulers[_scheduler(view.handle)] += 1
        self._names[view.name] += 1
        insort(self._order, row, key=self._key)
        if self._shown is not self._order and self._passes(row):
            insort(self._shown, row, key=self._key)
        if self._at is not None and self._at.handle == view.handle:
            self._at = row

    def take_off(self, handle: str) -> None:
        """Remove an app; the cursor stays in its place, on the row that moves up."""
        row = self._rows.pop(handle, None)
        if row is not None:
            self._remove(row)
            self._marks.pop(handle, None)

    def note_last_line(self, handle: str, line: str) -> None:
        """Set the last line of an app."""
        row = self._rows.get(handle)
        if row is not None:
            self.show(row.view.with_last_line(line))

    def view(self, handle: str) -> AppView | None:
        """Return the view of an app; None if the table does not have it."""
        row = self._rows.get(handle)
        return None if row is None else row.view

    def name(self, view: AppView) -> str:
        """Return what an app is called here: the name that it was given while no other has it, or else its id."""
        name = view.name if view.name and self._names[view.name] == 1 else view.app_id
        return name if len(+self._schedulers) < 2 else view.handle.removesuffix(view.app_id) + name

    def _remove(self, row: Row) -> None:
        self._states[row.view.state] -= 1
        self._schedulers[_scheduler(row.handle)] -= 1
        self._names[row.view.name] -= 1
        if not self._names[row.view.name]:
            del self._names[row.view.name]
        del self._order[self._index(self._order, row)]
        if self._shown is not self._order and self._passes(row):
            del self._shown[self._index(self._shown, row)]

    def _index(self, rows: Sequence[Row], row: Row) -> int:
        return bisect_left(rows, self._key(row), key=self._key)

    # Order and filters

    def sort_by(self, sort: str) -> None:
        """Change the order of the apps."""
        self.sort, self._key = sort, key_of(sort)
        sort_rows(self._order, sort)
        self._choose()

    def filter(self, *, text: str | None = None, states: str | None = None) -> None:
        """Show only some apps; None keeps a filter. Totals always count all apps."""
        self.text = self.text if text is None else text
        self.states = self.states if states is None else states
        self._choose()

    def _choose(self) -> None:
        is_all = not self.text and not STATE_FILTERS[self.states]
        self._shown = self._order if is_all else [row for row in self._order if self._passes(row)]

    def _passes(self, row: Row) -> bool:
        states = STATE_FILTERS[self.states]
        return (not states or row.view.state in states) and self.text.lower() in row.text

    # The cursor and the marks

    @property
    def cursor(self) -> str | None:
        """The app under the cursor, at first the first one; None if no app is shown."""
        return self._shown[self._position()].handle if self._shown else None

    def _position(self) -> int:
        if self._at is None:
            return 0
        return max(min(self._index(self._shown, self._at), len(self._shown) - 1), 0)

    def move(self, by: int) -> None:
        """Move the cursor down by this many apps, up to the ends."""
        if self._shown:
            target = min(max(self._position() + by, 0), len(self._shown) - 1)
            self._line += target - self._position()
            self._at = self._shown[target]

    def hold(self) -> None:
        """Keep the cursor on its app when that moves."""
        self.move(0)

    def put_cursor(self, handle: str) -> None:
        """Put the cursor on an app."""
        row = self._rows.get(handle)
        if row is not None and self._passes(row):
            self.move(self._index(self._shown, row) - self._position())

    def toggle_mark(self) -> None:
        """Mark or unmark the app under the cursor, and move to the next."""
        if self.cursor is not None:
            if self._marks.pop(self.cursor, ...) is ...:
                self._marks[self.cursor] = None
            self.move(1)

    def mark_shown(self) -> None:
        """Mark all shown apps."""
        self._marks |= dict.fromkeys(row.handle for row in self._shown)

    def unmark(self, handles: Iterable[str] | None = None) -> None:
        """Unmark these apps, or all."""
        for handle in [*(self._marks if handles is None else handles)]:
            self._marks.pop(handle, None)

    @property
    def chosen(self) -> list[str]:
        """The apps that a key acts on: the marked ones, or else the one under the cursor."""
        return [*self._marks] or ([self.cursor] if self.cursor is not None else [])

    @property
    def hidden_marks(self) -> int:
        """How many marked apps are not shown."""
        if self._shown is self._order:  # no filter
            return 0
        return sum(not self._passes(self._rows[handle]) for handle in self._marks)

    def toggle_replicas(self) -> None:
        """Show or hide the replicas of the app under the cursor; only one app's replicas are shown at a time."""
        self.hold()
        self._expanded = None if self._expanded == self.cursor else self.cursor

    # Drawing

    def summary(self) -> str:
        """Return the number of all apps in each state."""
        return summary(self._all) if self.title is None else self.title()

    def bar(self, width: int) -> list[Segment]:
        """Return the same counts as the parts of a bar."""
        return bar(self._all, width)

    def showing(self) -> str:
        """Return how many apps are shown, and the filters."""
        told = [f"showing {len(self._shown):,} of {self._all.total():,}"]
        told += [f"{self.states} only"] if STATE_FILTERS[self.states] else []
        told += [f"with {one_line(self.text)!r}"] if self.text else []
        told += [f"by {self.sort}"]
        told += [f"{len(self._marks):,} marked"] if self._marks else []
        return ", ".join(told)

    @property
    def _all(self) -> Counter[AppState | None]:
        return +(self._states + Counter(self.left_out))

    def window(self, height: int, now: datetime) -> list[TableLine]:
        """Return the lines that fit, including that of the cursor.

        Args:
            height: The number of lines.
            now: The present time, for ages.
        """
        if not self._shown or height < 1:
            return []
        below = self._groups()
        at = self._expanded_at()
        position = self._position()
        own = position + (len(below) if at is not None and at < position else 0)
        last = len(self._shown) + len(below) - height
        self._line = min(max(self._line, 0, own - max(last, 0)), height - 1, own)
        top = own - self._line
        found: list[TableLine] = []
        for number in range(top, min(top + height, len(self._shown) + len(below))):
            if at is None or number <= at:
                found.append(self._line_of(self._shown[number], number == position, now))
            elif number <= at + len(below):
                found.append(below[number - at - 1])
            else:
                found.append(self._line_of(self._shown[number - len(below)], number - len(below) == position, now))
        return found

    def visible(self, height: int) -> list[str]:
        """Return the apps whose lines fit, the nearest to the cursor first."""
        position = self._position()
        top = max(position - self._line, 0)
        rows = self._shown[top : top + height]
        return [row.handle for _, row in sorted(enumerate(rows, top), key=lambda each: abs(each[0] - position))]

    def _line_of(self, row: Row, is_cursor: bool, now: datetime) -> TableLine:
        view = row.view
        cells = (one_line(self.name(view)), view.word, _counts(view), _age(view, now), one_line(_told(view)))
        return TableLine(row.handle, view.state, cells, is_cursor, row.handle in self._marks)

    def _expanded_at(self) -> int | None:
        row = self._rows.get(self._expanded or "")
        return None if row is None or not self._passes(row) else self._index(self._shown, row)

    def _groups(self) -> list[TableLine]:
        row = self._rows.get(self._expanded or "")
        if row is None or self._expanded_at() is None:
            return []
        found = groups(row.view.replicas)
        lines = [_group_line(row.handle, group) for group in found[:MOST_GROUPS]]
        if len(found) > MOST_GROUPS:
            more = f"and {len(found) - MOST_GROUPS} more kinds"
            lines.append(TableLine(row.handle, None, (more, "", "", "", ""), is_group=True))
        return lines or [TableLine(row.handle, None, ("no replicas are known", "", "", "", ""), is_group=True)]


def _group_line(handle: str, group: ReplicaGroup) -> TableLine:
    restarts = f"restarted {group.restarts} x" if group.restarts else ""
    why = one_line(", ".join(filter(None, [group.why, restarts])))
    cells = (one_line(group.name), group.state.name, f"{len(group.ids)} x", "", why)
    return TableLine(handle, group.state, cells, is_group=True)


def _scheduler(handle: str) -> str:
    return handle.partition("://")[0]


def _counts(view: AppView) -> str:
    return f"{view.tally.done}/{view.tally.failed}/{view.tally.of}" if view.tally.of else ""


def _age(view: AppView, now: datetime) -> str:
    born = view.created_at or view.started_at
    return short(now - born) if born is not None else ""


def _told(view: AppView) -> str:
    return ": ".join(filter(None, [view.reason, view.last_line]))
