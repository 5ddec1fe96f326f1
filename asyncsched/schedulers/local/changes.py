"""Word of changes: from our own supervisor, from those of others, and by looking where there is nobody to ask."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from asyncsched._tasks import outlast
from asyncsched.clock import Clock
from asyncsched.errors import AsyncSchedError
from asyncsched.logs.loop_time import budget_of
from asyncsched.schedulers.local.client import Supervisors
from asyncsched.schedulers.local.lookup import Apps, FoundApp
from asyncsched.schedulers.local.status import SupervisorState, describe_app
from asyncsched.schedulers.local.status_record import SupervisorRecord, parse_event
from asyncsched.schedulers.state_reports import StatePort

__all__ = ["LocalStateReader"]

MOST_CONNECTIONS = 200
"""Supervisors of others that are listened to at a time; the apps of more are looked at again and again."""
PLACED_AT_ONCE = 500
SHORTEST_PAUSE = 0.02
LONGEST_PAUSE = 1.0


class LocalStateReader:
    """Tells a port of the changes of the apps that are watched, until it is cancelled.

    Args:
        port: Who wants to know.
        apps: Where apps are found.
        supervisors: Who tells of them.
        clock: Tells the time.
    """

    def __init__(self, port: StatePort, apps: Apps, supervisors: Supervisors, clock: Clock) -> None:
        self._port = port
        self._apps = apps
        self._supervisors = supervisors
        self._clock = clock
        self._new: dict[str, None] = dict.fromkeys(port.app_ids)
        self._told: dict[str, bytes] = {}  # what supervisors have said, and has not been published yet
        self._news = asyncio.Event()
        self._heard: dict[str, set[str]] = {}  # of which supervisor we hear about which apps
        self._unheard: set[str] = set()  # apps that nobody tells us of
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
        # Apart from looking for apps, which waits for other processes.
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
        """Hand on what supervisors have said, of each app the newest."""
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
            self._port.changed(app_id)  # the first release, or a supervisor with much to say, tells the id alone
        elif self._apps.newest(record) is record:
            self._port.publish(app_id, describe_app(record, SupervisorState.LED))

    async def _wait(self) -> None:
        """Wait until there is something new, or it is time to look again at what nobody tells of."""
        timer = self._clock.call_later(self._pause, self._wake.set) if self._unheard else None
        try:
            await self._wake.wait()
        finally:
            if timer is not None:
                timer.cancel()
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
        """Look at the apps of a supervisor that is gone until they are seen to have ended."""
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
        """Find out who tells of these apps."""
        groups: dict[str, tuple[SupervisorRecord, set[str]]] = {}
        for app_id, found in (await self._apps.find(app_ids)).items():
            if not isinstance(found, FoundApp) or found.record.finished_ns is not None:
                # It will not change any more; but the feed may have asked a moment before it did.
                self._port.changed(app_id)
                continue
            if not found.is_open:
                self._look_again([app_id])
                continue
            supervisor = found.record.supervisor
            # Our own tells of what it runs without being asked.
            if supervisor.socket != self._supervisors.own_socket:
                groups.setdefault(supervisor.socket, (supervisor, set()))[1].add(app_id)
        watched = set(self._port.app_ids)  # some may have been discarded meanwhile
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
        # Once more, now that nothing is missed any more.
        self._port.changed(*app_ids)
