"""A clock that jumps ahead instead of waiting."""

from __future__ import annotations

import asyncio
import gc
import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Collection
from types import TracebackType
from typing import cast

from asyncsched._tasks import outlast
from asyncsched._typing import override
from asyncsched.clock import Clock

__all__ = ["VirtualClock"]

SETTLE = 40
"""Iterations in which the loop runs nothing else, after which everything that could run has run."""

MOST = 25 * SETTLE
"""Iterations after which time moves in any case: a task may yield until some time has come."""


class VirtualClock(Clock):
    """A clock that moves only by `advance`, or when nothing else is left to run.

    By hand: ``await clock.advance(30)`` makes every call that falls due in those seconds, in order, and lets the loop
    settle after each.

    By itself: inside ``async with clock:`` it jumps to the next timer whenever the loop has nothing to do. Only timers
    that wait for time to pass (`sleep`, `call_later`, `timeout`) move it. It does not jump to a `deadline`, because the
    guarded work may need only real time to finish (a thread, a socket, a child process), unless the guarded task itself
    sleeps by this clock. To see a deadline expire, use `advance`.
    """

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._start_ns = int(start * 1e9)
        self._now = 0.0
        self._timers: list[_Timer] = []
        self._order = itertools.count()
        self._asleep: set[asyncio.Task[object] | None] = set()
        self._changes = 0  # timers that were created, have fired or were cancelled
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @override
    def time_ns(self) -> int:
        return self._start_ns + round(self._now * 1e9)

    @override
    def monotonic(self) -> float:
        return self._now

    @override
    def call_later(self, delay: float, callback: Callable[[], None]) -> _Timer:
        return self._add(delay, callback, bounds=None)

    @override
    def call_at_latest(self, delay: float, callback: Callable[[], None]) -> _Timer:
        return self._add(delay, callback, bounds=asyncio.current_task())

    def _add(self, delay: float, callback: Callable[[], None], bounds: asyncio.Task[object] | None) -> _Timer:
        timer = _Timer(self._now + max(delay, 0.0), next(self._order), callback, self._note, bounds)
        if delay != math.inf:
            heapq.heappush(self._timers, timer)
            self._note()
        return timer

    def _note(self) -> None:
        self._changes += 1
        self._changed.set()

    @override
    async def sleep(self, delay: float) -> None:
        task = asyncio.current_task()
        self._asleep.add(task)
        self._note()
        try:
            await super().sleep(delay)
        finally:
            self._asleep.discard(task)

    async def advance(self, seconds: float) -> None:
        """Move time by `seconds`, making the calls that fall due, deadlines included."""
        end = self._now + seconds
        await self._settle()
        while (timer := self._next()) is not None and timer.due <= end:
            self._fire()
            await self._settle()
        self._now = max(self._now, end)

    def _next(self) -> _Timer | None:
        while self._timers and self._timers[0].cancelled:
            heapq.heappop(self._timers)
        return self._timers[0] if self._timers else None

    def _fire(self) -> None:
        timer = heapq.heappop(self._timers)
        self._now = max(self._now, timer.due)
        timer.callback()
        self._note()

    async def _settle(self) -> None:
        """Let the loop run until everything that is ready has run."""
        ready = _ready_calls(asyncio.get_running_loop())
        seen, quiet = self._changes, 0
        for _ in range(MOST):
            await asyncio.sleep(0)
            quiet = quiet + 1 if seen == self._changes and not ready else 0
            seen = self._changes
            if quiet == SETTLE:
                return

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
            self._changed.clear()
            await self._settle()
            timer = self._next()
            if timer is not None and (timer.bounds is None or timer.bounds in self._asleep):
                self._fire()
            else:
                await self._changed.wait()


def _ready_calls(loop: asyncio.AbstractEventLoop) -> Collection[object]:
    """Return the loop's queue of ready calls, live and not a copy; empty if it cannot be found.

    Loops have no public name for it, but each has exactly one deque: asyncio's loop in its attributes, uvloop's in a
    structure that only the garbage collector can see.
    """
    queues = [cast("deque[object]", held) for held in gc.get_referents(loop) if isinstance(held, deque)]
    return queues[0] if len(queues) == 1 else ()


class _Timer:
    """A scheduled call; `bounds` is the task that it is a deadline for."""

    __slots__ = ("_note", "bounds", "callback", "cancelled", "due", "order")

    def __init__(
        self,
        due: float,
        order: int,
        callback: Callable[[], None],
        note: Callable[[], None],
        bounds: asyncio.Task[object] | None,
    ) -> None:
        self.due = due
        self.order = order
        self.callback = callback
        self.bounds = bounds
        self.cancelled = False
        self._note = note

    def cancel(self) -> None:
        if not self.cancelled:
            self.cancelled = True
            self._note()

    def __lt__(self, other: _Timer) -> bool:
        return (self.due, self.order) < (other.due, other.order)
