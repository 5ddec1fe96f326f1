"""What the daemon tells by itself: one stream of events for all apps."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from asyncsched._tasks import BackgroundTasks
from asyncsched.errors import AsyncSchedError, UnavailableError
from asyncsched.schedulers.docker import names

if TYPE_CHECKING:
    from asyncsched._dockerd import Daemon
    from asyncsched.schedulers.state_reports import StatePort

__all__ = ["EventReader"]

_log = logging.getLogger("asyncsched.schedulers.docker")

_ACTIONS = ("create", "start", "die", "oom", "pause", "unpause", "rename", "destroy")
_AT_ONCE = 16
_AGAIN = 0.1

_RESTARTS = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds between looks at a container that waits to be started again: Docker waits 0.1 s at first, 60 s at most."""

_LOOK_BACK = 30.0
"""Seconds before a connection was made whose events are asked for, too: a container that died then may still be
listed as running, and nothing else tells of its end. A busy daemon was seen to take several seconds."""


class EventReader:
    """Reads the daemon's events of our containers until the connection breaks, and reports them to a port.

    The event of a container's end comes before lists tell of it: the daemon takes its network down in between,
    which may last a tenth of a second. An inspection is answered when that is done, and stands between the
    event and its report: who is told of an end must not hear otherwise from the next list, in any process. It also
    tells when the run began and ended, which no list does.

    Args:
        daemon: Whose events.
        port: Who wants to know.
        keep: Takes the id of a container that has ended and its inspection.
    """

    def __init__(self, daemon: Daemon, port: StatePort, keep: Callable[[str, Mapping[str, Any]], None]) -> None:
        self._daemon = daemon
        self._port = port
        self._keep = keep
        self._ends = BackgroundTasks(_log)
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def run(self) -> None:
        """Read until the stream ends; raises when it breaks."""
        try:
            await self._read()
        finally:
            await self._ends.close(10.0)

    async def _read(self) -> None:
        from asyncsched._dockerd import read_objects  # loaded by whoever has made the daemon, in a thread

        now = await self._daemon.ask_time(operation="watch")
        filters = {"type": ["container"], "label": [names.APP_ID], "event": list(_ACTIONS)}
        params = {"filters": json.dumps(filters), "since": f"{now - _LOOK_BACK:.0f}"}
        what = "cannot read Docker's events"
        async with self._daemon.stream("events", params, what=what, operation="watch") as content:
            self._port.connected()
            async with aclosing(read_objects(content)) as events:
                async for event in events:
                    self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        actor: dict[str, Any] = event["Actor"]
        app_id = names.read_app_id(actor["Attributes"])
        if event["Action"] == "die":
            self._ends.start(self._report_end(actor["ID"], app_id))
        else:
            self._port.changed(app_id)

    async def _report_end(self, container_id: str, app_id: str) -> None:
        """Report the end of a run; no event tells of a restart that fails, so that is looked for as long as it may."""
        for pause in chain(_RESTARTS, repeat(_RESTARTS[-1])):
            async with self._turns:
                waits_for_restart = await self._ask_until_answered(container_id)
            self._port.changed(app_id)
            if not waits_for_restart:
                return
            await asyncio.sleep(pause)

    async def _ask_until_answered(self, container_id: str) -> bool:
        """Wait until lists tell of a run's end; return whether the daemon will start another one."""
        while True:
            try:
                inspected = await self._daemon.inspect_container(container_id, operation="watch")
            except UnavailableError:
                await asyncio.sleep(_AGAIN)  # the daemon tells nobody when it is back
            except AsyncSchedError:
                return False  # removed already, or refused: the list that follows says what is the case
            else:
                if inspected.get("State", {}).get("Restarting"):
                    return True
                self._keep(container_id, inspected)
                return False
