"""Questions about the server that are asked once for all who need the answer at a time."""

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
    """Has callers share an answer while it is on its way; it is not kept afterwards."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    async def once(self, question: str, ask: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
        """Return the answer; a caller that is cancelled leaves it to the others."""
        task: asyncio.Task[ResultT] | None = self._tasks.get(question)
        if task is None:
            task = asyncio.get_running_loop().create_task(
                ask(), name=f"kubernetes: {question}", context=contextvars.Context()
            )
            self._tasks[question] = task
            task.add_done_callback(lambda done: self._answered(question, done))
        await asyncio.wait([task])
        if task.cancelled():
            raise ClosedError("the connection to the cluster is closed", fix="make a new scheduler")
        try:
            return task.result()
        except SchedulerError as error:
            raise for_one(error) from error.__cause__

    async def close(self) -> None:
        """Ask no more."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await outlast(tasks, 5.0)

    def _answered(self, question: str, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(question, None)
        if not task.cancelled():
            task.exception()  # nobody need be there any more
