"""Limit how long log lines may hold one iteration of the event loop."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections import deque

__all__ = ["BUDGET", "LoopBudget"]

BUDGET = 0.004
"""Seconds after which a consumer yields to its loop."""

MOST = 256
"""Most waiters to resume in one iteration."""


class LoopBudget:
    """The time budget for log lines in each iteration of one loop.

    The budget belongs to a loop, not to a stream: asyncio runs every ready task in one iteration, so 64 streams with
    separate budgets would hold the loop for 64 budgets. Tasks that find the budget used up wait in a queue, and some
    resume in each iteration, so no task starves. Their number depends on how long the last iterations took: one if
    each uses the whole budget, hundreds if they are short.

    Attributes:
        iteration: Counts the iterations in which lines were handled.
    """

    def __init__(self) -> None:
        # No reference to the loop: the loop's entry refers to this, and neither would ever be freed.
        self._began = 0.0
        self._marked = False
        self._released = 1  # how many resume in the next iteration
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._put_back: deque[asyncio.Future[None]] = deque()  # begun, or resumed when the budget was used up again
        self._has_gone_on = True  # whether a task that was resumed in this iteration has run
        self.iteration = 0

    def begin(self) -> None:
        """Start the budget of this iteration, if it has not started."""
        if not self._marked:
            self._marked = True
            self._began = time.perf_counter()
            asyncio.get_running_loop().call_soon(
                self._end
            )  # runs in the next iteration, before tasks that yield from now on

    def _end(self) -> None:
        self._marked = False
        self.iteration += 1
        self._waiting.extendleft(reversed(self._put_back))
        self._put_back.clear()
        if not self._waiting:
            return
        short = time.perf_counter() - self._began < BUDGET / 2
        self._released = min(self._released * 2, MOST) if short else max(self._released // 2, 1)
        self.begin()  # first, so that the new iteration has started before any task resumes in it
        self._has_gone_on = False
        for _ in range(min(self._released, len(self._waiting))):
            waiter = self._waiting.popleft()
            if not waiter.done():  # done if its task was cancelled
                waiter.set_result(None)

    def spent(self, now: float) -> bool:
        """Return whether this iteration has lasted too long by `now`, a time of `perf_counter`."""
        return self._marked and now - self._began > BUDGET

    async def breathe(self, *, begun: bool = False) -> None:
        """Let the loop run its other tasks if this iteration has lasted too long.

        Args:
            begun: Whether this is the rest of work that has had a turn. Its end does not wait for all others again:
                it continues before those that have not begun.
        """
        line = self._put_back if begun else self._waiting
        while self.spent(time.perf_counter()):
            waiter = asyncio.get_running_loop().create_future()
            line.append(waiter)
            await waiter
            if not self._has_gone_on:
                self._has_gone_on = True  # at least one task resumes per iteration, whatever the others use
                break
            line = self._put_back
        self.begin()


# One entry per living loop, dropped with the loop.
_budgets: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopBudget] = weakref.WeakKeyDictionary()


def budget_of(loop: asyncio.AbstractEventLoop) -> LoopBudget:
    """Return the one budget of a loop."""
    budget = _budgets.get(loop)
    if budget is None:
        budget = _budgets[loop] = LoopBudget()
    return budget
