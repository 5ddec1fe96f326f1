"""How long an iteration of the event loop may be busy with log lines."""

from __future__ import annotations

import asyncio
import time
import weakref

__all__ = ["BUDGET", "LoopBudget"]

BUDGET = 0.004
"""Seconds after which a consumer yields to its loop."""


class LoopBudget:
    """The time that has passed in the present iteration of one loop since lines were first handled in it.

    It belongs to a loop and not to a stream: asyncio runs every ready task in one iteration, so 64 streams with a
    budget of their own each would hold the loop for 64 budgets.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._call_soon = loop.call_soon
        self._began = 0.0
        self._marked = False

    def begin(self) -> None:
        """Note that lines are being handled in this iteration."""
        if not self._marked:
            self._marked = True
            self._began = time.perf_counter()
            self._call_soon(self._end)  # runs in the next iteration, before whoever yields from now on

    def _end(self) -> None:
        self._marked = False

    async def breathe(self) -> None:
        """Let the loop run its other tasks if this iteration has lasted too long; once, so that everyone goes on."""
        if self._marked and time.perf_counter() - self._began > BUDGET:
            await asyncio.sleep(0)
        self.begin()


# One entry for each living loop, gone with it: the state of a loop, which offers no place of its own for it.
_budgets: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopBudget] = weakref.WeakKeyDictionary()


def budget_of(loop: asyncio.AbstractEventLoop) -> LoopBudget:
    """Return the one budget of a loop."""
    budget = _budgets.get(loop)
    if budget is None:
        budget = _budgets[loop] = LoopBudget(loop)
    return budget
