"""Pace reads of logs within Cloud Logging's quota for a project, shared by all readers."""

from __future__ import annotations

import asyncio
from collections import deque

from asyncsched.clock import Clock

__all__ = ["ReadBudget"]

USUAL = 60
"""Reads per minute that Google allows a project by default."""

MINUTE = 60.0
MOST = 0.9
"""The largest share of the quota used in any minute; the rest is for other readers."""
SHARE = 0.75
"""The share of the quota used at a steady pace."""
BURST = 0.15
"""The share of the quota used at once after a pause; with `SHARE` less than the quota in any minute."""


class ReadBudget:
    """Grants reads, first come first served, within a quota per minute.

    A quota that Google reports when it refuses a read replaces the limit.

    Args:
        clock: The time source.
        limit: Reads per minute.
    """

    def __init__(self, clock: Clock, limit: int = USUAL) -> None:
        self._clock = clock
        self._lock = asyncio.Lock()
        self._not_before = 0.0
        self._at = clock.monotonic()
        self._times: deque[float] = deque()  # of the reads in the last minute
        self.limit = max(1, limit)
        self.reads = 0
        self._left = self._burst

    @property
    def _burst(self) -> float:
        return max(1.0, self.limit * BURST)

    @property
    def _rate(self) -> float:
        """Reads per second."""
        return self.limit * SHARE / 60

    async def turn(self) -> None:
        """Wait for a turn; if cancelled, the turn goes to the next caller."""
        async with self._lock:
            while (pause := self._pause()) > 0:
                await self._clock.sleep(pause)
            self._left -= 1
            self.reads += 1
            self._times.append(self._clock.monotonic())

    def throttled(self, limit: int | None, retry_after: float | None = None) -> None:
        """Record that a read was refused.

        Args:
            limit: The quota in the refusal, if any.
            retry_after: The pause in seconds that it asked for.
        """
        self._pause()
        if limit is not None and limit > 0:
            self.limit = limit
        self._left = min(self._left, 0.0)
        # Others use the same quota, which refills over time.
        self._not_before = self._clock.monotonic() + max(retry_after or 0.0, min(60 / self.limit, 15.0))

    def _pause(self) -> float:
        """Refill the budget; return the seconds until the next turn."""
        now = self._clock.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        while self._times and now - self._times[0] >= MINUTE:
            self._times.popleft()
        most = max(1, int(self.limit * MOST))
        # Earlier reads count against a smaller quota that was learned later.
        full = self._times[-most] + MINUTE - now if len(self._times) >= most else 0.0
        lacking = (1.0 - self._left) / self._rate if self._left < 1.0 else 0.0
        # Slightly more than the shortage, because the clock cannot resolve very small differences.
        return max(lacking + 1e-6 if lacking else 0.0, self._not_before - now, full)
