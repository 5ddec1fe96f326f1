"""What will happen, in order of time. Nothing happens by itself: whoever looks brings it up to date."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable


class Event:
    """Something that will happen, unless it is cancelled before."""

    __slots__ = ("action", "when")

    def __init__(self, when: float, action: Callable[[], None]) -> None:
        self.when = when
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class Timeline:
    """A discrete event simulation on any clock.

    Inside an action `now` is the moment for which the action was planned, so that what a job did does not
    depend on when somebody asked. The lock is for nodes that live in threads.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.lock = threading.RLock()
        self._clock = clock
        self._ahead = 0.0
        self._present: float | None = None
        self._events: list[tuple[float, int, Event]] = []
        self._order = itertools.count()
        #: How much has happened so far: as long as it stays the same, an answer does too.
        self.happened = 0

    @property
    def now(self) -> float:
        return self._clock() + self._ahead if self._present is None else self._present

    @property
    def now_ms(self) -> int:
        return round(self.now * 1000)

    def after(self, delay: float, action: Callable[[], None]) -> Event:
        event = Event(self.now + delay, action)
        with self.lock:
            heapq.heappush(self._events, (event.when, next(self._order), event))
        return event

    def skip(self, seconds: float) -> None:
        """Let time pass at once."""
        self._ahead += seconds
        self.catch_up()

    def catch_up(self) -> None:
        """Let everything happen that is due."""
        with self.lock:
            if self._present is not None:
                return  # An action that looks at the clock does not start the next one inside itself.
            try:
                while self._events and self._events[0][0] <= self._clock() + self._ahead:
                    self._present, _, event = heapq.heappop(self._events)
                    if event.action is not None:
                        self.happened += 1
                        event.action()
            finally:
                self._present = None
