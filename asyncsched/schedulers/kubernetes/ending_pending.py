"""Enforce `pending_timeout`: the submitting scheduler ends apps that do not start in time."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable

from asyncsched._tasks import outlast
from asyncsched.clock import Clock
from asyncsched.errors import AsyncSchedError
from asyncsched.schedulers.state_stream import StateStream
from asyncsched.specs.state import AppState

__all__ = ["PodPendingLimits"]

_log = logging.getLogger("asyncsched.schedulers.kubernetes")

_WAITS = (AppState.UNSUBMITTED, AppState.SUBMITTED, AppState.PENDING)


class PodPendingLimits:
    """Ends apps that do not start in time.

    Args:
        watch: Watches an app.
        give_up: Ends an app that has not started.
        clock: The time source.
    """

    def __init__(
        self, watch: Callable[[str], StateStream], give_up: Callable[[str], Awaitable[None]], *, clock: Clock
    ) -> None:
        self._watch, self._give_up, self._clock = watch, give_up, clock
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def keep(self, app_id: str, seconds: float) -> None:
        """End an app if it waits longer than this; works only while this scheduler is open."""
        if app_id in self._tasks:
            return
        task = asyncio.get_running_loop().create_task(
            self._keep(app_id, seconds), name=f"kubernetes: pending_timeout of {app_id}", context=contextvars.Context()
        )
        self._tasks[app_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(app_id, None))

    async def close(self) -> None:
        """Cancel the tasks; their apps may keep waiting."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await outlast(tasks, 10.0)

    async def _keep(self, app_id: str, seconds: float) -> None:
        try:
            try:
                async with self._clock.timeout(seconds):
                    await self._started(app_id)
            except TimeoutError:
                await self._give_up(app_id)
        except AsyncSchedError as error:
            _log.warning("pending_timeout of %s is no longer enforced: %s", app_id, error)

    async def _started(self, app_id: str) -> None:
        async with self._watch(app_id) as changes:
            async for event in changes:
                if event.is_terminal() or event.state not in _WAITS:
                    return
