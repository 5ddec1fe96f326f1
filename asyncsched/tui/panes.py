"""What is drawn of the monitor: lines, of which only those are rendered that have changed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Generic, NamedTuple, TypeVar

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from asyncsched._typing import override
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
"""Cells that the first column has too many before it becomes narrower again."""
_CELLS = {AppState.SUCCEEDED: "█", AppState.FAILED: "x", AppState.CANCELLED: "-", AppState.RUNNING: "▒"}


class Styles:
    """How things look.

    Args:
        color: Whether there are colours.
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
        """Return the style of a replica whose colour this is."""
        if color not in self._replicas:
            self._replicas[color] = Style(color=color if self._color else None)
        return self._replicas[color]


class LinesPane(Widget, Generic[LineT]):
    """Some lines; those that stay as they are are not rendered again.

    Args:
        styles: How they look.
        id: The name of the pane.

    Attributes:
        lines: What is shown.
        rendered: How many lines were rendered so far.
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
        """Return one line, as wide as the pane."""
        self.rendered += 1
        width = self.size.width
        if y >= len(self.lines):
            return Strip.blank(width)
        return self.strip(self.lines[y], width).adjust_cell_length(width)

    def strip(self, line: LineT, width: int) -> Strip:
        """Return how a line looks."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """What can be read in the pane."""
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
    """The line above the table: a summary, and the bar that shows the same."""

    text: str
    bar: tuple[BarSegment, ...] = ()


class HeadPane(LinesPane[HeadLine]):
    """The summary with its bar, and what is shown."""

    @override
    def strip(self, line: HeadLine, width: int) -> Strip:
        if not line.bar:
            return Strip([Segment(line.text, self.styling.faint)])
        parts = [Segment(_CELLS.get(part.state, "░") * part.cells, self.styling.state(part.state)) for part in line.bar]
        return Strip([Segment(line.text, self.styling.bold), Segment(GAP + "["), *parts, Segment("]")])

    @staticmethod
    def room(text: str, width: int) -> int:
        """Return how many cells a bar beside a text has."""
        return min(width - cell_len(text) - len(GAP) - 2, 40)


class Columns(NamedTuple):
    """What stands above the columns, between them, and how wide the states are."""

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
        """Show these lines; the first column is as wide as the longest name in it, and seldom becomes narrower."""
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
        """How many lines there are below the titles."""
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
    """The lines of a log, each with who wrote it."""

    who_width = 0
    cut = 0

    def show_log(self, rows: Sequence[ShownRow], who_width: int, cut: int) -> None:
        """Show these lines.

        Args:
            rows: The lines.
            who_width: How wide the names of those are who wrote them.
            cut: How many cells of each text are left out at its beginning.
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
    """Return a title within a line as wide as the screen."""
    return f"── {title} ".ljust(width, "─")


def fitting(hints: Sequence[str], width: int) -> str:
    """Return as many of these as fit into a line, the first first."""
    ends = accumulate(hints, lambda line, hint: f"{line}{GAP}{hint}")
    return max((line for line in ends if cell_len(line) <= width), key=len, default="")


def wrapped(text: str, width: int) -> list[str]:
    """Return a text as lines that fit."""
    return chop_cells(text.expandtabs(), width) or [""]


def _cut(text: str, width: int) -> str:
    """Cut a name in its middle: its beginning says what it is, its end which one."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    tail = max((width - 1) // 2, 1)
    return f"{set_cell_size(text, width - tail - 1)}…{text[-tail:]}"
