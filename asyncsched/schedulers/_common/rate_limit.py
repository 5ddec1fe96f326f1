"""Calling a service at a pace that it accepts, together with everybody else in this process who calls it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import TypeVar

from asyncsched.clock import Clock, TimerHandle

__all__ = ["Pacer", "RateLimits"]

SharedT = TypeVar("SharedT")

#: A cut counts once for all calls that were on their way together.
_ONE_CUT = 1.0
_CLEAN = 10.0
_STEP = 0.5


class Pacer:
    """Gives turns, first come first served, at a rate that follows what the service tolerates.

    A throttled call halves the rate; each ten seconds without one raise it by half a call a second, up to
    where it started. It belongs to the loop on which turns are waited for.

    Args:
        rate: Turns a second, to begin with and at most.
        clock: Tells the time.
        lowest: The rate below which it does not fall.
        burst: How many turns may be taken at once after a rest, as from a bucket of tokens that is full.
    """

    def __init__(self, rate: float, clock: Clock, *, lowest: float = 0.2, burst: int = 1) -> None:
        self.rate = rate
        self._burst = burst
        self._highest, self._lowest = rate, min(lowest, rate)
        self._clock = clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._next = 0.0  # when the next turn may be given
        self._clean_since = 0.0
        self._cut_at = float("-inf")
        self._timer: TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Pacer {self.rate:g}/s, {len(self._waiting)} waiting>"

    async def turn(self) -> None:
        """Wait for a turn; who is cancelled while waiting leaves its turn to the next."""
        if not self._waiting and self._left() <= 0:
            self._take()
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._arm()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # It was given in the same step, and nobody uses it.
                self._next -= 1 / self.rate
                self._arm()
            raise

    def throttled(self, retry_after: float | None = None) -> None:
        """Note that the service wants fewer calls; `retry_after` is the pause that it named."""
        now = self._clock.monotonic()
        if now - self._cut_at >= _ONE_CUT:
            self.rate = max(self._lowest, self.rate / 2)
            self._cut_at = self._clean_since = now
        self._next = max(self._next, now + (retry_after or 1 / self.rate) + self._ahead())

    def _ahead(self) -> float:
        """Return the seconds by which turns may be taken before their time."""
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
    """The pacers of everything that shares one service's limits: an account in a region, or a project.

    Whoever makes several schedulers gives all of them the same `RateLimits`; a scheduler by itself has its own.
    It belongs to one event loop.

    Args:
        scale: Times the usual rates: less than 1 leaves the rest to others who call from elsewhere, more is for who has
            been granted higher limits.
    """

    def __init__(self, *, scale: float = 1.0) -> None:
        self.scale = scale
        self._shared: dict[Hashable, object] = {}

    def pacer(self, key: Hashable, rate: float, clock: Clock) -> Pacer:
        """Return the pacer of `key`, made at its first use; what came first decides its rate."""
        return self.shared(key, Pacer, lambda: Pacer(rate * self.scale, clock))

    def shared(self, key: Hashable, kind: type[SharedT], make: Callable[[], SharedT]) -> SharedT:
        """Return what keeps to the limit `key`, made at its first use: for limits that are not a rate.

        Args:
            key: Which limit it is.
            kind: What keeps to it.
            make: Makes one.
        """
        found = self._shared.get((kind, key))
        if not isinstance(found, kind):
            found = self._shared[kind, key] = make()
        return found
