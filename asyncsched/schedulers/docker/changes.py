"""State changes pushed by the daemon: one stream of events for all apps."""

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
    from asyncsched.clock import Clock
    from asyncsched.schedulers.state_reports import StatePort

__all__ = ["EventReader"]

_log = logging.getLogger("asyncsched.schedulers.docker")

_ACTIONS = ("create", "start", "die", "oom", "pause", "unpause", "rename", "destroy")
_AT_ONCE = 16
_AGAIN = 0.1

_RESTARTS = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds between checks of a container that waits to be restarted: Docker waits 0.1 s at first, 60 s at most."""

_LOOK_BACK = 30.0
"""How many seconds of events before the connection are requested too: a container that died then may still be listed
as running, and nothing else reports its end. A busy daemon was seen to take several seconds."""

_READ_EVERY = 30.0
"""Seconds between two reads of every watched app: a daemon skips an event if it cannot pass it on within 0.1 s, as on a
machine that is overloaded, and nobody is told."""


class EventReader:
    """Reads the daemon's events of our containers until the connection breaks, and reports them to a port.

    The event of a container's end comes before lists show the end: in between, the daemon takes the network down, which
    may last a tenth of a second. An inspection is answered only after that, so it is made between the event and its
    report: after a reported end, no list in any process may still show the container as running. The inspection also
    has the times of the run, which no list has.

    Args:
        daemon: The daemon to listen to.
        port: Receives the reports.
        keep: Takes the id of a container that has ended, and its inspection.
        clock: The time source.
    """

    def __init__(
        self, daemon: Daemon, port: StatePort, keep: Callable[[str, Mapping[str, Any]], None], *, clock: Clock
    ) -> None:
        self._daemon = daemon
        self._port = port
        self._keep = keep
        self._clock = clock
        self._tasks = BackgroundTasks(_log)
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def run(self) -> None:
        """Read until the stream ends; raise if it breaks."""
        try:
            await self._read()
        finally:
            await self._tasks.close(10.0)

    async def _read(self) -> None:
        from asyncsched._dockerd import read_objects  # already imported in a thread when the daemon was created

        now = await self._daemon.ask_time(operation="watch")
        filters = {"type": ["container"], "label": [names.APP_ID], "event": list(_ACTIONS)}
        params = {"filters": json.dumps(filters), "since": f"{now - _LOOK_BACK:.0f}"}
        what = "cannot read Docker's events"
        async with self._daemon.stream("events", params, what=what, operation="watch") as content:
            self._port.connected()
            self._tasks.start(self._read_all_again())
            async with aclosing(read_objects(content)) as events:
                async for event in events:
                    self._take(event)

    async def _read_all_again(self) -> None:
        """Have every watched app read now and then, however little the events say."""
        while True:
            await self._clock.sleep(_READ_EVERY)
            self._port.changed(*self._port.app_ids)

    def _take(self, event: dict[str, Any]) -> None:
        actor: dict[str, Any] = event["Actor"]
        told: Mapping[str, str] = actor["Attributes"]  # labels and name; a rename has the name before, too
        found = (names.read_app_id(told, told[key]) for key in ("name", "oldName") if key in told)
        if not (app_id := next(filter(None, found), "")):
            return  # only its image has our labels
        if event["Action"] == "die":
            self._tasks.start(self._report_end(actor["ID"], app_id))
        else:
            self._port.changed(app_id)

    async def _report_end(self, container_id: str, app_id: str) -> None:
        """Report the end of a run; no event reports a failed restart, so check for one as long as restarts may come."""
        for pause in chain(_RESTARTS, repeat(_RESTARTS[-1])):
            async with self._turns:
                waits_for_restart = await self._ask_until_answered(container_id)
            self._port.changed(app_id)
            if not waits_for_restart:
                return
            await asyncio.sleep(pause)

    async def _ask_until_answered(self, container_id: str) -> bool:
        """Wait until lists show a run's end; return whether the daemon will restart the container."""
        while True:
            try:
                inspected = await self._daemon.inspect_container(container_id, operation="watch")
            except UnavailableError:
                await asyncio.sleep(_AGAIN)  # nothing reports when the daemon is back
            except AsyncSchedError:
                return False  # removed already, or refused: the next list shows the state
            else:
                if inspected.get("State", {}).get("Restarting"):
                    return True
                self._keep(container_id, inspected)
                return False
