"""The progress of images while an app is launched: one line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

from asyncsched._typing import override
from asyncsched.cli.console import Console
from asyncsched.cli.control_sequences import visible

__all__ = ["image_progress"]

_logger = logging.getLogger("asyncsched.workspace")
_MB = 1_000_000
_CLEAR = "\r\x1b[K"


@contextmanager
def image_progress(console: Console) -> Generator[None]:
    """Show the progress of pulls, builds and pushes on stderr while in the context."""
    if console.debug:  # then all is logged
        yield
        return
    is_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    handler = _OneLine(sys.stderr) if is_terminal else _Lines(sys.stderr)
    level, propagates = _logger.level, _logger.propagate
    _logger.addHandler(handler)
    _logger.setLevel(logging.DEBUG if is_terminal else logging.INFO)
    _logger.propagate = False
    try:
        yield
    finally:
        _logger.removeHandler(handler)
        _logger.setLevel(level)
        _logger.propagate = propagates
        handler.clear()


class _Lines(logging.Handler):
    """A line for each step."""

    def __init__(self, out: TextIO) -> None:
        super().__init__()
        self._out = out

    @override
    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            self.clear()
            if _logger.parent is not None:
                _logger.parent.handle(record)
        elif hasattr(record, "progress"):
            self.show(record)

    def show(self, record: logging.LogRecord) -> None:
        self.write(f"{visible(record.getMessage())}\n")

    def clear(self) -> None:
        """Clear the line before something else is written."""

    def write(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except OSError:
            pass  # the terminal is gone


class _OneLine(_Lines):
    """One line, which each step overwrites, and which is cleared at the end."""

    def __init__(self, out: TextIO) -> None:
        super().__init__(out)
        self._is_shown = False

    @override
    def show(self, record: logging.LogRecord) -> None:
        import shutil  # imported late: its formats of archives take as long as other modules together

        current: object = getattr(record, "progress").current  # noqa: B009 - a record's own attribute
        total: object = getattr(record, "progress").total  # noqa: B009
        size = f" {current / _MB:.1f}" if isinstance(current, int) else ""
        size += f"/{total / _MB:.1f}" if size and isinstance(total, int) else ""
        text = visible(record.getMessage()) + (f"{size} MB" if size else "")
        room = shutil.get_terminal_size().columns - 1
        if (over := len(text) - room) > 0:
            image = visible(str(getattr(record, "progress").image))  # noqa: B009
            text = text.replace(image, f"{image[: max(8, len(image) - over - 1)]}…", 1)
        self.write(_CLEAR + text[:room])
        self._is_shown = True

    @override
    def clear(self) -> None:
        if self._is_shown:
            self.write(_CLEAR)
            self._is_shown = False
