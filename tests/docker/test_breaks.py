"""Connections that break, daemons that restart: nothing is lost, nothing repeated, no end that is none."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from asyncsched._tasks import gather_bounded
from asyncsched.errors import UnavailableError
from asyncsched.schedulers.docker import DockerScheduler
from asyncsched.specs import AppState, Stream
from tests._support import eventually
from tests.docker._apps import OBEYS, app, shell
from tests.docker._proxy import CuttingProxy
from tests.services import dockerd as docker_service
from tests.services.dockerd import Dockerd

pytestmark = [pytest.mark.service("dockerd"), pytest.mark.slow]


@pytest.fixture
async def proxy(
    dockerd: Dockerd, docker_host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[CuttingProxy]:
    directory = docker_service.new_directory()
    async with CuttingProxy(dockerd.socket, directory) as proxy:
        monkeypatch.setenv("DOCKER_HOST", proxy.host)
        yield proxy
    (directory / "proxy.sock").unlink(missing_ok=True)
    directory.rmdir()
    dockerd.clean()


def both_streams(count: int) -> str:
    return f"i=0; while [ $i -lt {count} ]; do echo out $i; echo err $i >&2; i=$((i+1)); done"


@pytest.mark.timeout(240)
@pytest.mark.guard(loop_step=False, reason="the proxy and 32 readers share this loop with the test's own bookkeeping")
async def test_every_line_once_over_connections_that_are_cut_at_random(proxy: CuttingProxy) -> None:
    replicas, count = 32, 20_000
    async with DockerScheduler("session") as scheduler:
        app_id = await scheduler.submit(app(shell(both_streams(count), num_replicas=replicas)))
        proxy.lifetime = (0.5, 2.0)
        seen: dict[tuple[int, Stream], int] = defaultdict(int)
        wrong: list[str] = []
        async for line in scheduler.log_iter(app_id, should_tail=True):
            place = (line.replica, line.stream)
            word = "out" if line.stream is Stream.STDOUT else "err"
            if line != f"{word} {seen[place]}\n":
                wrong.append(f"{place}: {line!r} instead of {seen[place]}")
            seen[place] += 1
        proxy.lifetime = None

    assert [] == wrong[:5]
    assert {(k, stream): count for k in range(replicas) for stream in (Stream.STDOUT, Stream.STDERR)} == seen
    assert proxy.cuts > 0


@pytest.mark.parametrize("ended", [True, False], ids=["of_an_ended_container", "of_a_running_container"])
async def test_a_log_whose_connection_is_cut_at_any_byte_is_whole(proxy: CuttingProxy, ended: bool) -> None:
    script = "echo one; echo two >&2; echo three; printf 'unfinished'; [ $0 = end ] || sleep 3"
    async with DockerScheduler("session") as scheduler:
        app_id = await scheduler.submit(app(shell(script.replace("$0", "end" if ended else "wait"))))
        if ended:
            await anext(event async for event in scheduler.watch([app_id]) if event.over)
        size = sum(len(line) + 39 for line in ("one\n", "two\n", "three\n", "unfinished")) + 300
        places = iter(range(1, size))

        def room(line: str) -> int | None:
            return next(places, None) if "/logs?" in line and "tail=" not in line else None

        proxy.room = room

        async def read(_: int) -> list[str]:
            return sorted([str(line) async for line in scheduler.log_iter(app_id, should_tail=True)])

        found = await gather_bounded(read, range(size), 40)

    assert [["one\n", "three\n", "two\n", "unfinished"]] * size == found
    assert next(places, None) is None


async def test_one_connection_for_the_events_of_all_watches(proxy: CuttingProxy) -> None:
    async with DockerScheduler("session") as scheduler:
        ids = [await scheduler.submit(app(shell(OBEYS))) for _ in range(4)]
        watches = [scheduler.watch([app_id]) for app_id in ids for _ in range(25)]
        for watch in watches:
            assert (await anext(watch)).state is AppState.RUNNING
        await eventually(lambda: proxy.count("/events") == 1)

        proxy.cut("/events")
        await scheduler.cancel(ids[0])
        ended = [await anext(watch) for watch in watches[:25]]
        await eventually(lambda: proxy.count("/events") == 1)
        for watch in watches:
            await watch.aclose()

    assert {AppState.CANCELLED} == {event.state for event in ended}
    assert 2 == sum("/events" in request for request in proxy.requests)


async def test_who_waits_is_told_as_soon_as_the_daemon_says_so(scheduler: DockerScheduler) -> None:
    # A daemon takes a container's network down before its lists tell of the end: that time is not ours.
    async def listed(app_id: str) -> float:
        async with DockerScheduler("another") as other:
            while (status := await other.describe(app_id)) is None or not status.state.is_terminal():
                pass
            return time.monotonic()

    async def told(app_id: str) -> float:
        await anext(event async for event in scheduler.watch([app_id]) if event.over)
        return time.monotonic()

    delays: list[float] = []
    for _ in range(10):
        app_id = await scheduler.submit(app(shell("sleep 0.3")))
        seen, heard = await asyncio.gather(listed(app_id), told(app_id))
        delays.append(heard - seen)

    assert sorted(delays)[len(delays) // 2] < 0.05


@pytest.fixture(params=[False, True], ids=["containers_end_with_it", "live_restore"])
def own_dockerd(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dockerd]:
    why = docker_service.why_it_cannot_run()
    if why:
        pytest.skip(why)
    daemon = Dockerd(docker_service.new_directory(), live_restore=request.param)
    try:
        daemon.start()
        daemon.import_images()
        monkeypatch.setenv("DOCKER_HOST", daemon.host)
        yield daemon
    finally:
        daemon.remove()


@pytest.mark.timeout(120)
async def test_a_tail_outlives_a_restart_of_the_daemon(own_dockerd: Dockerd) -> None:
    script = "trap 'exit 7' TERM; i=0; while [ $i -lt 400 ]; do echo $i; i=$((i+1)); usleep 20000; done"
    async with DockerScheduler("session") as scheduler:
        app_id = await scheduler.submit(app(shell(script)))
        lines: list[str] = []
        async for line in scheduler.log_iter(app_id, should_tail=True):
            lines.append(line.text)
            if len(lines) == 20:
                await asyncio.to_thread(own_dockerd.restart, signal.SIGTERM)
        status = await scheduler.describe(app_id)

    assert [str(number) for number in range(len(lines))] == lines
    assert status is not None
    if own_dockerd.live_restore:
        assert (AppState.SUCCEEDED, 400) == (status.state, len(lines))
    else:
        assert (AppState.FAILED, 7) == (status.state, status.replicas[0].exit_code)


@pytest.mark.parametrize("how", ["before", "after"])
async def test_a_submit_that_is_cut_off_at_any_request_leaves_nothing(
    proxy: CuttingProxy, dockerd: Dockerd, how: str
) -> None:
    for number in range(100):
        async with DockerScheduler("session") as scheduler:
            info = await scheduler.submit_dryrun(app(shell(OBEYS, num_replicas=2)))
            proxy.requests.clear()
            proxy.drop = lambda at, line, cut_at=number: how if at == cut_at else ""  # type: ignore[misc]
            with contextlib.suppress(UnavailableError):
                await scheduler.schedule(info)
                dockerd.clean()  # it got over the break
            proxy.drop = lambda at, line: ""
            assert [] == dockerd.api.json("GET", "/containers/json?all=1"), proxy.requests[number]
            if number >= len(proxy.requests):
                return  # no request was left to be cut
    raise AssertionError("a submit of two replicas took a hundred requests")


async def test_a_submit_that_is_cancelled_at_any_request_leaves_nothing(proxy: CuttingProxy, dockerd: Dockerd) -> None:
    for number in range(100):
        async with DockerScheduler("session") as scheduler:
            info = await scheduler.submit_dryrun(app(shell(OBEYS, num_replicas=2)))
            proxy.requests.clear()
            task = asyncio.ensure_future(scheduler.schedule(info))

            def cancel(at: int, line: str, number: int = number, task: asyncio.Future[str] = task) -> str:
                if at == number:
                    task.cancel()
                return ""

            proxy.drop = cancel
            await asyncio.wait([task])
            proxy.drop = lambda at, line: ""
            if not task.cancelled():
                assert number >= len(proxy.requests)
                dockerd.clean()
                return
            assert [] == dockerd.api.json("GET", "/containers/json?all=1"), proxy.requests[number]
    raise AssertionError("a submit of two replicas took a hundred requests")
