"""Having an app started as a whole, and taking it back."""

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
from asyncsched.schedulers.validation import other_app
from asyncsched.specs.dryrun import AppDryRunInfo
from asyncsched.specs.masking import find_secrets
from asyncsched.specs.secret import redact

__all__ = ["LocalSubmission"]

LOOK_EVERY = 0.05

OrRemoved = Callable[[str, Callable[[], Coroutine[Any, Any, None]]], AbstractAsyncContextManager[None]]
"""Removes an app when what is inside fails or is cancelled."""


class LocalSubmission:
    """One attempt to start an app.

    Args:
        home: The state directory.
        apps: Tells whether it is there already.
        info: The app.
        wire: The app as its supervisor gets it.
        or_removed: Guards what stands between a submit and its answer.
        clock: Tells the time.
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
        """Have it started, or find it there."""
        while not await self._submit(connection):
            if await self._is_there():
                return

    async def _submit(self, connection: SupervisorConnection) -> bool:
        """Have the app started; tell whether it was, or one of its id is there."""
        app_id = self._info.app_id
        launching = asyncio.ensure_future(connection.call("submit", app=self._wire))

        async def remove() -> None:
            try:
                answer = await launching  # it starts as a whole or not at all; which one is known in a moment
            except InvalidRequestError:
                return  # it has not even been sent
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
        """Return what a supervisor says of the app, without the app's secrets, which it knows as plain texts."""
        return redact(str(message), find_secrets(self._info.request, self._info.app, self._info.cfg))

    async def _remove(self, connection: SupervisorConnection, app: AppRecord) -> None:
        """End an app of ours at once, and leave no trace of it."""
        await connection.call("kill", app_id=app.app_id)
        while (await connection.call("forget", app_id=app.app_id)).get("error"):
            await self._clock.sleep(LOOK_EVERY)
        await asyncio.to_thread(self._home.remove, Stored(app.app_id, app))

    async def _is_there(self) -> bool:
        """Tell whether the app that is to be submitted is there; False, after a pause, if it is just being started."""
        found = await self._apps.find_one(self._info.app_id)
        if found is None:
            if not await asyncio.to_thread(self._apps.remove_unfinished, self._info.app_id):
                await self._clock.sleep(LOOK_EVERY)
            return False
        if found.record.digest != self._info.digest:
            raise other_app(self._info.app_id, BACKEND)
        return True
