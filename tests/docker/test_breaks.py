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
from asyncsched.errors import ConflictError, UnavailableError
from asyncsched.schedulers.docker import DockerScheduler, labels
from asyncsched.schedulers.docker.request import container_body
from asyncsched.specs import AppState, Stream
from tests._support import eventually
from tests.docker._apps import OBEYS, app, shell
from tests.docker._proxy import CuttingProxy
from tests.services import dockerd as docker_service
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd

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


@pytest.mark.timeout(600)
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


async def created(scheduler: DockerScheduler) -> str:
    """Make an app of one container that was not started: the cheapest there is."""
    info = await scheduler.submit_dryrun(app(shell(":")))
    (container,) = info.request.containers
    daemon = await scheduler._docker()
    await daemon.create_container(container.name, container_body(container, "none", info.digest), operation="submit")
    return info.app_id


async def test_one_connection_tells_of_100_apps_and_its_loss_hides_nothing(proxy: CuttingProxy) -> None:
    async with DockerScheduler("session") as scheduler, DockerScheduler("another process") as other:
        ids = await gather_bounded(lambda _: created(other), range(100), 8)
        watches = [scheduler.watch([app_id]) for app_id in ids for _ in range(2)]
        for watch in watches:
            assert (await anext(watch)).state is AppState.PENDING
        await eventually(lambda: proxy.count("/events") == 1)
        await gather_bounded(other.cancel, ids[:30], 8)
        told = [(await anext(watch)).state for watch in watches[:60]]

        proxy.drop = lambda _, line: "before" if "/events" in line else ""
        proxy.cut("/events")
        await gather_bounded(other.cancel, ids[30:60], 8)
        assert proxy.count("/events") == 0
        proxy.drop = lambda _, line: ""
        told_late = [(await anext(watch)).state for watch in watches[60:120]]
        await eventually(lambda: proxy.count("/events") == 1)

        await gather_bounded(other.cancel, ids[60:], 8)
        told_again = [(await anext(watch)).state for watch in watches[120:]]
        assert 1 == proxy.count("/events")
        ends = [[event async for event in watch] for watch in watches]
        await gather_bounded(other.delete, ids, 8)

    assert [AppState.CANCELLED] * 200 == told + told_late + told_again
    assert [[]] * 200 == ends


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


async def test_a_foreign_container_is_not_removed_for_an_answer_that_was_lost(
    proxy: CuttingProxy, dockerd: Dockerd
) -> None:
    async with DockerScheduler("session") as scheduler:
        info = await scheduler.submit_dryrun(app(shell(OBEYS)))
        name = info.request.containers[0].name
        dockerd.api.json("POST", f"/containers/create?name={name}", {"Image": BUSYBOX_IMAGE, "Cmd": ["true"]})
        proxy.drop = lambda _, line: "after" if "/containers/create" in line else ""
        with pytest.raises(UnavailableError):
            await scheduler.schedule(info)
        proxy.drop = lambda _, line: ""

    left = dockerd.api.json("GET", "/containers/json?all=1")
    assert [[f"/{name}"]] == [container["Names"] for container in left]


async def test_a_submit_during_which_the_app_is_cancelled_leaves_nothing(proxy: CuttingProxy, dockerd: Dockerd) -> None:
    async with DockerScheduler("session") as scheduler:
        info = await scheduler.submit_dryrun(app(shell(OBEYS, num_replicas=3)))
        names = [container.name for container in info.request.containers]

        def cancel(_: int, line: str) -> str:
            while "/start" in line and names:  # what another process does that cancels the app at this moment
                name = names.pop()
                dockerd.api.call("POST", f"/containers/{name}/rename?name={name}{labels.CANCELLED}")
            return ""

        proxy.drop = cancel
        with pytest.raises(ConflictError, match=rf"{info.app_id} was cancelled or removed while it was submitted"):
            await scheduler.schedule(info)

    assert [] == dockerd.api.json("GET", "/containers/json?all=1")


@pytest.mark.parametrize("how", ["before", "after"])
async def test_a_cancel_that_is_cut_off_at_any_request_is_done_or_says_so(
    proxy: CuttingProxy, dockerd: Dockerd, how: str
) -> None:
    for number in range(100):
        async with DockerScheduler("session") as scheduler:
            app_id = await scheduler.submit(app(shell(OBEYS)))
            proxy.requests.clear()
            proxy.drop = lambda at, line, cut_at=number: how if at == cut_at else ""  # type: ignore[misc]
            try:
                await scheduler.cancel(app_id)
            except UnavailableError:
                proxy.drop = lambda at, line: ""
                await scheduler.cancel(app_id)
            last = await anext(event async for event in scheduler.watch([app_id]) if event.over)
            proxy.drop = lambda at, line: ""
            assert AppState.CANCELLED is last.state
            await scheduler.delete(app_id)
            if number >= 4:
                return  # list, rename and stop were cut, and more than these there are not
    raise AssertionError("unreachable")


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


async def test_runs_that_come_while_a_stream_is_opened_are_told_apart(proxy: CuttingProxy) -> None:
    async with DockerScheduler("session") as scheduler:
        app_id = await scheduler.submit(app(shell("echo try; sleep 1; exit 1", max_retries=1)))
        proxy.held = "/logs"
        tail = asyncio.create_task(collected(scheduler, app_id))
        await eventually(lambda: proxy.count("/logs") == 1)
        await anext(event async for event in scheduler.watch([app_id]) if event.over)
        proxy.release()
        attempts = await tail

    assert [0, 1] == attempts


async def collected(scheduler: DockerScheduler, app_id: str) -> list[int | None]:
    return [line.attempt async for line in scheduler.log_iter(app_id, should_tail=True)]
