"""Share one request among concurrent callers that need the same answer."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from asyncsched._streams import for_one
from asyncsched._tasks import outlast
from asyncsched.errors import ClosedError, SchedulerError

__all__ = ["Asked"]

ResultT = TypeVar("ResultT")


class Asked:
    """Shares a pending answer among its callers; answers are not cached."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    async def once(self, question: str, ask: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
        """Return the answer; cancelling one caller does not cancel the request."""
        task: asyncio.Task[ResultT] | None = self._tasks.get(question)
        if task is None:
            task = asyncio.get_running_loop().create_task(
                ask(), name=f"kubernetes: {question}", context=contextvars.Context()
            )
            self._tasks[question] = task
            task.add_done_callback(lambda done: self._answered(question, done))
        await asyncio.wait([task])
        if task.cancelled():
            raise ClosedError("the connection to the cluster is closed", fix="create a new scheduler")
        try:
            return task.result()
        except SchedulerError as error:
            raise for_one(error) from error.__cause__

    async def close(self) -> None:
        """Cancel all pending requests."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await outlast(tasks, 5.0)

    def _answered(self, question: str, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(question, None)
        if not task.cancelled():
            task.exception()  # mark it as retrieved: all callers may be gone
