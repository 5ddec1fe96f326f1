"""How long an iteration of the event loop may be busy with log lines."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections import deque

__all__ = ["BUDGET", "LoopBudget"]

BUDGET = 0.004
"""Seconds after which a consumer yields to its loop."""

MOST = 256
"""Waiters that go on in one iteration, at most."""


class LoopBudget:
    """The time that has passed in the present iteration of one loop since lines were first handled in it.

    It belongs to a loop and not to a stream: asyncio runs every ready task in one iteration, so 64 streams with a
    budget of their own each would hold the loop for 64 budgets. Those who find it used up stand in one line, and
    some of them go on in each iteration: nobody is passed over, however greedy the others are. How many depends on
    how long the iterations before have lasted: one if each uses a budget up, hundreds if they have little to do.

    Attributes:
        iteration: Counts the iterations in which lines were handled.
    """

    def __init__(self) -> None:
        # It must not hold the loop, which holds it: it would keep every loop alive for ever.
        self._began = 0.0
        self._marked = False
        self._released = 1  # how many go on in the next iteration
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._put_back: deque[asyncio.Future[None]] = deque()  # who were released, and found it used up again
        self._has_gone_on = True  # somebody who was released for this iteration
        self.iteration = 0

    def begin(self) -> None:
        """Note that lines are being handled in this iteration."""
        if not self._marked:
            self._marked = True
            self._began = time.perf_counter()
            asyncio.get_running_loop().call_soon(
                self._end
            )  # runs in the next iteration, before whoever yields from now on

    def _end(self) -> None:
        self._marked = False
        self.iteration += 1
        self._waiting.extendleft(reversed(self._put_back))
        self._put_back.clear()
        if not self._waiting:
            return
        short = time.perf_counter() - self._began < BUDGET / 2
        self._released = min(self._released * 2, MOST) if short else max(self._released // 2, 1)
        self.begin()  # first: the next iteration has to be told from this one before anybody goes on in it
        self._has_gone_on = False
        for _ in range(min(self._released, len(self._waiting))):
            waiter = self._waiting.popleft()
            if not waiter.done():  # it is, if its task was cancelled
                waiter.set_result(None)

    def spent(self, now: float) -> bool:
        """Return whether this iteration has lasted too long by `now`, a time of `perf_counter`."""
        return self._marked and now - self._began > BUDGET

    async def breathe(self) -> None:
        """Let the loop run its other tasks if this iteration has lasted too long."""
        line = self._waiting
        while self.spent(time.perf_counter()):
            waiter = asyncio.get_running_loop().create_future()
            line.append(waiter)
            await waiter
            if not self._has_gone_on:
                self._has_gone_on = True  # one goes on in any case, however much others do with the iteration
                break
            line = self._put_back
        self.begin()


# One entry for each living loop, gone with it: the state of a loop, which offers no place of its own for it.
_budgets: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopBudget] = weakref.WeakKeyDictionary()


def budget_of(loop: asyncio.AbstractEventLoop) -> LoopBudget:
    """Return the one budget of a loop."""
    budget = _budgets.get(loop)
    if budget is None:
        budget = _budgets[loop] = LoopBudget()
    return budget
