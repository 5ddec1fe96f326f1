"""A terminal that is drawn on: its size, its keys, and only the lines that have changed."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import TracebackType
from typing import Self

__all__ = ["Screen"]

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_KEYS = {
    "\x1b[A": "up",
    "\x1bOA": "up",
    "k": "up",
    "\x1b[B": "down",
    "\x1bOB": "down",
    "j": "down",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\r": "enter",
    "\n": "enter",
    "\x1b": "escape",
}
_KEY = re.compile(r"(?s)\x1b\[[\d;]*[A-Za-z~]|\x1bO[A-Za-z]|.")


class Screen:
    """The terminal while the monitor has it; leaving the context gives it back as it was.

    Args:
        on_key: Is called with each key's name, or its character.
        on_resize: Is called when the terminal has another size.
    """

    def __init__(self, on_key: Callable[[str], None], on_resize: Callable[[], None]) -> None:
        self._on_key = on_key
        self._on_resize = on_resize
        self._shown: list[str] = []
        self._fd = sys.stdin.fileno()
        self._mode: list[object] | None = None

    @staticmethod
    def is_supported() -> bool:
        """Tell whether this system has terminals that can be drawn on."""
        try:
            import_module("termios")
        except ImportError:
            return False
        return sys.stdin.isatty()

    def __enter__(self) -> Self:
        import termios
        import tty

        loop = asyncio.get_running_loop()
        self._mode = termios.tcgetattr(self._fd)
        tty.setcbreak(self._fd, termios.TCSANOW)
        loop.add_reader(self._fd, self._read_keys)
        loop.add_signal_handler(signal.SIGWINCH, self._resized)
        self.take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._fd)
        loop.remove_signal_handler(signal.SIGWINCH)
        self.give_back()
        if self._mode is not None:
            import termios

            termios.tcsetattr(self._fd, termios.TCSANOW, self._mode)  # type: ignore[arg-type]  # as tcgetattr gave it

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        return shutil.get_terminal_size()

    def take(self) -> None:
        """Switch to a screen of our own."""
        self._shown = []
        self._write(_ENTER)

    def give_back(self) -> None:
        """Switch back to what was there before."""
        self._write(_LEAVE)

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines from the top; those that are there already are not written again."""
        changed = [
            f"\x1b[{row + 1};1H{line}\x1b[0m\x1b[K"
            for row, line in enumerate(lines)
            if row >= len(self._shown) or self._shown[row] != line
        ]
        if len(lines) < len(self._shown):
            changed.append(f"\x1b[{len(lines) + 1};1H\x1b[J")
        self._shown = list(lines)
        if changed:
            self._write("".join(changed))

    def _resized(self) -> None:
        self._shown = []
        self._write("\x1b[2J")
        self._on_resize()

    def _read_keys(self) -> None:
        try:
            data = os.read(self._fd, 1024)
        except OSError:
            data = b""
        if not data:  # the terminal has been closed, and would be found readable for ever
            asyncio.get_running_loop().remove_reader(self._fd)
            self._on_key("q")
        # A key that is held down, or pressed while something else was done, comes several times at once.
        for key in _KEY.finditer(data.decode(errors="replace")):
            self._on_key(_KEYS.get(key[0], key[0]))

    @staticmethod
    def _write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
