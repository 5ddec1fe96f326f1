"""The apps of the table, each with the number of its latest change, so that a page can fetch what is new."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from asyncsched.specs.state import AppState
from asyncsched.specs.to_plain import JsonValue
from asyncsched.views.apps import AppView
from asyncsched.views.summary import bar, summary
from asyncsched.web.wire import encoded, row_of

__all__ = ["Changes", "RowBoard"]

MOST_GONE = 1000
"""How many removed apps are remembered; a page that has missed more starts anew."""
_CELLS = 120


class Changes(NamedTuple):
    """The changes since some number.

    Attributes:
        rows: Apps, as encoded JSON.
        serial: The number of the last change among them.
        anew: Whether the page must first clear its table.
    """

    rows: list[bytes]
    serial: int
    anew: bool


class RowBoard:
    """The rows of all apps. It keeps only the newest row of each, so the number of apps bounds its size."""

    def __init__(self) -> None:
        self.serial = 0
        self.views: dict[str, AppView] = {}
        self._rows: OrderedDict[str, tuple[int, bytes]] = OrderedDict()  # the latest change is last
        self._gone: OrderedDict[str, tuple[int, bytes]] = OrderedDict()
        self._forgotten = 0
        self._states: Counter[AppState | None] = Counter()

    def __len__(self) -> int:
        return len(self.views)

    def show(self, view: AppView) -> None:
        """Show an app's current state; do nothing if it has not changed."""
        row = encoded(row_of(view))
        known = self._rows.get(view.handle)
        if known is not None and known[1] == row:
            return
        self._drop(view.handle)
        self.views[view.handle] = view
        self._states[view.state] += 1
        self.serial += 1
        self._rows[view.handle] = (self.serial, row)

    def take_off(self, handle: str) -> None:
        """Remove an app from the table."""
        if handle not in self.views:
            return
        self._drop(handle)
        self.serial += 1
        self._gone[handle] = (self.serial, encoded({"handle": handle, "gone": True}))
        if len(self._gone) > MOST_GONE:
            _, (self._forgotten, _) = self._gone.popitem(last=False)

    def since(self, serial: int, most: int) -> Changes:
        """Return the changes since a number, the oldest first, for at most `most` apps."""
        anew = not self._forgotten <= serial <= self.serial or serial == 0
        if anew:
            serial = 0
        changed = [*_newer(self._rows, serial)]
        if not anew:
            changed += _newer(self._gone, serial)
        changed.sort()
        rows = [row for _, row in islice(changed, most)]
        return Changes(rows, changed[most - 1][0] if len(changed) > most else self.serial, anew)

    def overview(self) -> dict[str, JsonValue]:
        """Return the summary of all apps, and its bar."""
        states = +self._states
        return {
            "summary": summary(states),
            "bar": [[part.state.name, part.cells] for part in bar(states, _CELLS)],
        }

    def _drop(self, handle: str) -> None:
        view = self.views.pop(handle, None)
        if view is not None:
            self._states[view.state] -= 1
        self._rows.pop(handle, None)
        self._gone.pop(handle, None)


def _newer(rows: OrderedDict[str, tuple[int, bytes]], serial: int) -> Iterator[tuple[int, bytes]]:
    for entry in reversed(rows.values()):
        if entry[0] <= serial:
            return
        yield entry
