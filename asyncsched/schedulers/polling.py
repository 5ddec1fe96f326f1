"""When a feed asks: as often as its budget allows, less often while it fails, never when the service wants a pause."""

from __future__ import annotations

from asyncsched.clock import Clock
from asyncsched.errors import ThrottledError
from asyncsched.logs.backoff import pause_after

__all__ = ["FeedPace"]

LONGEST_BACKOFF = 60.0
MOST_STRETCH = 64.0


class FeedPace:
    """Tells how long to wait before the next call, the next sweep and the next try.

    Args:
        clock: Tells the time.
        calls_per_second: How many calls a sweep may make in a second.
        shortest: The least number of seconds between two sweeps.
    """

    def __init__(self, clock: Clock, *, calls_per_second: float, shortest: float) -> None:
        self._clock = clock
        self._gap = 1.0 / calls_per_second
        self._shortest = shortest
        self._stretch = 1.0  # grows while the service throttles
        self._not_before = 0.0  # the service has asked for a pause until then
        self.sweep_calls = 1
        """The calls that the last sweep took."""

    @property
    def interval(self) -> float:
        """Seconds between two sweeps."""
        return max(self._shortest, self.sweep_calls * self._gap) * self._stretch

    def backoff(self, failures: int) -> float:
        """Return the seconds to wait after so many failures in a row."""
        return pause_after(failures, shortest=self._shortest, longest=LONGEST_BACKOFF) if failures else 0.0

    def worked(self) -> None:
        """Take note of a success."""
        self._stretch = max(1.0, self._stretch * 0.9)

    def throttled(self, error: ThrottledError) -> None:
        """Take note that the service asks for fewer calls."""
        self._stretch = min(self._stretch * 2, MOST_STRETCH)
        self._not_before = self._clock.monotonic() + (error.retry_after or 0.0)

    async def between_calls(self) -> None:
        """Wait as long as two calls of one sweep have to lie apart."""
        await self._clock.sleep(self._gap * self._stretch)

    async def asked_pause(self) -> None:
        """Wait for what is left of a pause that the service has asked for."""
        if (left := self._not_before - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)
