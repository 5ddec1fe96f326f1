"""A replica with one process of each kind that is hard to end: ``python _tree.py TOKEN [obey | count]``.

Each says its kind on standard output once it is there. With ``obey`` none of them withstands TERM; with ``count`` two
of those that do say so each time.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

OBEYS = "obey" in sys.argv[2:]
COUNTS = "count" in sys.argv[2:]


def say(kind: str) -> None:
    os.write(1, f"{kind}\n".encode())


def rest(kind: str) -> None:
    say(kind)
    while True:
        time.sleep(0.1)  # a signal just before signal.pause() would be missed


def ignore_term() -> None:
    if not OBEYS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def withstand_term() -> None:
    if COUNTS:
        signal.signal(signal.SIGTERM, lambda *_: say("asked"))
    else:
        ignore_term()


def plain() -> None:
    rest("plain")


def session() -> None:
    os.setsid()
    rest("session")


def daemon() -> None:
    os.setsid()
    if os.fork():
        os._exit(0)
    say("daemon")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    while True:
        signal.pause()


def deaf() -> None:
    withstand_term()
    rest("deaf")


def stopped() -> None:
    say("stopped")
    os.kill(os.getpid(), signal.SIGSTOP)
    rest("continued")


def bare() -> None:
    """Have a session of one's own, lose one's parent, and forget the environment."""
    os.setsid()
    ignore_term()
    if os.fork():
        os._exit(0)
    code = "import os, signal; os.write(1, b'bare\\n'); signal.pause()"
    os.execve(sys.executable, [sys.executable, "-S", "-c", code, sys.argv[1]], {})


KINDS: list[Callable[[], None]] = [plain, session, daemon, deaf, stopped, bare]

if __name__ == "__main__":
    for kind in KINDS:
        if os.fork() == 0:
            kind()
    withstand_term()
    rest("first")
