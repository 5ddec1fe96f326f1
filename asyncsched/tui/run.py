"""Show a monitor: whether that is possible here, and until when."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from importlib.util import find_spec

from asyncsched.tui.source import MonitorSource

__all__ = ["can_show", "is_at_terminal", "is_installed", "show"]

_DETACHING = ("SIGINT", "SIGTERM", "SIGHUP")


def is_installed() -> bool:
    """Tell whether textual is installed, without importing it."""
    return find_spec("textual") is not None


def is_at_terminal() -> bool:
    """Tell whether there is a terminal to draw on, and this is the main thread."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return threading.current_thread() is threading.main_thread() and all(
        stream is not None and not stream.closed and stream.isatty() for stream in streams
    )


def can_show() -> bool:
    """Tell whether a monitor can be shown here."""
    return is_at_terminal() and is_installed()


async def show(
    source: MonitorSource, *, color: bool = True, leaves: bool = False, owns_process: bool = False
) -> signal.Signals | None:
    """Show a monitor until the user leaves. The apps keep running, and the terminal is restored.

    Args:
        source: Where the apps come from.
        color: Whether to use colours.
        leaves: Whether to leave when no app can change any more.
        owns_process: Whether signals that end a process make it leave. Otherwise they are the caller's, and Ctrl-C
            is passed on once the terminal is restored.

    Returns:
        The signal that made it leave, SIGINT for Ctrl-C and SIGHUP for a closed terminal; or None.
    """
    await asyncio.to_thread(import_module, "asyncsched.tui.app")  # takes longer than a step of the loop may
    from asyncsched.tui.app import INTERRUPTED, MonitorApp
    from asyncsched.tui.terminal import signals_kept

    app = MonitorApp(source, color=color, leaves=leaves, on_terminal=True)
    with signals_kept(), _detaching(app.exit) if owns_process else nullcontext():
        result = await app.show()
    if result == INTERRUPTED and not owns_process:
        signal.raise_signal(signal.SIGINT)
    return signal.Signals[result] if result else None


@contextmanager
def _detaching(leave: Callable[[str], None]) -> Generator[None]:
    """Leave at a signal that would end the process, unless the signal is ignored, as under `nohup`."""
    loop = asyncio.get_running_loop()
    taken: list[signal.Signals] = []
    for name in _DETACHING:
        number = signal.Signals.__members__.get(name)
        if number is None or signal.getsignal(number) is signal.SIG_IGN:
            continue
        try:
            loop.add_signal_handler(number, leave, name)
        except NotImplementedError:  # on Windows, where Ctrl-C arrives as a key
            break
        taken.append(number)
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)
