"""What lies over the table for a while: help, a question, what an app is made of, its last lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from asyncsched._typing import override
from asyncsched.tui.panes import Styles, TextLine, TextPane

__all__ = ["HELP", "Question", "TextScreen"]

HELP = """\
up down j k, page up, page down, home, end   move
space    the last 20 lines          enter, l  the log of what is chosen
d        what it is made of         x         its replicas, equal ones in one row
m        mark, or unmark            M         mark all that are shown
u        unmark all                 c         cancel what is chosen, after a question
/        show only what has a text  f         only what has failed
t        only one state             s         another order
tab      to the log and back        q         leave; the apps run on
In the log: up, down, home and end scroll, / searches, n and N go to the next
and the one before, a chooses the attempt, q or escape closes it.
What is chosen are the marked apps, or else that under the cursor.""".splitlines()


class TextScreen(ModalScreen[bool]):
    """Some lines that can be scrolled, until a key closes them.

    Args:
        styles: How they look.
        title: What stands above.
        lines: The lines.
    """

    CSS = """
    TextScreen { background: transparent; }
    TextScreen TextPane { dock: bottom; background: ansi_default; color: ansi_default; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,space,question_mark", "close(False)", show=False, priority=True),
        Binding("up,k", "scroll(-1)", show=False, priority=True),
        Binding("down,j", "scroll(1)", show=False, priority=True),
        Binding("pageup", "scroll(-10)", show=False, priority=True),
        Binding("pagedown", "scroll(10)", show=False, priority=True),
        Binding("ctrl+c", "app.interrupt", show=False, priority=True),
    ]
    KEYS = "escape goes back"

    def __init__(self, styles: Styles, title: str, lines: Sequence[str]) -> None:
        super().__init__()
        self._pane = TextPane(styles)
        self._title = title
        self._lines = [*lines]
        self._top = 0

    @property
    def text(self) -> str:
        """What can be read."""
        return self._pane.text

    @override
    def compose(self) -> ComposeResult:
        yield self._pane

    def on_mount(self) -> None:
        """Make room."""
        self._draw()

    def on_resize(self) -> None:
        """Fit the new size."""
        self._draw()

    def _draw(self) -> None:
        room = max(min(len(self._lines), self.size.height - 3), 1)
        self._pane.styles.height = room + 2
        self._top = max(min(self._top, len(self._lines) - room), 0)
        shown = [TextLine(line) for line in self._lines[self._top : self._top + room]]
        where = f", lines {self._top + 1} to {self._top + len(shown)} of {len(self._lines)}"
        keys = self.KEYS + (where if len(self._lines) > room else "")
        self._pane.show([TextLine(self._title, "bold"), *shown, TextLine(keys, "faint")])

    def action_scroll(self, by: int) -> None:
        """Show other lines."""
        self._top += by
        self._draw()

    def action_close(self, answer: bool) -> None:
        """Go back to the table."""
        self.dismiss(answer)


class Question(TextScreen):
    """A question, which only ``y`` says yes to."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "close(True)", show=False, priority=True),
        Binding("n", "close(False)", show=False, priority=True),
    ]
    KEYS = "y/n"
