"""An open log: its latest lines, the scroll position, and the search."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from asyncsched._typing import NamedTuple, override
from asyncsched.views.log_names import Names
from asyncsched.views.log_view import LogRow, LogView

if TYPE_CHECKING:
    from asyncsched.logs.line import LogOrigin

__all__ = ["LINES", "LiveLog", "ShownRow"]

LINES = 5000
"""Lines to keep for scrolling back."""


class ShownRow(NamedTuple):
    """A line of the log in its window.

    Attributes:
        row: The line.
        is_match: Whether the search text is in it.
        is_current: Whether it is the current match.
    """

    row: LogRow
    is_match: bool = False
    is_current: bool = False


class LiveLog(LogView):
    """The latest lines of a log. Lines are numbered from 0, including those that are no longer kept.

    Args:
        names: What the apps and replicas are called.
        kept: How many lines to keep.

    Attributes:
        search_text: The text to search for; "" for none.
        matches: The numbers of the kept lines that contain it.
    """

    def __init__(self, names: Names | None = None, *, kept: int = LINES) -> None:
        super().__init__(names, kept=kept)
        self.search_text = ""
        self.matches: list[int] = []
        self._current: int | None = None
        self._end: int | None = None  # the line after the last shown one; None while the newest are shown
        self._seen = 0

    @property
    def first(self) -> int:
        """The number of the first kept line."""
        return self.count - len(self._lines)

    @property
    def follows(self) -> bool:
        """Whether the newest lines are shown."""
        return self._end is None

    @property
    def new(self) -> int:
        """How many lines have come since the newest were shown."""
        return 0 if self._end is None else self.count - self._seen

    @override
    def _keep(self, source: LogOrigin, text: str) -> None:
        super()._keep(source, text)
        if self.search_text and self.search_text in self._lines[-1].text.lower():
            self.matches.append(self.count - 1)
        if self.matches and self.matches[0] < self.first:
            del self.matches[0]

    # Scrolling

    def scroll(self, by: int, height: int) -> None:
        """Scroll down by this many lines; at the end, new lines are followed."""
        self._stay()
        end = (self.count if self._end is None else self._end) + by
        self._end = max(end, min(self.first + height, self.count))
        if self._end >= self.count:
            self.to_end()

    def to_start(self, height: int) -> None:
        """Scroll to the oldest kept lines."""
        self.scroll(self.first - self.count, height)

    def to_end(self) -> None:
        """Scroll to the end and follow new lines."""
        self._end = None

    def _stay(self) -> None:
        if self._end is None:
            self._end = self._seen = self.count

    def window(self, height: int) -> list[ShownRow]:
        """Return the lines that fit."""
        if self._end is None:
            rows = self.rows()
            top = max(len(rows) - height, 0)
            return [self._as_shown(self.first + number, rows[number]) for number in range(top, len(rows))]
        self._end = max(self._end, min(self.first + height, self.count))  # the shown lines may no longer be kept
        start = max(self._end - height - self.first, 0)
        rows = [*islice(self._lines, start, self._end - self.first)]
        return [self._as_shown(self.first + start + number, row) for number, row in enumerate(rows)]

    def _as_shown(self, number: int, row: LogRow) -> ShownRow:
        is_match = bool(self.search_text) and number < self.count and self.search_text in row.text.lower()
        return ShownRow(row, is_match, is_match and number == self._current)

    # Search

    def search(self, text: str, height: int) -> None:
        """Search for a text, ignoring case, and show the last line that contains it."""
        self.search_text = text.lower()
        rows = enumerate(self._lines, self.first) if text else ()
        self.matches = [number for number, row in rows if self.search_text in row.text.lower()]
        self._current = None
        if self.matches:
            self._show_match(self.matches[-1], height)

    def step(self, by: int, height: int) -> None:
        """Go to the next match (1) or the previous one (-1); after the last comes the first."""
        if not self.matches:
            return
        at = self._current
        if at is None:
            at = self.count if by < 0 else self.first - 1
        further = [number for number in self.matches if (number > at if by > 0 else number < at)]
        self._show_match((further or self.matches)[0 if by > 0 else -1], height)

    def _show_match(self, number: int, height: int) -> None:
        self._current = number
        self._stay()
        end = self._end if self._end is not None else self.count
        if not end - height <= number < end:
            end = number + 1 + height // 2
        self._end = min(max(end, min(self.first + height, self.count)), self.count)

    # Notes

    def told(self) -> str:
        """Return how many lines are kept, how many are new, and how often the search text is found."""
        left = self.count - len(self._lines)
        told = [
            f"the last {len(self._lines):,} of {self.count:,} lines"
            if left
            else f"{self.count:,} line{'s' * (self.count != 1)}"
        ]
        told += [f"+{self.new:,} new"] if self.new else []
        told += [self._found()] if self.search_text else []
        return ", ".join([*told, *filter(None, [self.note])])

    def _found(self) -> str:
        if not self.matches:
            return f"{self.search_text!r} is not found"
        which = self.matches.index(self._current) + 1 if self._current in self.matches else "-"
        return f"{self.search_text!r} {which}/{len(self.matches):,}"
