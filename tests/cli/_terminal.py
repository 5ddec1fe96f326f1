"""A command in a real terminal (a pseudo-terminal), and what its screen shows."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tests.cli._cli import Cli

_TOKEN = re.compile(r"\x1b\[([?<=>]?[\d;]*\$?)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")
_UNFINISHED = re.compile(r"\x1b(\[[?<=>]?[\d;]*\$?)?\Z")
WITHIN = 60.0

# Only so keys become signals. Not with preexec_fn: this process has threads.
_TAKE = "import fcntl, os, sys, termios; fcntl.ioctl(1, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
_AT_THE_TERMINAL = (sys.executable, "-I", "-S", "-c", _TAKE)


class Terminal:
    """Runs a command in a terminal of a size, and keeps what it writes and what it shows."""

    def __init__(self, cli: Cli, *args: str, columns: int = 80, lines: int = 24, stdin: int | None = None) -> None:
        self.written = ""
        self.screen = [""] * lines
        self._row = 0
        self._column = 0
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._unfinished = ""
        self._master, child = pty.openpty()
        self.resize(columns, lines, tell=False)
        self.settings = termios.tcgetattr(self._master)  # before anybody could change them
        self.process = subprocess.Popen(
            [*_AT_THE_TERMINAL, *cli.command(*args)], cwd=cli.folder, env=cli.env | {"TERM": "xterm-256color"},
            stdin=child if stdin is None else stdin, stdout=child, stderr=child, start_new_session=True,
        )  # fmt: skip
        os.close(child)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.hang_up()

    def hang_up(self) -> None:
        """Take the terminal away."""
        if self._master >= 0:
            os.close(self._master)
        self._master = -1

    def resize(self, columns: int, lines: int, *, tell: bool = True) -> None:
        self.columns = columns
        if tell:
            self.screen = [""] * lines
            self._row = min(self._row, lines - 1)  # what was drawn for the old size may still come
        # The kernel tells the foreground process with SIGWINCH.
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def until(self, condition: Callable[[Terminal], object]) -> None:
        """Read what comes until a condition holds."""
        deadline = time.monotonic() + WITHIN
        while not condition(self):
            assert time.monotonic() < deadline, (
                f"not within {WITHIN} s:\n" + "\n".join(self.screen) + self.written[-500:]
            )
            self._read(0.05)

    def shows(self, text: str) -> bool:
        return any(text in line for line in self.screen)

    def end(self) -> int:
        """Read to the end and return the exit code."""
        self.until(lambda _: self.process.poll() is not None)
        self._read(0)
        return int(self.process.returncode)

    def _read(self, timeout: float) -> None:
        while select.select([self._master], [], [], timeout)[0]:
            try:
                read = os.read(self._master, 65536)
            except OSError:  # EIO: the other side is closed
                return
            if not read:
                return
            data = self._decode(read)
            self.written += data
            self._show(data)
            timeout = 0

    def _show(self, data: str) -> None:
        # One read of a terminal gives at most 4 KiB, which can end within a sequence or a letter.
        data = self._unfinished + data
        cut = _UNFINISHED.search(data)
        self._unfinished = cut[0] if cut else ""
        data = data.removesuffix(self._unfinished)
        for numbers, letter, control, text in _TOKEN.findall(data):
            if text:
                line = self.screen[self._row].ljust(self._column)
                self.screen[self._row] = line[: self._column] + text + line[self._column + len(text) :]
                self._column += len(text)
            elif control == "\r":
                self._column = 0
            elif control == "\n":
                self._row += 1
                if self._row >= len(self.screen):
                    self.screen = [*self.screen[1:], ""]
                    self._row -= 1
            elif letter == "H":
                row, _, column = numbers.partition(";")
                self._row, self._column = min(int(row or 1), len(self.screen)) - 1, int(column or 1) - 1
            elif letter == "A":
                self._row = max(self._row - int(numbers or 1), 0)
            elif letter == "K":
                self.screen[self._row] = self.screen[self._row][: self._column]
            elif letter == "J":
                first = 0 if numbers == "2" else self._row
                self.screen[first:] = [""] * (len(self.screen) - first)
