"""How often logs may be read: Cloud Logging's quota of a project, which many readers share."""

from __future__ import annotations

import asyncio
from collections import deque

from asyncsched.clock import Clock

__all__ = ["ReadBudget"]

USUAL = 60
"""Reads in a minute that Google allows a project."""

MINUTE = 60.0
MOST = 0.9
"""How much of the quota is used in any minute at most: others may read, too."""
SHARE = 0.75
"""How much of the quota is used at a steady pace ..."""
BURST = 0.15
"""... and how much of it at once after a pause: together less than the quota in any minute."""


class ReadBudget:
    """Gives turns, first come first served, so that a quota for each minute is kept.

    What Google says when it refuses a read is believed, until it says something else.

    Args:
        clock: Tells the time.
        limit: Reads in a minute.
    """

    def __init__(self, clock: Clock, limit: int = USUAL) -> None:
        self._clock = clock
        self._lock = asyncio.Lock()
        self._not_before = 0.0
        self._at = clock.monotonic()
        self._times: deque[float] = deque()  # of the turns in the last minute
        self.limit = max(1, limit)
        self.reads = 0
        self._left = self._burst

    @property
    def _burst(self) -> float:
        return max(1.0, self.limit * BURST)

    @property
    def _rate(self) -> float:
        """Reads a second."""
        return self.limit * SHARE / 60

    async def turn(self) -> None:
        """Wait for a turn; being cancelled leaves it to the next."""
        async with self._lock:
            while (pause := self._pause()) > 0:
                await self._clock.sleep(pause)
            self._left -= 1
            self.reads += 1
            self._times.append(self._clock.monotonic())

    def throttled(self, limit: int | None, retry_after: float | None = None) -> None:
        """Take note that a read was refused.

        Args:
            limit: The quota, as the refusal named it.
            retry_after: Seconds that it asked to wait.
        """
        self._pause()
        if limit is not None and limit > 0:
            self.limit = limit
        self._left = min(self._left, 0.0)
        # Others read from the same quota: what it gives back comes with time.
        self._not_before = self._clock.monotonic() + max(retry_after or 0.0, min(60 / self.limit, 15.0))

    def _pause(self) -> float:
        """Add what has come with time; return the seconds until a turn can be given."""
        now = self._clock.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        while self._times and now - self._times[0] >= MINUTE:
            self._times.popleft()
        most = max(1, int(self.limit * MOST))
        # When a smaller quota has been learned, what was read before counts against it.
        full = self._times[-most] + MINUTE - now if len(self._times) >= most else 0.0
        lacking = (1.0 - self._left) / self._rate if self._left < 1.0 else 0.0
        # A little more than is lacking: two numbers that differ by less than a clock tells are the same.
        return max(lacking + 1e-6 if lacking else 0.0, self._not_before - now, full)
