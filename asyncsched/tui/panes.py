"""The panes of the monitor: lines, rendered again only where they have changed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Generic, TypeVar

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from asyncsched._typing import NamedTuple, override
from asyncsched.specs.state import AppState
from asyncsched.views.live_log import ShownRow
from asyncsched.views.live_table import TableLine
from asyncsched.views.log_names import WIDEST
from asyncsched.views.palette import FAINT, state_number
from asyncsched.views.summary import Segment as BarSegment
from asyncsched.views.text import one_line

__all__ = [
    "HeadLine", "HeadPane", "LinesPane", "LogPane", "Styles", "TablePane", "TextLine", "TextPane",
    "fitting", "ruled", "wrapped",
]  # fmt: skip

LineT = TypeVar("LineT")

GAP = "  "
_AGE = 4
_NAME_LEAST, _NAME_SHARE = 12, 0.45
_GIVEN_BACK = 8
"""How many unused cells the first column may have before it becomes narrower."""
_CELLS = {AppState.SUCCEEDED: "█", AppState.FAILED: "x", AppState.CANCELLED: "-", AppState.RUNNING: "▒"}


class Styles:
    """The styles of the monitor.

    Args:
        color: Whether to use colours.
    """

    def __init__(self, *, color: bool = True) -> None:
        self._color = color
        self._replicas: dict[str, Style] = {}
        self.plain = Style()
        self.bold = Style(bold=True)
        self.cursor = Style(reverse=True)
        self.match = Style(bold=True, underline=True)
        self.faint = self._of(FAINT)
        self._states = {
            state: self._of(state_number(state), bold=state is AppState.FAILED) for state in (*AppState, None)
        }

    def _of(self, number: int, *, bold: bool = False) -> Style:
        return Style(color=Color.from_ansi(number) if self._color else None, bold=bold or None)

    def state(self, state: AppState | None) -> Style:
        """Return the style of a state."""
        return self._states[state]

    def replica(self, color: str) -> Style:
        """Return the style of a replica with this colour."""
        if color not in self._replicas:
            self._replicas[color] = Style(color=color if self._color else None)
        return self._replicas[color]


class LinesPane(Widget, Generic[LineT]):
    """A pane of lines; unchanged lines are not rendered again.

    Args:
        styles: The styles of the lines.
        id: The name of the pane.

    Attributes:
        lines: The shown lines.
        rendered: How many lines have been rendered so far.
    """

    def __init__(self, styles: Styles, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self.styling = styles
        self.lines: Sequence[LineT] = ()
        self.rendered = 0

    def show(self, lines: Sequence[LineT]) -> None:
        """Show these lines."""
        before, self.lines = self.lines, lines
        most = max(len(before), len(lines))
        changed = [
            number
            for number in range(most)
            if number >= len(before) or number >= len(lines) or before[number] != lines[number]
        ]
        if changed:
            self.refresh(*(Region(0, number, self.size.width, 1) for number in changed))

    @override
    def render_line(self, y: int) -> Strip:
        """Return one line, padded to the pane's width."""
        self.rendered += 1
        width = self.size.width
        if y >= len(self.lines):
            return Strip.blank(width)
        return self.strip(self.lines[y], width).adjust_cell_length(width)

    def strip(self, line: LineT, width: int) -> Strip:
        """Return a line with its styles."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """The text of the pane."""
        width = self.size.width
        return "\n".join(self.strip(line, width).adjust_cell_length(width).text.rstrip() for line in self.lines)


class TextLine(NamedTuple):
    """A line in one style: "", "bold" or "faint"."""

    text: str
    look: str = ""


class TextPane(LinesPane[TextLine]):
    """Plain lines."""

    @override
    def strip(self, line: TextLine, width: int) -> Strip:
        looks = {"bold": self.styling.bold, "faint": self.styling.faint}
        return Strip([Segment(line.text.expandtabs(), looks.get(line.look, self.styling.plain))])


class HeadLine(NamedTuple):
    """A line above the table: a summary, and a bar with the same numbers."""

    text: str
    bar: tuple[BarSegment, ...] = ()


class HeadPane(LinesPane[HeadLine]):
    """The summary with its bar, and the current filter and order."""

    @override
    def strip(self, line: HeadLine, width: int) -> Strip:
        if not line.bar:
            return Strip([Segment(line.text, self.styling.faint)])
        parts = [Segment(_CELLS.get(part.state, "░") * part.cells, self.styling.state(part.state)) for part in line.bar]
        return Strip([Segment(line.text, self.styling.bold), Segment(GAP + "["), *parts, Segment("]")])

    @staticmethod
    def room(text: str, width: int) -> int:
        """Return how many cells are left for a bar beside a text."""
        return min(width - cell_len(text) - len(GAP) - 2, 40)


class Columns(NamedTuple):
    """The titles of the columns, the gap between them, and the width of the states."""

    titles: tuple[str, str, str, str, str]
    gap: str
    state: int


_WIDE = Columns(("APP", "STATE", "DONE/FAILED/OF", "AGE", "WHY, LAST LINE"), GAP, 10)
_NARROW = Columns(("APP", "STATE", "D/F/OF", "AGE", "WHY, LAST LINE"), " ", 9)
NARROW = 80


class TablePane(LinesPane[TableLine]):
    """The apps, below the titles of their columns."""

    name_width = _NAME_LEAST
    columns = _WIDE

    def show_table(self, lines: Sequence[TableLine]) -> None:
        """Show these lines; the first column fits the longest name, and rarely becomes narrower."""
        most = max(int(self.size.width * _NAME_SHARE), _NAME_LEAST)
        wanted = max((cell_len(line.cells[0]) + 2 * line.is_group for line in lines), default=0)
        least = self.name_width if self.name_width - wanted < _GIVEN_BACK else _NAME_LEAST
        width = min(max(wanted, least), most)
        columns = _NARROW if self.size.width < NARROW else _WIDE
        if (width, columns) != (self.name_width, self.columns):
            self.name_width, self.columns = width, columns
            self.refresh()
        title = TableLine("", None, columns.titles)
        self.show([title, *lines])

    @property
    def height(self) -> int:
        """The number of lines below the titles."""
        return max(self.size.height - 1, 0)

    @override
    def strip(self, line: TableLine, width: int) -> Strip:
        is_title = not line.handle
        base = self.styling.faint if is_title or line.is_group else self.styling.plain
        state = base if is_title or line.state is None else self.styling.state(line.state)
        name, word, counts, age, told = line.cells
        titles, gap, state_width = self.columns
        name = _cut(f"  {name}" if line.is_group else name, self.name_width)
        begin = f"{'>' if line.is_cursor else ' '}{'*' if line.is_marked else ' '}{name}{gap}"
        rest = f"{gap}{counts:<{len(titles[2])}}{gap}{age:>{_AGE}}{gap}{told}"
        strip = Strip([Segment(begin, base), Segment(f"{word:<{state_width}}", state), Segment(rest, base)])
        return strip.adjust_cell_length(width).apply_style(self.styling.cursor) if line.is_cursor else strip


class LogPane(LinesPane[ShownRow]):
    """The lines of a log, each with its app or replica."""

    who_width = 0
    cut = 0

    def show_log(self, rows: Sequence[ShownRow], who_width: int, cut: int) -> None:
        """Show these lines.

        Args:
            rows: The lines.
            who_width: The width of the names before the lines.
            cut: How many cells to leave out at the beginning of each text.
        """
        if (who_width, cut) != (self.who_width, self.cut):
            self.who_width, self.cut = who_width, cut
            self.refresh()
        self.show([*rows])

    @override
    def strip(self, line: ShownRow, width: int) -> Strip:
        row = line.row
        style = self.styling.match if line.is_match else self.styling.plain
        name = one_line(row.who)
        who = _cut(name, min(max(cell_len(name), self.who_width), WIDEST))
        text = Strip([Segment(row.text.expandtabs(), style)])
        strip = Strip.join(
            [Strip([Segment(f"{who} {row.mark} ", self.styling.replica(row.color))]), text.crop(self.cut)]
        )
        return strip.adjust_cell_length(width).apply_style(self.styling.cursor) if line.is_current else strip


def ruled(title: str, width: int) -> str:
    """Return a title in a rule as wide as the screen."""
    return f"── {title} ".ljust(width, "─")


def fitting(hints: Sequence[str], width: int) -> str:
    """Return as many hints as fit into a line, in order."""
    ends = accumulate(hints, lambda line, hint: f"{line}{GAP}{hint}")
    return max((line for line in ends if cell_len(line) <= width), key=len, default="")


def wrapped(text: str, width: int) -> list[str]:
    """Return a text wrapped to this width."""
    return chop_cells(text.expandtabs(), width) or [""]


def _cut(text: str, width: int) -> str:
    """Cut a name in the middle: its beginning and its end identify it best."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    tail = max((width - 1) // 2, 1)
    return f"{set_cell_size(text, width - tail - 1)}…{text[-tail:]}"
