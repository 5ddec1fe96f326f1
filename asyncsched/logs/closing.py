"""Closing the sources that have ended, while the others of their stream go on."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Sequence
from time import perf_counter

from asyncsched.logs.loop_time import BUDGET
from asyncsched.logs.source import LogSource

__all__ = ["Closer"]

_log = logging.getLogger("asyncsched.logs")


class Closer:
    """Closes sources one after the other, and side by side those that have to wait.

    Most have nothing to wait for once they have ended. A task for each of them would cost a short log more than all
    of its lines.
    """

    def __init__(self) -> None:
        self._ended: deque[LogSource] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._next: asyncio.Handle | None = None

    def close(self, source: LogSource) -> None:
        """Close a source soon; what fails is logged."""
        self._ended.append(source)
        self._go_on_soon()

    def take(self) -> Sequence[Awaitable[object]]:
        """Return all that is not closed yet, for the caller to wait for."""
        ended, self._ended = self._ended, deque()
        return [*self._tasks, *(source.aclose() for source in ended)]

    def _go_on_soon(self) -> None:
        if self._next is None:
            self._next = asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._next = None
        if self._ended:
            task = asyncio.get_running_loop().create_task(self._close_some())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _close_some(self) -> None:
        began = perf_counter()
        while self._ended:
            self._go_on_soon()  # with the others, in a task of their own, if this one is not closed in this step
            if perf_counter() - began > BUDGET:
                return
            source = self._ended.popleft()
            try:
                await source.aclose()
            except Exception as error:  # noqa: BLE001 - a source is a backend's code: the others are closed all the same
                _log.warning("closing the log of %s/%s failed: %s", source.role, source.replica, error, exc_info=error)
