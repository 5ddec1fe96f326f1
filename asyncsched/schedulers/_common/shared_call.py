"""Share one call among all callers that want its answer at the same time."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from asyncsched._streams import for_one
from asyncsched._tasks import outlast
from asyncsched.errors import ClosedError

__all__ = ["SharedCall"]

ResultT = TypeVar("ResultT")


class SharedCall(Generic[ResultT]):
    """A call that concurrent callers join; a cancelled caller does not cancel it for the others.

    Args:
        what: The name of the call, for errors and its task.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._open: asyncio.Task[ResultT] | None = None
        self._running: set[asyncio.Task[ResultT]] = set()

    async def join(self, make: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
        """Return the call's result; `make` creates the call if there is none to join.

        Raises:
            ClosedError: It was ended by `aclose`.
        """
        task = self._open
        if task is None or task.done():
            context = contextvars.Context()  # not the context of the first caller
            task = self._open = asyncio.get_running_loop().create_task(make(), name=self._what, context=context)
            self._running.add(task)
            task.add_done_callback(self._done)
        await asyncio.wait([task])
        if task.cancelled():
            raise ClosedError(f"{self._what} was stopped")
        if (error := task.exception()) is not None:
            raise for_one(error) from error.__cause__
        return task.result()

    def part(self) -> None:
        """Stop new callers from joining the running call; the next caller starts another one."""
        self._open = None

    async def aclose(self, timeout: float) -> None:
        """End the running call. Idempotent."""
        running = [*self._running]
        for task in running:
            task.cancel()
        await outlast(running, timeout)

    def _done(self, task: asyncio.Task[ResultT]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # mark it as retrieved: no caller may be left
