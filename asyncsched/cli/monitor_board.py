"""The table of the monitor: what it knows, in which order, and how it is drawn. No terminal, no I/O."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from asyncsched.cli.table import cut
from asyncsched.specs.handle import AppHandle
from asyncsched.specs.state import AppState, AppStatus

__all__ = ["Board"]

# What needs attention stands above.
_ORDER = (
    AppState.FAILED,
    AppState.UNKNOWN,
    AppState.RUNNING,
    AppState.PENDING,
    AppState.SUBMITTED,
    AppState.UNSUBMITTED,
    AppState.CANCELLED,
    AppState.SUCCEEDED,
)
_RANK = {state: rank for rank, state in enumerate(_ORDER)}
_COLORS = {
    AppState.FAILED: 31,
    AppState.UNKNOWN: 35,
    AppState.RUNNING: 36,
    AppState.PENDING: 33,
    AppState.SUBMITTED: 33,
    AppState.SUCCEEDED: 32,
}

HEADER_LINES = 2
FOOTER_LINES = 1
KEYS = "enter log  c cancel  q leave"


@dataclass(slots=True)
class _Row:
    handle: AppHandle
    state: AppState
    replicas: str
    msg: str
    changed: int


class Board:
    """Rows of apps with one of them selected, of which a window is visible.

    Args:
        color: Whether states have colours.
    """

    def __init__(self, *, color: bool = False) -> None:
        self._color = color
        self._rows: dict[AppHandle, _Row] = {}
        self._sorted: list[_Row] | None = None
        self._selected: AppHandle | None = None
        self._top = 0
        self._changes = 0
        self.note = ""

    def __len__(self) -> int:
        return len(self._rows)

    def update(self, handle: AppHandle, status: AppStatus | None) -> None:
        """Take note of how an app is doing; None: its scheduler does not know it."""
        state = AppState.UNKNOWN if status is None else status.state
        replicas = [] if status is None else [replica for role in status.roles for replica in role.replicas]
        running = sum(replica.state.is_started() for replica in replicas)
        msg = "not known" if status is None else " ".join(status.msg.split())
        self._changes += 1
        self._rows[handle] = _Row(handle, state, f"{running}/{len(replicas)}" if replicas else "", msg, self._changes)
        self._sorted = None

    @property
    def selected(self) -> AppHandle | None:
        """The app that keys act on: the first until the user has moved."""
        if self._selected is not None:
            return self._selected
        rows = self._order()
        return rows[0].handle if rows else None

    def move(self, by: int) -> None:
        """Select the app so many rows further down; at the ends it stays."""
        rows = self._order()
        if rows:
            position = self._position(rows) + by
            self._selected = rows[min(max(position, 0), len(rows) - 1)].handle

    def lines(self, width: int, height: int) -> list[str]:
        """Draw what fits into so many columns and lines: a summary, the visible rows, the keys."""
        rows = self._order()
        visible = max(height - HEADER_LINES - FOOTER_LINES, 1)
        position = self._position(rows)
        self._top = max(0, min(self._top, position, max(len(rows) - visible, 0)), position - visible + 1)
        shown = rows[self._top : self._top + visible]
        lines = [cut(self._summary(), width), self._title(width)]
        lines += [self._draw(row, width, row.handle == self.selected) for row in shown]
        lines += [""] * (visible - len(shown))
        return [*lines, cut(self.note or KEYS, width)][:height]

    def _order(self) -> list[_Row]:
        if self._sorted is None:
            # Among equals the one that has changed last stands above.
            self._sorted = sorted(self._rows.values(), key=lambda row: (_RANK[row.state], -row.changed))
        return self._sorted

    def _position(self, rows: list[_Row]) -> int:
        selected = self.selected
        return next((index for index, row in enumerate(rows) if row.handle == selected), 0)

    def _summary(self) -> str:
        counts = Counter(row.state for row in self._rows.values())
        states = ", ".join(f"{counts[state]} {state}" for state in _ORDER if counts[state])
        apps = "app" if len(self._rows) == 1 else "apps"
        return f"{len(self._rows)} {apps}: {states}" if states else "no apps"

    @staticmethod
    def _title(width: int) -> str:
        return cut("  STATE      REPLICAS  APP", width)

    def _draw(self, row: _Row, width: int, is_selected: bool) -> str:
        state = f"{row.state!s:<10}"
        rest = f" {row.replicas:<9} {row.handle.app_id}{f'  {row.msg}' if row.msg else ''}"
        text = cut(f"{'>' if is_selected else ' '} {state}{rest}", width)
        color = _COLORS.get(row.state)
        if not self._color or color is None or len(text) < len(state) + 2:
            return text
        return f"{text[:2]}\x1b[{color}m{text[2 : 2 + len(state)]}\x1b[0m{text[2 + len(state) :]}"
