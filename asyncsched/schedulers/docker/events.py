"""What the daemon tells by itself: one stream of events for all apps."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from asyncsched._tasks import gather_bounded, outlast
from asyncsched.errors import AsyncSchedError
from asyncsched.schedulers.docker import labels

if TYPE_CHECKING:
    from asyncsched._dockerd import Daemon
    from asyncsched.schedulers.feed import StatePort

__all__ = ["EventReader"]

_ACTIONS = ("create", "start", "die", "oom", "pause", "unpause", "rename", "destroy")
_AT_ONCE = 16


class EventReader:
    """Reads the daemon's events of our containers until the connection breaks, and reports them to a port.

    The event of a container's end comes before lists tell of it: the daemon takes its network down in between,
    which may last a tenth of a second. An inspection is answered when that is done, and stands between the
    event and its report: who is told of an end must not hear otherwise from the next list, in any process.

    Args:
        daemon: Whose events.
        port: Who wants to know.
    """

    def __init__(self, daemon: Daemon, port: StatePort) -> None:
        self._daemon = daemon
        self._port = port
        self._ending: dict[str, str] = {}  # containers that are about to be over, and their apps
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Read until the stream ends; raises when it breaks."""
        waiting = asyncio.create_task(self._report_ends())
        try:
            await self._read()
        finally:
            waiting.cancel()
            await outlast([waiting], 10.0)

    async def _read(self) -> None:
        # The daemon answers before it listens to itself: what happens between must be asked for.
        now = await self._daemon.ask_time(operation="watch")
        filters = {"type": ["container"], "label": [labels.APP_ID], "event": list(_ACTIONS)}
        params = {"filters": json.dumps(filters), "since": f"{now - 1:.0f}"}
        what = "cannot read Docker's events"
        async with self._daemon.stream("events", params, what=what, operation="watch") as content:
            self._port.connected()
            while line := await content.readline():
                self._take(json.loads(line))

    def _take(self, event: dict[str, Any]) -> None:
        actor: dict[str, Any] = event["Actor"]
        app_id: str = actor["Attributes"].get(labels.APP_ID, "")
        if event["Action"] == "die":
            self._ending[actor["ID"]] = app_id
            self._woken.set()
        else:
            self._port.changed(app_id)

    async def _report_ends(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            ending, self._ending = self._ending, {}
            await gather_bounded(self._until_over, list(ending), _AT_ONCE)
            self._port.changed(*dict.fromkeys(ending.values()))

    async def _until_over(self, container_id: str) -> None:
        try:
            await self._daemon.inspect_container(container_id, operation="watch")
        except AsyncSchedError:
            pass  # removed already, or no daemon: the list that follows says what is the case
