"""Limit the rate of calls to a service, shared by all its callers in this process."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import TypeVar

from asyncsched.clock import Clock, TimerHandle

__all__ = ["Pacer", "RateLimits"]

SharedT = TypeVar("SharedT")

#: Throttled calls within this many seconds halve the rate only once.
_ONE_CUT = 1.0
_CLEAN = 10.0
_STEP = 0.5


class Pacer:
    """Gives turns, first come first served, at a rate that adapts to the service.

    A throttled call halves the rate; every ten seconds without one raise it by half a call per second, up to the
    initial rate. It belongs to the loop of the tasks that wait for turns.

    Args:
        rate: The initial and highest rate, in turns per second.
        clock: The time source.
        lowest: The lowest rate.
        burst: How many turns may be taken at once after a pause, like a full token bucket.
    """

    def __init__(self, rate: float, clock: Clock, *, lowest: float = 0.2, burst: int = 1) -> None:
        self.rate = rate
        self._burst = burst
        self._highest, self._lowest = rate, min(lowest, rate)
        self._clock = clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._next = 0.0  # the time of the next turn
        self._clean_since = 0.0
        self._cut_at = float("-inf")
        self._timer: TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Pacer {self.rate:g}/s, {len(self._waiting)} waiting>"

    async def turn(self) -> None:
        """Wait for a turn; a cancelled waiter leaves its turn to the next."""
        if not self._waiting and self._left() <= 0:
            self._take()
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._arm()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # given in the same step, but not used
                self._next -= 1 / self.rate
                self._arm()
            raise

    def throttled(self, retry_after: float | None = None) -> None:
        """Record that the service throttled a call; `retry_after` is the pause that it asked for."""
        now = self._clock.monotonic()
        if now - self._cut_at >= _ONE_CUT:
            self.rate = max(self._lowest, self.rate / 2)
            self._cut_at = self._clean_since = now
        self._next = max(self._next, now + (retry_after or 1 / self.rate) + self._ahead())

    def _ahead(self) -> float:
        """Return how many seconds early turns may be taken."""
        return (self._burst - 1) / self.rate

    def _left(self) -> float:
        """Return the seconds until the next turn."""
        return self._next - self._ahead() - self._clock.monotonic()

    def _take(self) -> None:
        now = self._clock.monotonic()
        if self.rate < self._highest and now - self._clean_since >= _CLEAN:
            self.rate = min(self._highest, self.rate + _STEP)
            self._clean_since = now
        self._next = max(self._next, now) + 1 / self.rate

    def _arm(self) -> None:
        if self._timer is None and self._waiting:
            self._timer = self._clock.call_later(max(0.0, self._left()), self._give)

    def _give(self) -> None:
        self._timer = None
        while self._waiting and self._left() <= 1e-9:
            turn = self._waiting.popleft()
            if not turn.done():
                self._take()
                turn.set_result(None)
        self._arm()


class RateLimits:
    """The pacers of all calls that share a service's limits, such as an account in a region, or a project.

    Pass the same `RateLimits` to several schedulers to share the limits; by default each scheduler has its own. It
    belongs to one event loop.

    Args:
        scale: Multiplier for the default rates: below 1 leaves quota for other clients, above 1 if the service raised
            your limits.
    """

    def __init__(self, *, scale: float = 1.0) -> None:
        self.scale = scale
        self._shared: dict[Hashable, object] = {}

    def pacer(self, key: Hashable, rate: float, clock: Clock) -> Pacer:
        """Return the pacer of `key`, created on first use; the first call sets its rate."""
        return self.shared(key, Pacer, lambda: Pacer(rate * self.scale, clock))

    def shared(self, key: Hashable, kind: type[SharedT], make: Callable[[], SharedT]) -> SharedT:
        """Return the shared object for the limit `key`, created on first use; for limits that are not rates.

        Args:
            key: The limit.
            kind: The type of the object.
            make: Creates the object.
        """
        found = self._shared.get((kind, key))
        if not isinstance(found, kind):
            found = self._shared[kind, key] = make()
        return found
