"""The worker's event loop: epoll, timers, and short sleeps while many small writes come in."""

from __future__ import annotations

import itertools
import select
import time

from . import TYPE_CHECKING
from .bare import heappop, heappush

if TYPE_CHECKING:
    from collections.abc import Callable

BUSY_ROUNDS = 20
BUSY_WINDOW = 0.010
NAP = 0.001
LARGE = 16 * 1024
LONGEST_POLL = 3600.0
"""Longest timeout of a poll, in seconds; the kernel refuses a timeout of several weeks."""


class Loop:
    """Calls handlers when their descriptors are ready, and callbacks when their time has come, until `stop`.

    A handler returns how many bytes it has read. Rounds with only small reads are followed by a short sleep, so that
    a program that writes single lines costs a seventh of the CPU; large reads never wait.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[int], int]] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._stopped = False
        self._rounds = 0
        self._since = time.monotonic()
        self.after_round: Callable[[], None] = lambda: None

    def add(self, fd: int, handler: Callable[[int], int], mask: int = select.EPOLLIN) -> None:
        """Call ``handler(mask)`` whenever the descriptor is ready."""
        self._handlers[fd] = handler
        self._epoll.register(fd, mask)

    def modify(self, fd: int, mask: int) -> None:
        """Change what a descriptor is watched for."""
        self._epoll.modify(fd, mask)

    def remove(self, fd: int) -> None:
        """Stop watching a descriptor; call it before closing the descriptor."""
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def call_later(self, delay: float, callback: Callable[[], None]) -> None:
        """Call back in `delay` seconds of the monotonic clock."""
        heappush(self._timers, (time.monotonic() + delay, next(self._order), callback))

    def stop(self) -> None:
        """Leave `run` after this round."""
        self._stopped = True

    def run(self) -> None:
        """Run until `stop` is called."""
        while not self._stopped:
            largest = 0
            for fd, mask in self._epoll.poll(self._timeout()):
                handler = self._handlers.get(fd)
                if handler is not None:
                    largest = max(largest, handler(mask))
            self._run_timers()
            self.after_round()
            self._maybe_nap(largest)

    def _timeout(self) -> float:
        return min(max(0.0, self._timers[0][0] - time.monotonic()), LONGEST_POLL) if self._timers else -1

    def _run_timers(self) -> None:
        now = time.monotonic() if self._timers else 0
        while self._timers and self._timers[0][0] <= now:
            heappop(self._timers)[2]()

    def _maybe_nap(self, largest: int) -> None:
        self._rounds += 1
        if self._rounds < BUSY_ROUNDS:
            return
        now = time.monotonic()
        elapsed = now - self._since
        if elapsed < BUSY_WINDOW * self._rounds / BUSY_ROUNDS and largest <= LARGE:
            time.sleep(NAP)
        if elapsed > BUSY_WINDOW:
            self._since = now
            self._rounds = 0
