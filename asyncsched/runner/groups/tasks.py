"""The tasks of a group."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from asyncsched._tasks import outlast

__all__ = ["GroupTasks"]

CLOSE_TIMEOUT = 30.0
"""Seconds that submits are given to take back what they have made."""

_log = logging.getLogger("asyncsched.runner")


class GroupTasks:
    """Tasks that end with their group. They run in a neutral context, because they serve all waiters.

    Args:
        name: The group's name, for log messages.
        on_end: Called when a task has ended.
    """

    def __init__(self, name: str, on_end: Callable[[], None]) -> None:
        self._name = name
        self._on_end = on_end
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start a task."""
        task = asyncio.get_running_loop().create_task(work, name=name, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("group %s: %s", self._name, error, exc_info=error)
        self._on_end()

    async def end(self) -> None:
        """End all tasks except the calling one, including tasks that are started meanwhile."""
        tasks: set[asyncio.Task[None]] = set()
        while others := self._tasks - tasks - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            tasks |= others
            await outlast(others, CLOSE_TIMEOUT)
