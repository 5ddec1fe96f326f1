"""The terminal that a monitor draws on: it may be closed at any time, and is restored at the end."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from textual.driver import Driver

from asyncsched._typing import override

__all__ = ["driver_class", "is_gone", "signals_kept"]

_TAKEN = ("SIGTSTP", "SIGCONT", "SIGWINCH", "SIGTTOU", "SIGTTIN")
"""The signals whose handlers textual replaces without restoring them."""


class _Patient:
    """A terminal that drops output once it is closed, instead of raising.

    textual writes in a thread; if an error ended that thread, writers would wait forever.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        try:
            return self._file.write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        try:
            self._file.flush()
        except OSError:
            return

    def fileno(self) -> int:
        return self._file.fileno()


def driver_class() -> type[Driver] | None:
    """Return the driver for this platform; None for textual's own choice, as on Windows."""
    if sys.platform == "win32":
        return None
    from textual.drivers.linux_driver import LinuxDriver

    class TerminalDriver(LinuxDriver):
        """textual's driver, which also survives the end of its terminal."""

        @override
        def start_application_mode(self) -> None:
            self._file: Any = _Patient(cast("TextIO", sys.__stderr__))
            super().start_application_mode()  # type: ignore[no-untyped-call]  # textual gives it no types

        @override
        def run_input_thread(self) -> None:
            while True:
                try:
                    super().run_input_thread()
                except UnicodeDecodeError:
                    continue  # bytes that are not text are not keys; those read with them are lost
                return

    return TerminalDriver


def is_gone() -> bool:
    """Tell whether the terminal was closed: reading from it would return nothing, again and again."""
    return any(
        stream is None or stream.closed or not os.isatty(stream.fileno()) for stream in (sys.__stdin__, sys.__stderr__)
    )


@contextmanager
def signals_kept() -> Generator[None]:
    """Restore the signal handlers that textual replaces."""
    numbers = [signal.Signals[name] for name in _TAKEN if name in signal.Signals.__members__]
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # a handler that was not set from Python cannot be restored
                signal.signal(number, cast("Callable[..., Any]", handler))
