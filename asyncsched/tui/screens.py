"""Dialogs over the table: the help, a question, an app's definition or its last lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from asyncsched._typing import override
from asyncsched.tui.panes import Styles, TextLine, TextPane, ruled, wrapped

__all__ = ["Question", "TextScreen"]


class TextScreen(ModalScreen[bool]):
    """Lines that can be scrolled, until a key closes them.

    Args:
        styles: The styles of the lines.
        title: The title above them.
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
    KEYS = "escape closes this"

    def __init__(self, styles: Styles, title: str, lines: Sequence[str]) -> None:
        super().__init__()
        self._pane = TextPane(styles)
        self._title = title
        self._lines = [*lines]
        self._top = 0

    @property
    def text(self) -> str:
        """The text of the dialog."""
        return self._pane.text

    @override
    def compose(self) -> ComposeResult:
        yield self._pane

    def on_mount(self) -> None:
        """Draw for the first time."""
        self._draw()

    def on_resize(self) -> None:
        """Fit the new size."""
        self._draw()

    def _draw(self) -> None:
        width = max(self.size.width, 1)
        lines = [part for line in self._lines for part in wrapped(line, width)]
        room = max(min(len(lines), self.size.height - 3), 1)
        self._pane.styles.height = room + 2
        self._top = max(min(self._top, len(lines) - room), 0)
        shown = [TextLine(line) for line in lines[self._top : self._top + room]]
        where = f", lines {self._top + 1} to {self._top + len(shown)} of {len(lines)}"
        keys = self.KEYS + (where if len(lines) > room else "")
        self._pane.show([TextLine(ruled(self._title, width), "bold"), *shown, TextLine(keys, "faint")])

    def action_scroll(self, by: int) -> None:
        """Scroll down by this many lines."""
        self._top += by
        self._draw()

    def action_close(self, answer: bool) -> None:
        """Close the dialog with this answer."""
        self.dismiss(answer)


class Question(TextScreen):
    """A question that only ``y`` answers with yes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "close(True)", show=False, priority=True),
        Binding("n", "close(False)", show=False, priority=True),
    ]
    KEYS = "y/n"
