"""A clock that does not wait."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections.abc import Callable
from types import TracebackType

from typing_extensions import override

from asyncsched._tasks import outlast
from asyncsched.clock import Clock

__all__ = ["VirtualClock"]

SETTLE = 40
"""Iterations of the loop after which everything that could go on is taken to have done so."""


class VirtualClock(Clock):
    """Time that passes only when it is told to, or when nothing else is left to do.

    By hand: ``await clock.advance(30)`` makes every call that falls due in those seconds, in its order, and lets
    the loop settle after each. By itself: inside ``async with clock:`` it jumps to the next due call whenever the
    loop has nothing to do. That is right for what happens in this process alone: it does not see that an answer
    from a socket or a child is on its way.
    """

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._start_ns = int(start * 1e9)
        self._now = 0.0
        self._timers: list[_Timer] = []
        self._order = itertools.count()
        self._added = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @override
    def time_ns(self) -> int:
        return self._start_ns + round(self._now * 1e9)

    @override
    def monotonic(self) -> float:
        return self._now

    @override
    def call_later(self, delay: float, callback: Callable[[], None]) -> _Timer:
        timer = _Timer(self._now + max(delay, 0.0), next(self._order), callback)
        if delay != math.inf:
            heapq.heappush(self._timers, timer)
            self._added.set()
        return timer

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass, making the calls that fall due."""
        end = self._now + seconds
        await settle()
        while self._timers and self._timers[0].due <= end:
            self._fire()
            await settle()
        self._now = max(self._now, end)

    def _fire(self) -> None:
        timer = heapq.heappop(self._timers)
        if not timer.cancelled:
            self._now = max(self._now, timer.due)
            timer.callback()

    async def __aenter__(self) -> VirtualClock:
        self._task = asyncio.create_task(self._run(), name="virtual clock")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await outlast([self._task], 10.0)
            self._task = None

    async def _run(self) -> None:
        while True:
            await settle()
            while self._timers and self._timers[0].cancelled:
                heapq.heappop(self._timers)
            if self._timers:
                self._fire()
            else:
                self._added.clear()
                await self._added.wait()


class _Timer:
    """A call that falls due."""

    __slots__ = ("callback", "cancelled", "due", "order")

    def __init__(self, due: float, order: int, callback: Callable[[], None]) -> None:
        self.due = due
        self.order = order
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True

    def __lt__(self, other: _Timer) -> bool:
        return (self.due, self.order) < (other.due, other.order)


async def settle() -> None:
    """Let the loop run until everything that is ready has had its turn."""
    for _ in range(SETTLE):
        await asyncio.sleep(0)
