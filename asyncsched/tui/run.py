"""Show a monitor: whether that is possible here, and until when."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec

from asyncsched.tui.source import MonitorSource

__all__ = ["can_show", "is_at_terminal", "is_installed", "show"]

_DETACHING = ("SIGINT", "SIGTERM", "SIGHUP")
_ENDING = ("SIGTERM", "SIGHUP")
"""Signals that end a process which does not handle them; Python handles SIGINT."""


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
        owns_process: Whether signals that end a process make it leave. Otherwise those that the program handles are
            its own. Those that it does not handle, and Ctrl-C, are sent again once the terminal is restored.

    Returns:
        The signal that made it leave, SIGINT for Ctrl-C and SIGHUP for a closed terminal; or None.
    """
    await asyncio.to_thread(import_module, "asyncsched.tui.app")  # takes longer than a step of the loop may
    from asyncsched.tui.app import INTERRUPTED, MonitorApp
    from asyncsched.tui.terminal import signals_kept

    app = MonitorApp(source, color=color, leaves=leaves, on_terminal=True)
    received: list[str] = []

    def leave(name: str) -> None:
        received.append(name)
        app.exit(name)

    with signals_kept(), _detaching(leave, _DETACHING if owns_process else _not_handled()):
        result = await app.show()
    if not owns_process and (received or result == INTERRUPTED):
        signal.raise_signal(signal.Signals[received[0] if received else INTERRUPTED])
    return signal.Signals[result] if result else None


def _not_handled() -> list[str]:
    members = signal.Signals.__members__
    return [name for name in _ENDING if name in members and signal.getsignal(members[name]) is signal.SIG_DFL]


@contextmanager
def _detaching(leave: Callable[[str], None], names: Sequence[str]) -> Generator[None]:
    """Leave at one of these signals, unless it is ignored, as under `nohup`."""
    loop = asyncio.get_running_loop()
    taken: list[signal.Signals] = []
    for name in names:
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
