"""Files that grow: told by inotify, and by looking again where there is none."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from typing_extensions import override

from asyncsched.logs.inotify import Follower, Inotify, follower_of
from asyncsched.testing.clock import VirtualClock
from tests._support import WITHIN, eventually
from tests.logs._inotify import MAKERS, NoWatches, open_files


@pytest.fixture(params=MAKERS)
def follower(request: pytest.FixtureRequest) -> Follower:
    return Follower(inotify=MAKERS[request.param])


@pytest.fixture
def descriptors(tmp_path: Path) -> Iterator[Callable[[str], int]]:
    opened: list[int] = []

    def open_one(name: str) -> int:
        opened.append(os.open(tmp_path / name, os.O_CREAT | os.O_RDONLY))
        return opened[-1]

    yield open_one
    for fd in opened:
        os.close(fd)


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more\n")


async def test_growth_is_told(follower: Follower, tmp_path: Path, descriptors: Callable[[str], int]) -> None:
    told: list[str] = []
    watches = [follower.watch(descriptors(name), partial(told.append, name)) for name in "abc"]
    grow(tmp_path / "a")
    await eventually(lambda: "a" in told)
    assert {"a"} == set(told)
    grow(tmp_path / "c")
    await eventually(lambda: "c" in told)
    for watch in watches:
        watch.close()
        watch.close()
    told.clear()
    grow(tmp_path / "b")
    await asyncio.sleep(0)

    assert [] == told


async def test_two_watches_of_one_file_are_two(
    follower: Follower, tmp_path: Path, descriptors: Callable[[str], int]
) -> None:
    told: list[str] = []
    first = follower.watch(descriptors("a"), lambda: told.append("first"))
    second = follower.watch(descriptors("a"), lambda: told.append("second"))
    grow(tmp_path / "a")
    await eventually(lambda: {"first", "second"} == set(told))
    first.close()
    told.clear()
    grow(tmp_path / "a")
    await eventually(lambda: "second" in told)
    second.close()

    assert "first" not in told


async def test_what_is_made_in_a_directory_is_told(follower: Follower, tmp_path: Path) -> None:
    told = asyncio.Event()
    at = os.open(tmp_path, os.O_RDONLY)
    watch = follower.watch(at, told.set)
    os.close(at)
    (tmp_path / "new").touch()
    async with asyncio.timeout(WITHIN):
        await told.wait()
    watch.close()


async def test_a_file_is_watched_and_not_its_descriptor(
    follower: Follower, tmp_path: Path, descriptors: Callable[[str], int]
) -> None:
    told = asyncio.Event()
    fd = os.open(tmp_path / "a", os.O_CREAT | os.O_RDONLY)
    watch = follower.watch(fd, told.set)
    os.close(fd)
    descriptors("b")  # which has the same number
    (tmp_path / "a").rename(tmp_path / "renamed")
    grow(tmp_path / "renamed")
    async with asyncio.timeout(WITHIN):
        await told.wait()
    watch.close()


async def test_a_removed_file_can_be_let_go(
    follower: Follower, tmp_path: Path, descriptors: Callable[[str], int]
) -> None:
    watch = follower.watch(descriptors("a"), lambda: None)
    (tmp_path / "a").unlink()
    other = follower.watch(descriptors("a"), lambda: None)
    watch.close()
    other.close()


async def test_one_instance_as_long_as_there_is_a_watch(descriptors: Callable[[str], int]) -> None:
    follower = follower_of(asyncio.get_running_loop())
    before = instances()
    watches = [follower.watch(descriptors(str(number)), lambda: None) for number in range(20)]
    assert follower is follower_of(asyncio.get_running_loop())
    assert 1 + before == instances()
    for watch in watches:
        watch.close()

    await eventually(lambda: before == instances())


def test_each_loop_has_its_own() -> None:
    async def mine() -> Follower:
        return follower_of(asyncio.get_running_loop())

    with asyncio.Runner() as one, asyncio.Runner() as other:
        assert one.run(mine()) is one.run(mine())
        assert one.run(mine()) is not other.run(mine())


async def test_an_overflow_of_the_queue_is_a_look_at_everything(
    tmp_path: Path, descriptors: Callable[[str], int]
) -> None:
    class Overflown(Inotify):
        @override
        def read(self) -> Iterator[tuple[int, int]]:
            list(super().read())
            yield -1, 0x4000

    told: set[str] = set()
    follower = Follower(inotify=Overflown)
    watches = [follower.watch(descriptors(name), partial(told.add, name)) for name in "ab"]
    grow(tmp_path / "a")
    await eventually(lambda: {"a", "b"} == told)
    for watch in watches:
        watch.close()


async def test_a_quiet_file_is_looked_at_less_and_less(tmp_path: Path, descriptors: Callable[[str], int]) -> None:
    clock = VirtualClock()
    told: list[float] = []
    watch = Follower(clock=clock, inotify=None).watch(descriptors("a"), lambda: told.append(clock.monotonic()))
    await clock.advance(60)
    grow(tmp_path / "a")
    while not told:
        await clock.advance(0.005)
    assert 60 < told[0] <= 60.25
    grow(tmp_path / "a")
    await clock.advance(0.005)
    watch.close()

    assert 2 == len(told)


async def test_a_refusal_holds_for_a_second(descriptors: Callable[[str], int]) -> None:
    tries: list[float] = []

    class Counted(NoWatches):
        @override
        def __init__(self) -> None:
            tries.append(clock.monotonic())
            super().__init__()

    clock = VirtualClock()
    follower = Follower(clock=clock, inotify=Counted)
    watches = [follower.watch(descriptors(name), lambda: None) for name in "abc"]
    await clock.advance(1)
    watches += [follower.watch(descriptors(name), lambda: None) for name in "de"]
    for watch in watches:
        watch.close()

    assert [0.0, 1.0] == tries


async def test_polling_needs_no_descriptor(tmp_path: Path, descriptors: Callable[[str], int]) -> None:
    told = asyncio.Event()
    fd = descriptors("a")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (fd + 1, hard))
    try:
        watch = Follower().watch(fd, told.set)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    async with asyncio.timeout(WITHIN):
        await told.wait()  # it looks for itself whether there is more
    watch.close()


def instances() -> int:
    return sum("inotify" in kind for kind in open_files())
