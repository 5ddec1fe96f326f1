"""Cancelling a coroutine at each of its suspension points in turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from typing import Any, Literal

import anyio

How = Literal["once", "again and again"]
"""As asyncio cancels (one await is interrupted), or as anyio does (every further await is, too)."""

MOST = 300


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended.

    Attributes:
        at: The number of the suspension point at which it was cancelled.
        result: What it returned, if it took no notice of that.
        error: What it raised; a CancelledError, or None.
    """

    at: int
    result: Any = None
    error: BaseException | None = None

    @property
    def cancelled(self) -> bool:
        return self.error is not None


class _Counted:
    """Awaits a coroutine, and calls back when it suspends for the n-th time."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], at: int, reached: Callable[[], None]) -> None:
        self._coroutine = coroutine
        self._left = at
        self._reached = reached

    def __await__(self) -> Generator[Any, Any, Any]:
        inner = self._coroutine.__await__()
        answer: Any = None
        error: BaseException | None = None
        while True:
            try:
                waits_for = inner.send(answer) if error is None else inner.throw(error)
            except StopIteration as end:
                return end.value
            self._left -= 1
            if self._left == 0:
                self._reached()
            answer = error = None
            try:
                answer = yield waits_for
            except BaseException as thrown:
                error = thrown


async def cancelled_at_each_await(
    make: Callable[[], Coroutine[Any, Any, Any]], *, how: How = "once"
) -> AsyncGenerator[Outcome]:
    """Run `make()` again and again, cancelled at its first suspension point, its second, and so on.

    Yields after each attempt, for the test to look at what is left; ends with the attempt that was never cancelled.
    """
    for at in range(1, MOST):
        outcome, reached = await _attempt(make(), at, how)
        if not reached:
            if outcome.error is not None:
                raise outcome.error
            assert at > 1, "it has no suspension point"
            return
        yield outcome
    raise AssertionError(f"it has more than {MOST} suspension points")


async def _attempt(coroutine: Coroutine[Any, Any, Any], at: int, how: How) -> tuple[Outcome, bool]:
    reached = False
    scope = anyio.CancelScope()

    def cancel() -> None:
        nonlocal reached
        reached = True
        # Once it waits, as somebody else would: a task that runs cannot be interrupted.
        asyncio.get_running_loop().call_soon(task.cancel if how == "once" else scope.cancel)

    async def run() -> Any:
        counted = _Counted(coroutine, at, cancel)
        if how == "once":
            return await counted
        with scope:
            return await counted
        raise asyncio.CancelledError

    task = asyncio.get_running_loop().create_task(_awaiting(run()))
    await asyncio.wait([task])
    if task.cancelled():
        return Outcome(at, error=asyncio.CancelledError()), reached
    error = task.exception()
    return (Outcome(at, error=error) if error is not None else Outcome(at, task.result())), reached


async def _awaiting(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
