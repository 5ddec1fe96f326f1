"""The progress bars of several replicas at the bottom of a terminal."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, TypeAlias

from asyncsched.cli.colors import FAINT, painted
from asyncsched.views.log_names import Who

if TYPE_CHECKING:
    import os

__all__ = ["Footer", "terminal_size"]

Key: TypeAlias = tuple[Who, str]
"""A stream of a replica; stdout and stderr have separate unfinished lines."""

_COLOR = re.compile(r"\x1b\[[\d;:]*m")


@dataclass(slots=True, eq=False, repr=False)
class _Open:
    """A line that has not ended.

    Attributes:
        prefix: How it begins.
        text: What it says.
        is_over: Whether what comes next is written over it.
        reset: The sequence that turns off a colour that is still on.
    """

    prefix: str
    text: str
    is_over: bool
    reset: str


class Footer:
    """Keeps the lines that have not ended, and draws them below all others.

    Attributes:
        has_changed: Whether they are others than those that are drawn.
    """

    def __init__(self) -> None:
        self._open: dict[Key, _Open] = {}
        self._drawn: list[int] = []  # how many columns each line takes that is on the screen
        self.has_changed = False

    def holds(self, key: Key) -> bool:
        """Tell whether a stream has a line that has not ended."""
        return key in self._open

    def take(self, key: Key, prefix: str, text: str, reset: str) -> str:
        """Take a piece of a line; return the line if that is its end."""
        known = self._open.pop(key, None)
        self.has_changed = True
        body = text.removesuffix("\n")
        if text == "\n" and known is not None and known.is_over:
            body = known.text  # "100%\r" + "\n"
        elif known is not None and not known.is_over:
            body = known.text + body
        segments = body.rstrip("\r").split("\r")
        said = segments[-1]
        if text.endswith("\n"):
            return f"{prefix}{said}{reset}\n"
        if body:
            self._open[key] = _Open(prefix, said, body.endswith("\r"), reset)
        return ""

    def take_all(self) -> list[str]:
        """Return all lines as they are, and keep none."""
        lines = [f"{each.prefix}{each.text}{each.reset}\n" for each in self._open.values()]
        self._open.clear()
        self.has_changed = True
        return lines

    def erased(self) -> str:
        """Return what takes the drawn lines from the screen, from behind the last of them."""
        if not self._drawn:
            return ""
        columns = terminal_size().columns or 1
        rows = sum(max(ceil(size / columns), 1) for size in self._drawn)
        self._drawn = []
        self.has_changed = bool(self._open)
        return f"\x1b[{rows}A\x1b[J"

    def drawn(self) -> str:
        """Return what draws them, in the order of their replicas; of many the first, and how many more there are."""
        self.has_changed = False
        columns, height = terminal_size()
        most = max(height // 3, 1)
        shown = [self._open[key] for key in sorted(self._open)]
        lines = [_cut(each.prefix, each.text, columns - 1) for each in shown[:most]]
        if len(shown) > most:
            more = f"and {len(shown) - most} more"[: columns - 1]
            lines.append((painted(more, FAINT), len(more)))
        self._drawn = [size for _, size in lines]
        return "".join(f"{line}\n" for line, _ in lines)


def terminal_size() -> os.terminal_size:
    """Return columns and lines of the terminal."""
    import shutil  # only who draws pays for it

    return shutil.get_terminal_size()


def _cut(prefix: str, text: str, width: int) -> tuple[str, int]:
    """Return a line that fits, and its width; the text is without its colours, so that it can be cut."""
    size = len(_COLOR.sub("", prefix))
    said = _COLOR.sub("", text)[: max(width - size, 0)]
    return prefix + said, size + len(said)
