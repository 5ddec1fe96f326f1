"""A progress line on the terminal, cleared before anything else is written."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress

from asyncsched.cli.table import cut

__all__ = ["ProgressLine"]

_CLEAR = "\r\x1b[K"


class ProgressLine:
    """Shows progress on stderr if that is a terminal; otherwise nothing."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._is_shown = False

    def show(self, text: str) -> None:
        """Replace the shown text, cut to the width of the terminal."""
        if self._is_terminal:
            self._write(_CLEAR + cut(text, shutil.get_terminal_size().columns - 1))
            self._is_shown = True

    def clear(self) -> None:
        """Clear the line before something else is written."""
        if self._is_shown:
            self._write(_CLEAR)
            self._is_shown = False

    def _write(self, text: str) -> None:
        with suppress(OSError):  # the terminal is gone
            sys.stderr.write(text)
            sys.stderr.flush()
