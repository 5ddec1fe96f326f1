"""A line on the terminal that is written over, and gone before anything else is written."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress

from asyncsched.cli.table import cut

__all__ = ["ProgressLine"]

_CLEAR = "\r\x1b[K"


class ProgressLine:
    """Shows how something gets on, on stderr where that is a terminal, and nowhere else."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._is_shown = False

    def show(self, text: str) -> None:
        """Write the text over what was shown before; it is cut where the line ends."""
        if self._is_terminal:
            self._write(_CLEAR + cut(text, shutil.get_terminal_size().columns - 1))
            self._is_shown = True

    def clear(self) -> None:
        """Make room for what others write."""
        if self._is_shown:
            self._write(_CLEAR)
            self._is_shown = False

    def _write(self, text: str) -> None:
        with suppress(OSError):  # nobody looks any more
            sys.stderr.write(text)
            sys.stderr.flush()
