"""Report changes: from this process's supervisor, from other supervisors, and by polling apps without one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from asyncsched._tasks import outlast
from asyncsched.clock import Clock, wait_for_event
from asyncsched.errors import AsyncSchedError
from asyncsched.logs.loop_time import budget_of
from asyncsched.schedulers.local.client import Supervisors
from asyncsched.schedulers.local.lookup import Apps
from asyncsched.schedulers.local.status import SupervisorState, describe_app
from asyncsched.schedulers.local.status_record import SupervisorRecord, parse_event
from asyncsched.schedulers.state_reports import StatePort

__all__ = ["LocalStateReader"]

MOST_CONNECTIONS = 200
"""Most supervisors of other processes to listen to at a time; the apps of further ones are polled."""
PLACED_AT_ONCE = 500
SHORTEST_PAUSE = 0.02
LONGEST_PAUSE = 1.0


class LocalStateReader:
    """Reports the changes of watched apps to a port, until it is cancelled.

    Args:
        port: Receives the changes.
        apps: Finds apps.
        supervisors: Connects to supervisors.
        clock: The time source.
    """

    def __init__(self, port: StatePort, apps: Apps, supervisors: Supervisors, clock: Clock) -> None:
        self._port = port
        self._apps = apps
        self._supervisors = supervisors
        self._clock = clock
        self._new: dict[str, None] = dict.fromkeys(port.app_ids)
        self._told: dict[str, bytes] = {}  # messages of supervisors that were not published yet
        self._news = asyncio.Event()
        self._heard: dict[str, set[str]] = {}  # the apps on which each supervisor reports
        self._unheard: set[str] = set()  # apps on which no supervisor reports
        self._pause = SHORTEST_PAUSE
        self._wake = asyncio.Event()
        self._wake.set()

    async def run(self) -> None:
        """Listen."""
        end = self._supervisors.listen(self._changed, self._lost)
        self._port.on_add, self._port.on_discard = self._add, self._discard
        for app_id in self._new:
            self._apps.watch(app_id)
        self._port.connected()
        # In a separate task, because looking for apps waits for other processes.
        publishing = asyncio.create_task(self._publish_all())
        publishing.add_done_callback(lambda _: self._wake.set())
        try:
            while True:
                await self._wait()
                if publishing.done():
                    publishing.result()
                await self._place_new()
                self._port.changed(*self._unheard)
        finally:
            publishing.cancel()
            end()
            for name in tuple(self._heard):
                self._supervisors.drop(name)
            self._apps.unwatch_all()
            await outlast([publishing], 10.0)

    async def _publish_all(self) -> None:
        """Publish the newest message of each app."""
        budget = budget_of(asyncio.get_running_loop())
        while True:
            await self._news.wait()
            self._news.clear()
            budget.begin()
            while self._told:
                app_id = next(iter(self._told))
                self._publish(app_id, self._told.pop(app_id))
                await budget.breathe()

    def _publish(self, app_id: str, message: bytes) -> None:
        record = parse_event(app_id, message)
        if record is None:
            self._port.changed(app_id)  # the message has only the id: the record is large, or the release old
        elif self._apps.newest(record) is record:
            self._port.publish(app_id, describe_app(record, SupervisorState.LED))

    async def _wait(self) -> None:
        """Wait until there is something new, or it is time to poll the apps without reports."""
        await wait_for_event(self._wake, self._clock, self._pause if self._unheard else None)
        self._wake.clear()
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _add(self, app_id: str) -> None:
        self._apps.watch(app_id)
        self._new[app_id] = None
        self._wake.set()

    def _discard(self, app_id: str) -> None:
        self._apps.unwatch(app_id)
        self._told.pop(app_id, None)
        self._new.pop(app_id, None)
        self._unheard.discard(app_id)
        for name, app_ids in tuple(self._heard.items()):
            app_ids.discard(app_id)
            if not app_ids:
                del self._heard[name]
                self._supervisors.drop(name)

    def _changed(self, app_id: str, message: bytes) -> None:
        if self._apps.is_watched(app_id):
            self._told[app_id] = message
            self._news.set()

    def _lost(self, name: str) -> None:
        """Poll the apps of a supervisor that is gone, until they have ended."""
        watched = set(self._port.app_ids)
        self._look_again(watched if self._supervisors.is_own(name) else self._heard.pop(name, set()) & watched)

    def _look_again(self, app_ids: Iterable[str]) -> None:
        self._unheard.update(app_ids)
        self._pause = SHORTEST_PAUSE
        self._wake.set()

    async def _place_new(self) -> None:
        new = list(self._new)
        self._new.clear()
        for start in range(0, len(new), PLACED_AT_ONCE):
            await self._place(new[start : start + PLACED_AT_ONCE])

    async def _place(self, app_ids: Sequence[str]) -> None:
        """Find the supervisors that report on these apps."""
        groups: dict[str, tuple[SupervisorRecord, set[str]]] = {}
        for app_id, found in (await self._apps.find(app_ids)).items():
            if isinstance(found, AsyncSchedError):
                self._look_again([app_id])  # it may be running
                continue
            if found is None or found.record.finished_ns is not None:
                # It has ended, but the feed may have read it just before that.
                self._port.changed(app_id)
                continue
            if not found.is_open:
                self._look_again([app_id])
                continue
            supervisor = found.record.supervisor
            # This process's supervisor reports on its apps without being asked.
            if supervisor.socket != self._supervisors.own_socket:
                groups.setdefault(supervisor.socket, (supervisor, set()))[1].add(app_id)
        watched = set(self._port.app_ids)  # some may have been discarded in the meantime
        for supervisor, members in groups.values():
            await self._listen_to(supervisor, members & watched)

    async def _listen_to(self, supervisor: SupervisorRecord, app_ids: set[str]) -> None:
        name = supervisor.socket
        if name not in self._heard and len(self._heard) >= MOST_CONNECTIONS:
            self._look_again(app_ids)
            return
        try:
            async with self._supervisors.ask(supervisor, keep=True) as connection:
                heard = self._heard.setdefault(name, set())
                heard |= app_ids
                await connection.call("watch", app_ids=sorted(heard))
        except AsyncSchedError:
            self._heard.pop(name, None)
            self._look_again(app_ids)
        # Read them once more: changes before the connection was open were missed.
        self._port.changed(*app_ids)
