"""When the cluster is asked for what is watched: no cluster is needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from asyncsched._tasks import outlast
from asyncsched.logs.inotify import Follower, follower_of
from asyncsched.schedulers._common.rate_limit import Pacer
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.schedulers.slurm.changes import LONGEST, SlurmStateReader
from asyncsched.schedulers.slurm.lookup import AppLinks
from asyncsched.schedulers.state_reports import StatePort
from asyncsched.testing import VirtualClock
from tests._support import WITHIN, eventually
from tests.logs._inotify import MAKERS


class Watched:
    """A feed that notes when it is told to ask."""

    def __init__(self, clock: VirtualClock, *app_ids: str) -> None:
        self.app_ids: Sequence[str] = app_ids
        self.changes = 0
        self.changing_until = 0.0
        self.is_connected = False
        self.looks: list[float] = []
        self._clock = clock

    def connected(self) -> None:
        self.is_connected = True

    def changed(self, app_ids: Sequence[str], /) -> None:
        now = self._clock.monotonic()
        self.looks.append(round(now, 3))
        self.changes += now < self.changing_until

    def apply(self, app_id: str, response: DescribeAppResponse | None, /) -> None:
        raise NotImplementedError


@asynccontextmanager
async def reading(
    watched: Watched, clock: VirtualClock, home: Path, *, pace: float = 1000.0, follower: Follower | None = None
) -> AsyncGenerator[tuple[SlurmStateReader, StatePort]]:
    port = StatePort(watched)
    reader = SlurmStateReader(port, AppLinks(home), Pacer(pace, clock, burst=10), clock, follower)
    task = asyncio.create_task(reader.run())
    try:
        await eventually(lambda: watched.is_connected)
        yield reader, port
    finally:
        task.cancel()
        await outlast([task], 10.0)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def make_app(home: Path, app_id: str) -> Path:
    """Make the directory of an app in which its replicas write down what happens."""
    events = home / "jobs" / app_id / "events"
    events.mkdir(parents=True)
    events.parent.chmod(0o700)
    (home / "apps").mkdir(exist_ok=True)
    (home / "apps" / app_id).symlink_to(events.parent)
    return events


async def test_looks_come_less_often_while_nothing_changes(clock: VirtualClock, tmp_path: Path) -> None:
    watched = Watched(clock)
    async with reading(watched, clock, tmp_path):
        await clock.advance(30.0)

    assert [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 11.4, 16.4, 21.4, 26.4] == watched.looks
    assert LONGEST == watched.looks[-1] - watched.looks[-2]


async def test_looks_come_often_while_something_changes(clock: VirtualClock, tmp_path: Path) -> None:
    watched = Watched(clock)
    async with reading(watched, clock, tmp_path):
        watched.changing_until = 0.75
        await clock.advance(2.0)

    assert [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.1, 1.5] == watched.looks


async def test_looks_never_come_faster_than_the_cluster_may_be_asked(clock: VirtualClock, tmp_path: Path) -> None:
    watched = Watched(clock)
    async with reading(watched, clock, tmp_path, pace=2.0):
        watched.changing_until = 1000.0
        await clock.advance(60.0)

    assert 10 + 60 * 2 >= len(watched.looks) >= 60 * 2


async def test_a_wait_for_the_turn_to_look_is_a_pause_between_looks(clock: VirtualClock, tmp_path: Path) -> None:
    watched = Watched(clock)
    async with reading(watched, clock, tmp_path, pace=2.0):
        watched.changing_until = 20.0
        await clock.advance(30.0)

    last = [look for look in watched.looks if look >= 20.0]
    assert [0.5, 0.8, 1.6, 3.2] == [round(later - look, 1) for look, later in pairwise(last)]


async def test_what_a_replica_writes_down_is_told_at_once(clock: VirtualClock, tmp_path: Path) -> None:
    events = make_app(tmp_path, "a-1")
    watched = Watched(clock, "a-1", "missing-1")
    async with reading(watched, clock, tmp_path):
        await eventually(lambda: "1 files by inotify" in repr(follower_of(asyncio.get_running_loop())))
        assert [] == watched.looks
        (events / "main-0.ev").write_text("start 0 n1 1700000000.25\n")
        await eventually(lambda: watched.looks)
        seen = len(watched.looks)
        with (events / "main-0.ev").open("a") as file:
            file.write("exit 0 0 1700000001.25\n")
        await eventually(lambda: len(watched.looks) > seen)

        # Time has stood still: nothing but the notices can have told it.
        assert {0.0} == {*watched.looks}


async def test_apps_that_come_are_listened_to_and_those_that_go_are_not(clock: VirtualClock, tmp_path: Path) -> None:
    events = [make_app(tmp_path, f"a-{number}") for number in range(3)]
    watched = Watched(clock, "a-0")
    async with reading(watched, clock, tmp_path) as (_, port):
        assert port.on_add is not None
        assert port.on_discard is not None
        port.on_add("a-1")
        port.on_add("a-2")
        follower = follower_of(asyncio.get_running_loop())
        await eventually(lambda: "3 files by inotify" in repr(follower))
        port.on_discard("a-0")
        assert "2 files" in repr(follower)
        (events[2] / "x.ev").touch()
        await eventually(lambda: watched.looks)
    assert "0 files" in repr(follower)


@pytest.mark.parametrize("why", ["never", "EMFILE", "ENOSPC"])
async def test_without_inotify_it_looks(clock: VirtualClock, tmp_path: Path, why: str) -> None:
    make_app(tmp_path, "a-1")
    watched = Watched(clock, "a-1")
    async with asyncio.timeout(WITHIN), reading(watched, clock, tmp_path, follower=Follower(inotify=MAKERS[why])):
        while not watched.looks:
            await clock.advance(1.0)
