"""Two processes that are always busy: what a benchmark's claims have to hold beside."""

from __future__ import annotations

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
