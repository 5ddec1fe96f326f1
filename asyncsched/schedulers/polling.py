"""The pace of a feed: as its budget allows, slower after failures, and respecting pauses that the service asks for."""

from __future__ import annotations

from asyncsched.clock import Clock
from asyncsched.errors import ThrottledError
from asyncsched.logs.backoff import pause_after

__all__ = ["FeedPace"]

LONGEST_BACKOFF = 60.0
MOST_STRETCH = 64.0
RESERVE = 1.02
"""How much longer the time between two calls is than the budget asks: nothing precedes the first call of a watch."""


class FeedPace:
    """Decides how long to wait before the next call, the next sweep and the next try.

    Args:
        clock: The time source.
        calls_per_second: Most calls per second of a sweep.
        shortest: Fewest seconds between two sweeps.
    """

    def __init__(self, clock: Clock, *, calls_per_second: float, shortest: float) -> None:
        self._clock = clock
        self._gap = 1.0 / calls_per_second
        self._shortest = shortest
        self._stretch = 1.0  # grows while the service throttles
        self._not_before = 0.0  # the end of a pause that the service asked for
        self._called_at = 0.0  # the start of the last call
        self.sweep_calls = 1
        """The number of calls of the last sweep."""

    @property
    def interval(self) -> float:
        """Seconds between two sweeps."""
        return max(self._shortest, self.sweep_calls * self._gap) * self._stretch

    def backoff(self, failures: int) -> float:
        """Return the seconds to wait after this many failures in a row."""
        return pause_after(failures, shortest=self._shortest, longest=LONGEST_BACKOFF) if failures else 0.0

    def worked(self) -> None:
        """Record a success."""
        self._stretch = max(1.0, self._stretch * 0.9)

    def throttled(self, error: ThrottledError) -> None:
        """Record that the service throttled a call."""
        self._stretch = min(self._stretch * 2, MOST_STRETCH)
        self._not_before = self._clock.monotonic() + (error.retry_after or 0.0)

    async def before_calls(self) -> None:
        """Wait for the rest of a pause that the service asked for; then the first call begins."""
        if (left := self._not_before - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)
        self._called_at = self._clock.monotonic()

    async def between_calls(self) -> None:
        """Wait until the next call of a sweep may begin; the time that the last one took counts."""
        due = self._called_at + RESERVE * self._gap * self._stretch
        await self._clock.sleep(due - self._clock.monotonic())
        self._called_at = self._clock.monotonic()
