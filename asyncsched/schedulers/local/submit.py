"""Start an app as a whole, and remove it if that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from asyncsched.clock import Clock
from asyncsched.errors import InvalidRequestError
from asyncsched.schedulers.local.client_connection import SupervisorConnection
from asyncsched.schedulers.local.errors import translate
from asyncsched.schedulers.local.lookup import Apps
from asyncsched.schedulers.local.request import PopenRequest
from asyncsched.schedulers.local.state_dir import StateDir, Stored
from asyncsched.schedulers.local.status_record import BACKEND, AppRecord, parse_record
from asyncsched.schedulers.request_checks import other_app
from asyncsched.specs.dryrun import AppDryRunInfo
from asyncsched.specs.masking import find_secrets
from asyncsched.specs.secret import redact

__all__ = ["LocalSubmission"]

LOOK_EVERY = 0.05

OrRemoved = Callable[[str, Callable[[], Coroutine[Any, Any, None]]], AbstractAsyncContextManager[None]]
"""A context manager that removes an app when its block fails or is cancelled."""


class LocalSubmission:
    """One attempt to start an app.

    Args:
        home: The state directory.
        apps: Finds out whether it exists already.
        info: The app.
        wire: The message to its supervisor.
        or_removed: Guards the time between a submit and its answer.
        clock: The time source.
    """

    def __init__(
        self,
        home: StateDir,
        apps: Apps,
        info: AppDryRunInfo[PopenRequest],
        wire: Mapping[str, Any],
        *,
        or_removed: OrRemoved,
        clock: Clock,
    ) -> None:
        self._home = home
        self._apps = apps
        self._info = info
        self._wire = wire
        self._or_removed = or_removed
        self._clock = clock

    async def run(self, connection: SupervisorConnection) -> None:
        """Start it, or find it already submitted."""
        while not await self._submit(connection):
            if await self._is_there():
                return

    async def _submit(self, connection: SupervisorConnection) -> bool:
        """Start the app; return whether it was started, or an app of its id exists."""
        app_id = self._info.app_id
        launching = asyncio.ensure_future(connection.call("submit", app=self._wire))

        async def remove() -> None:
            try:
                answer = await launching  # it starts as a whole or not at all, and the answer comes soon
            except InvalidRequestError:
                return  # it was not sent yet
            if "error" not in answer:
                await self._remove(connection, parse_record(app_id, answer["app"]))

        async with self._or_removed(app_id, remove):
            answer = await asyncio.shield(launching)
        if "error" not in answer:
            return True
        if answer["error"] == "exists":
            return False
        raise translate({**answer, "message": self._shown(answer.get("message", ""))}, "submit", app_id=app_id)

    def _shown(self, message: object) -> str:
        """Return a supervisor's message about the app without the app's secrets, which it has as plain text."""
        return redact(str(message), find_secrets(self._info.request, self._info.app, self._info.cfg))

    async def _remove(self, connection: SupervisorConnection, app: AppRecord) -> None:
        """End this app at once, and remove every trace of it."""
        await connection.call("kill", app_id=app.app_id)
        while (await connection.call("forget", app_id=app.app_id)).get("error"):
            await self._clock.sleep(LOOK_EVERY)
        await asyncio.to_thread(self._home.remove, Stored(app.app_id, app))

    async def _is_there(self) -> bool:
        """Return whether the app exists already; False, after a pause, while it is just being started."""
        found = await self._apps.find_one(self._info.app_id)
        if found is None:
            if not await asyncio.to_thread(self._apps.remove_unfinished, self._info.app_id):
                await self._clock.sleep(LOOK_EVERY)
            return False
        if found.record.digest != self._info.digest:
            raise other_app(self._info.app_id, BACKEND)
        return True
