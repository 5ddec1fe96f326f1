"""One call for all who want its answer at a time: of a service that is asked by many at once."""

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
    """A call that those join who ask while it can be joined; one who is cancelled leaves it to the others.

    Args:
        what: What is called, for errors and as its task's name.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._open: asyncio.Task[ResultT] | None = None
        self._running: set[asyncio.Task[ResultT]] = set()

    async def join(self, make: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
        """Return what the call returns; `make` makes it where there is none that can be joined.

        Raises:
            ClosedError: It was ended by `aclose`.
        """
        task = self._open
        if task is None or task.done():
            context = contextvars.Context()  # it must not carry that of the caller that came first
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
        """Let nobody join the call that is on its way: who asks from now on starts another one."""
        self._open = None

    async def aclose(self, timeout: float) -> None:
        """End what is on its way. Idempotent."""
        running = [*self._running]
        for task in running:
            task.cancel()
        await outlast(running, timeout)

    def _done(self, task: asyncio.Task[ResultT]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may be there any more to be told
