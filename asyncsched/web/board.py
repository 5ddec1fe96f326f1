"""The apps of the table, each with the number of its latest change, so that a page can fetch what is new."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, OrderedDict

from asyncsched._typing import NamedTuple
from asyncsched.specs.state import AppState
from asyncsched.specs.to_plain import JsonValue
from asyncsched.views.apps import AppView
from asyncsched.views.summary import bar, summary
from asyncsched.web.wire import encoded, row_of

__all__ = ["Changes", "RowBoard"]

MOST_GONE = 1000
"""How many removed apps are remembered. A page that missed the removal of more starts anew."""
_CELLS = 120


class Changes(NamedTuple):
    """The changes since some number.

    Attributes:
        rows: Apps, as encoded JSON.
        serial: The number of the last change among them.
        begun: The page needs no removals up to this number: they came before it started anew, or it has them.
        anew: Whether the page must first clear its table.
    """

    rows: list[bytes]
    serial: int
    begun: int
    anew: bool


class _Change(NamedTuple):
    handle: str
    row: bytes
    is_gone: bool


class RowBoard:
    """The rows of all apps. It keeps only the newest row of each, so the number of apps bounds its size."""

    def __init__(self) -> None:
        self.serial = 0
        self.views: dict[str, AppView] = {}
        self._numbers: list[int] = []  # of the changes, ascending: a page's position is found without a walk
        self._changes: list[_Change | None] = []  # None: a newer one has replaced it
        self._latest: dict[str, int] = {}  # the number of an app's change
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._forgotten = 0
        self._states: Counter[AppState | None] = Counter()
        self._overview = (-1, b"")

    def __len__(self) -> int:
        return len(self.views)

    def show(self, view: AppView) -> None:
        """Show an app's current state; do nothing if it has not changed."""
        row = encoded(row_of(view))
        known = self.views.get(view.handle)
        if known is not None and self._row(view.handle) == row:
            return
        if known is not None:
            self._states[known.state] -= 1
        self._states[view.state] += 1
        self.views[view.handle] = view
        self._gone.pop(view.handle, None)
        self._note(_Change(view.handle, row, is_gone=False))

    def has_changed(self, handle: str, serial: int) -> bool:
        """Return whether an app has changed since some number."""
        return self._latest.get(handle, 0) > serial

    def take_off(self, handle: str) -> None:
        """Remove an app from the table."""
        known = self.views.pop(handle, None)
        if known is None:
            return
        self._states[known.state] -= 1
        self._gone[handle] = None
        self._note(_Change(handle, encoded({"handle": handle, "gone": True}), is_gone=True))
        if len(self._gone) > MOST_GONE:
            oldest, _ = self._gone.popitem(last=False)
            self._forgotten = self._latest[oldest]
            self._replace(oldest)

    def since(self, serial: int, most: int, begun: int = 0) -> Changes:
        """Return the changes since a page's place, the oldest first, for at most `most` apps.

        Args:
            serial: The `serial` of the page's last changes.
            most: The most apps.
            begun: The `begun` of the page's last changes. It is above `serial` while the page, after it started anew,
                still fetches the table in pieces.
        """
        begun = max(serial, begun)
        anew = serial == 0 or not self._forgotten <= begun <= self.serial
        if anew:
            serial, begun = 0, self.serial
        rows: list[bytes] = []
        for index in range(bisect_right(self._numbers, serial), len(self._numbers)):
            number, change = self._numbers[index], self._changes[index]
            if change is None or (change.is_gone and number <= begun):
                continue
            if len(rows) == most:
                return Changes(rows, number - 1, max(number - 1, begun), anew)
            rows.append(change.row)
        return Changes(rows, self.serial, self.serial, anew)

    def overview(self) -> bytes:
        """Return the summary of all apps and its bar, as encoded JSON."""
        if self._overview[0] != self.serial:
            states = +self._states
            cells: list[JsonValue] = [[part.state.name, part.cells] for part in bar(states, _CELLS)]
            self._overview = self.serial, encoded({"summary": summary(states), "bar": cells})
        return self._overview[1]

    def _row(self, handle: str) -> bytes:
        change = self._changes[bisect_left(self._numbers, self._latest[handle])]
        assert change is not None
        return change.row

    def _note(self, change: _Change) -> None:
        self._replace(change.handle)
        self.serial += 1
        self._latest[change.handle] = self.serial
        self._numbers.append(self.serial)
        self._changes.append(change)
        if len(self._changes) > 2 * len(self._latest) + MOST_GONE:
            kept = [(number, each) for number, each in zip(self._numbers, self._changes, strict=True) if each]
            self._numbers, self._changes = [number for number, _ in kept], [each for _, each in kept]

    def _replace(self, handle: str) -> None:
        number = self._latest.pop(handle, None)
        if number is not None:
            self._changes[bisect_left(self._numbers, number)] = None
