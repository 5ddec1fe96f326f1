"""The last lines of a log, for a page: each replica has a colour, and progress bars are at the bottom."""

from __future__ import annotations

import re
from collections import deque
from html import escape
from itertools import islice
from typing import TYPE_CHECKING

from asyncsched._typing import NamedTuple
from asyncsched.specs.stream import Stream
from asyncsched.views.log_names import Names

if TYPE_CHECKING:
    from asyncsched.logs.line import LogLine, LogOrigin

__all__ = ["KEPT", "LogRow", "LogView"]

KEPT = 500
"""Lines to keep and show."""
LONGEST = 2000
"""Characters of a line to show."""

_COLOURS = ("#0e8a8a", "#b06000", "#a050a0", "#2f8f2f", "#c000c0", "#5f8700", "#8a6d8a", "#5f8787")
_SEQUENCE = re.compile(r"\x1b(?:\[[ -?]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[@-Z\\^_]|.)")
_BOX = (
    "max-height:24em;overflow:auto;display:flex;flex-direction:column-reverse;"
    "border-left:4px solid #8b949e;padding:2px 0 2px 10px;margin:2px 0"
)
# A page's style may make it scroll, and then it would scroll instead of its box.
_PRE = (
    "flex:none;overflow:visible;margin:0;padding:0;font-family:monospace;white-space:pre-wrap;"
    "overflow-wrap:anywhere;color:inherit;background:none"
)
_FAINT = "opacity:.7"


class LogRow(NamedTuple):
    """A displayed line: its origin and colour, ``!`` for stderr or ``|``, and its text."""

    who: str
    color: str
    mark: str
    text: str


class LogView:
    """Keeps the last lines.

    Args:
        names: What those are called who write.
        several: Whether the lines are from several apps, whose ids are then in these names if none are given.
        kept: How many lines to keep.
    """

    def __init__(self, names: Names | None = None, *, several: bool = False, kept: int = KEPT) -> None:
        self.names = names or Names({} if several else None)
        self._lines: deque[LogRow] = deque(maxlen=kept)
        self._open: dict[LogOrigin, str] = {}  # unfinished lines
        self._colors: dict[str, str] = {}
        self.count = 0
        self.note = ""

    def add(self, line: LogLine) -> None:
        """Add a line, or a piece of one."""
        if line.gap is not None:
            self._keep(line.source, f"lines are missing here: {line.gap.reason}")
            return
        text = self._open.pop(line.source, "") + _plain(line.text)
        if line.partial:
            # Keep only the text after the last carriage return, and cut lines that never end.
            self._open[line.source] = text.rstrip("\r").rpartition("\r")[2][-LONGEST:] + "\r" * text.endswith("\r")
        else:
            self._keep(line.source, text.rstrip("\r").rpartition("\r")[2])

    def _keep(self, source: LogOrigin, text: str) -> None:
        self.count += 1
        self._lines.append(self._line(source, text))

    def _line(self, source: LogOrigin, text: str) -> LogRow:
        who = self.names.of(self.names.who(source))
        color = self._colors.setdefault(who, _COLOURS[len(self._colors) % len(_COLOURS)])
        cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
        return LogRow(who, color, "!" if source.stream is Stream.STDERR else "|", cut)

    def rows(self) -> list[LogRow]:
        """Return the lines, unfinished ones last."""
        open_ones = [self._line(source, text.rstrip("\r")) for source, text in islice(self._open.items(), KEPT)]
        return [*self._lines, *open_ones]

    @property
    def _notes(self) -> list[str]:
        left = f"the last {len(self._lines)} of {self.count} lines" if self.count > len(self._lines) else ""
        empty = "" if self._lines or self._open else "no lines so far"
        return [*filter(None, [left, empty, self.note])]

    def text(self) -> str:
        """Return the lines as text."""
        lines = [f"{line.who} {line.mark} {line.text}" for line in self.rows()]
        return "\n".join([*lines, *self._notes])

    def html(self) -> str:
        """Return the lines as a box of bounded height, scrolled to its end."""
        shown = self.rows()
        width = max((len(line.who) for line in shown), default=0)
        rows = "\n".join(
            f"<span style='color:{line.color}'>{escape(line.who.ljust(width))} {line.mark}</span> {escape(line.text)}"
            for line in shown
        )
        told = "".join(f"<div style='{_FAINT}'>{escape(note)}</div>" for note in self._notes)
        box = f"<div style='{_BOX}'><pre style='{_PRE}'>{rows}</pre></div>" if shown else ""
        return f"{box}{told}"


def _plain(text: str) -> str:
    """Return a text without terminal control characters, except the carriage returns of progress bars."""
    if text.isprintable():
        return text
    return "".join(c for c in _SEQUENCE.sub("", text) if c.isprintable() or c in "\t\r")
