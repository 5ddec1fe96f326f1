"""How ends are told of: as soon as lists tell of them, whatever breaks meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from asyncsched._dockerd import Daemon
from asyncsched.clock import Clock
from asyncsched.errors import UnavailableError
from asyncsched.schedulers.docker import names
from asyncsched.schedulers.docker.changes import EventReader
from asyncsched.schedulers.state_reports import StatePort
from asyncsched.testing import VirtualClock
from tests._support import WITHIN

NOW = 1_000_000.0


class FakeDaemon:
    """A daemon whose events the test says, and whose inspections are answered when it likes."""

    def __init__(
        self,
        events: list[tuple[str, str, float]],
        *,
        refusals: int = 0,
        restarting: int = 0,
        more: str = "",
        names: Mapping[str, dict[str, str]] | None = None,
    ) -> None:
        self._names = names or {}  # what containers are called now, if not as they were created
        self._restarting = restarting  # how many inspections find that another run is to come
        self._events = events
        self._more = more  # what else the containers' labels hold
        self._refusals = refusals
        self.down: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def ask_time(self, *, operation: str) -> float:
        return NOW

    @asynccontextmanager
    async def stream(self, path: str, params: Mapping[str, str], **_: object) -> AsyncGenerator[asyncio.StreamReader]:
        reader = asyncio.StreamReader()
        for action, name, at in self._events:
            if at >= float(params["since"]):
                own = names.sent_labels({names.APP_ID: f"app of {name}"}, name, "", terminal=False)
                told = {**own, names.METADATA: self._more, "name": name, **self._names.get(name, {})}
                actor = {"ID": name, "Attributes": told}
                reader.feed_data(json.dumps({"Action": action, "Actor": actor}).encode() + b"\n")
        yield reader

    async def inspect_container(self, name: str, *, operation: str) -> dict[str, Any]:
        if self._refusals:
            self._refusals -= 1
            raise UnavailableError("cannot reach Docker")
        await self.down[name].wait()
        self._restarting -= 1
        return {"State": {"Restarting": self._restarting >= 0}}


class Port:
    """Keeps what is reported, in order."""

    def __init__(self, app_ids: Sequence[str]) -> None:
        self.app_ids = app_ids
        self.reports: asyncio.Queue[str] = asyncio.Queue()
        self.kept: dict[str, Mapping[str, Any]] = {}

    def connected(self) -> None:
        self.reports.put_nowait("connected")

    def changed(self, *app_ids: str) -> None:
        for app_id in app_ids:
            self.reports.put_nowait(app_id)


@asynccontextmanager
async def reading(
    daemon: FakeDaemon, *, app_ids: Sequence[str] = (), clock: Clock | None = None
) -> AsyncGenerator[asyncio.Queue[str]]:
    port = Port(app_ids)
    reader = EventReader(
        cast("Daemon", daemon), cast("StatePort", port), port.kept.__setitem__, clock=clock or VirtualClock()
    )
    task = asyncio.create_task(reader.run())
    try:
        async with asyncio.timeout(WITHIN):
            assert "connected" == await port.reports.get()
            yield port.reports
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_an_end_that_is_slow_keeps_no_other_from_being_told() -> None:
    daemon = FakeDaemon([("die", "slow", NOW), ("die", "quick", NOW)])
    daemon.down["quick"].set()
    async with reading(daemon) as reports:
        assert "app of quick" == await reports.get()
        assert reports.empty()
        daemon.down["slow"].set()
        assert "app of slow" == await reports.get()


async def test_an_end_shortly_before_the_connection_is_told() -> None:
    # It may still be listed as running: a busy daemon takes its time between the event and the list.
    daemon = FakeDaemon([("die", "long ago", NOW - 3600), ("die", "busy", NOW - 10)])
    daemon.down["busy"].set()
    async with reading(daemon) as reports:
        assert "app of busy" == await reports.get()
        assert reports.empty()


async def test_an_inspection_that_breaks_is_made_again() -> None:
    daemon = FakeDaemon([("die", "one", NOW)], refusals=1)
    async with reading(daemon) as reports:
        for _ in range(3):
            await asyncio.sleep(0)
        assert reports.empty()
        daemon.down["one"].set()
        assert "app of one" == await reports.get()


async def test_a_restart_that_fails_is_told_although_no_event_does() -> None:
    daemon = FakeDaemon([("die", "one", NOW)], restarting=2)
    daemon.down["one"].set()
    async with reading(daemon) as reports:
        assert ["app of one"] * 3 == [await reports.get() for _ in range(3)]


async def test_an_end_whose_event_the_daemon_has_skipped_is_read_nevertheless() -> None:
    clock = VirtualClock()
    async with reading(FakeDaemon([]), app_ids=["one", "two"], clock=clock) as reports:
        await clock.advance(29)
        assert reports.empty()
        for _ in range(2):
            await clock.advance(30)
            assert ["one", "two"] == [reports.get_nowait() for _ in range(2)]
        assert reports.empty()


async def test_labels_may_be_longer_than_any_buffer() -> None:
    daemon = FakeDaemon([("start", "one", NOW), ("start", "two", NOW)], more="x" * 1_000_000)
    async with reading(daemon) as reports:
        assert "app of one" == await reports.get()
        assert "app of two" == await reports.get()


async def test_what_is_called_otherwise_is_not_told_until_it_was_ours_before() -> None:
    called = {"image": {"name": "database"}, "renamed": {"name": "mine", "oldName": "/renamed.cancelled"}}
    events = [("start", "image", NOW), ("die", "image", NOW), ("rename", "renamed", NOW), ("start", "last", NOW)]
    daemon = FakeDaemon(events, names=called)
    async with reading(daemon) as reports:
        assert ["app of renamed", "app of last"] == [await reports.get() for _ in range(2)]
        assert reports.empty()
