"""Report state changes: from the files that replicas write, as they are written, and by polling the cluster."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from asyncsched._tasks import made_in_thread
from asyncsched.clock import Clock, wait_for_event
from asyncsched.errors import SchedulerError
from asyncsched.logs.inotify import FileWatch, Follower, follower_of
from asyncsched.logs.open_files import open_directory
from asyncsched.schedulers._common.rate_limit import Pacer
from asyncsched.schedulers.slurm import names
from asyncsched.schedulers.slurm.lookup import AppLinks
from asyncsched.schedulers.state_reports import StatePort

__all__ = ["SlurmStateReader"]

SHORTEST, LONGEST = 0.1, 5.0
"""Seconds between two polls: after a change, and when nothing has changed for long."""
OPENED_AT_ONCE = 100


class SlurmStateReader:
    """Tells a port when to read the watched apps again, until it is cancelled.

    inotify reports what replicas write. What only the cluster knows is found by polling, and so is everything if
    inotify reports nothing, as on a network file system.

    Args:
        port: Receives the reports.
        home: The place of the apps.
        pacer: Limits the rate of polls.
        clock: The clock.
        follower: Reports written files; the loop's own by default.
    """

    def __init__(
        self, port: StatePort, home: AppLinks, pacer: Pacer, clock: Clock, follower: Follower | None = None
    ) -> None:
        self._port = port
        self._home = home
        self._pacer = pacer
        self._clock = clock
        self._follower = follower
        self._new: dict[str, None] = dict.fromkeys(port.app_ids)
        self._watches: dict[str, FileWatch] = {}
        self._wake = asyncio.Event()
        self._pause = SHORTEST
        self._due = clock.monotonic() + self._pause

    async def run(self) -> None:
        """Listen and poll."""
        self._port.on_add, self._port.on_discard = self._add, self._discard
        self._port.connected()
        seen = -1
        try:
            while True:
                await self._listen()
                if (left := self._due - self._clock.monotonic()) > 0:
                    # Until there is something to listen to or to read, at the latest until the next poll.
                    await wait_for_event(self._wake, self._clock, left)
                    self._wake.clear()
                    continue
                asked = self._clock.monotonic()
                await self._pacer.turn()
                now = self._clock.monotonic()
                passed = max(self._pause, now - asked)  # waiting for the pacer counts as a pause
                self._pause = SHORTEST if self._port.changes != seen else min(2 * passed, LONGEST)
                self._due = now + self._pause
                seen = self._port.changes
                self._port.changed(*self._port.app_ids)
        finally:
            for watch in self._watches.values():
                watch.close()

    def _add(self, app_id: str) -> None:
        self._new[app_id] = None
        self._due = min(self._due, self._clock.monotonic() + SHORTEST)
        self._wake.set()

    def _discard(self, app_id: str) -> None:
        self._new.pop(app_id, None)
        if (watch := self._watches.pop(app_id, None)) is not None:
            watch.close()

    def _told(self) -> None:
        self._pause = SHORTEST / 2
        self._due = self._clock.monotonic()
        self._wake.set()

    async def _listen(self) -> None:
        """Watch the directories of new apps; the next poll finds earlier changes."""
        while self._new:
            some = [*self._new][:OPENED_AT_ONCE]
            opened = await made_in_thread(partial(_open_all, self._home, some), _close_all)
            try:
                self._watch(dict(zip(some, opened, strict=True)))
            finally:
                _close_all(opened)

    def _watch(self, opened: dict[str, int]) -> None:
        follower = self._follower if self._follower is not None else follower_of(asyncio.get_running_loop())
        for app_id, fd in opened.items():
            if app_id in self._new:
                del self._new[app_id]
                if fd >= 0 and (watch := follower.notices(fd, self._told)) is not None:
                    self._watches[app_id] = watch


def _open_all(home: AppLinks, app_ids: Sequence[str]) -> list[int]:
    """Open the directories in which the replicas of these apps record events; -1 for a missing one."""
    opened: list[int] = []
    for app_id in app_ids:
        fd = -1
        with suppress(OSError, SchedulerError):
            if (directory := home.directory_of(app_id, "watch")) is not None:
                fd = open_directory(directory, names.EVENTS)
        opened.append(fd)
    return opened


def _close_all(opened: Sequence[int]) -> None:
    for fd in opened:
        if fd >= 0:
            os.close(fd)
