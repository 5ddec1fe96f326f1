"""Clocks that stand while threads wait for a core: what other programs take of the machine is left out."""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_right
from collections.abc import Callable


class Waits:
    """How long threads have waited for a core until now; only differences count.

    The files stay open: to open one anew took as long as to read a score of lines.

    Args:
        pids: The processes whose first threads are meant, besides the thread that makes it.
    """

    def __init__(self, *pids: int) -> None:
        self._fds = [os.open(f"/proc/{of}/schedstat", os.O_RDONLY | os.O_CLOEXEC) for of in ("thread-self", *pids)]

    def __call__(self) -> int:
        """Return nanoseconds."""
        return sum(int(os.pread(fd, 100, 0).split()[1]) for fd in self._fds)

    def __del__(self) -> None:
        for fd in self._fds:
            os.close(fd)


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.waits = Waits()


_own = _OfThread()


def undisturbed() -> float:
    """Return seconds in which this thread ran, or waited for something other than a core; only differences count."""
    return time.perf_counter() - _own.waits() / 1e9


class Arrivals:
    """How late messages arrive that carry the time at which they were sent, as if no other program wanted a core.

    Args:
        waits: How long the threads between sender and receiver have waited for a core, until now. What they waited
            between the last arrival before a message was sent and its own is left out.

    Attributes:
        late: By how many nanoseconds each message was late.
    """

    def __init__(self, waits: Callable[[], int]) -> None:
        self.late: list[int] = []
        self._waits = waits
        self._times = [time.time_ns()]
        self._waited = [waits()]

    def take(self, sent: int) -> None:
        """Take a message that has arrived now and was sent at `sent`, in nanoseconds of `time.time_ns`."""
        now, waited = time.time_ns(), self._waits()
        before = max(bisect_right(self._times, sent) - 1, 0)
        self.late.append(now - sent - (waited - self._waited[before]))
        self._times.append(now)
        self._waited.append(waited)
