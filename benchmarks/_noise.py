"""Two processes that are always busy: what a benchmark's claims have to hold beside, and a way to come before them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

LOOPS = 2

# It ends by itself, too, when the process that has started it is no more, however that ended.
BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n for _ in range(1_000_000): pass"


@contextmanager
def noise(loops: int = LOOPS) -> Iterator[list[int]]:
    """Keep so many processes busy, and end them afterwards; gives their ids."""
    command = [sys.executable, "-c", BUSY, str(os.getpid())]
    # In groups of their own: a terminal's Ctrl-C reaches whoever has started them, and they are ended from there.
    started = [subprocess.Popen(command, process_group=0, stdin=subprocess.DEVNULL) for _ in range(loops)]
    try:
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


@contextmanager
def before_others() -> Iterator[None]:
    """Let this thread, and the processes that it starts, have a core whenever they want one, where we may ask for that.

    It is for what works in several threads and processes, one after the other, and is claimed to take a time: of those
    that have ended nobody can tell how long they have waited for a core.
    """
    policy, priority = os.sched_getscheduler(0), os.sched_getparam(0)
    with contextlib.suppress(PermissionError):  # an ordinary user may not
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, priority)
