"""Connections that break, daemons that restart: nothing is lost, nothing repeated, no end that is none."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import pytest

from asyncsched._tasks import gather_bounded
from asyncsched.clock import Clock
from asyncsched.errors import ConflictError, InvalidRequestError, UnavailableError
from asyncsched.schedulers.docker import DockerScheduler
from asyncsched.schedulers.docker import names as labels
from asyncsched.schedulers.docker.request import to_wire
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.specs import AppState, BindMount, Stream
from asyncsched.testing import VirtualClock
from tests._support import WITHIN, eventually
from tests.docker._apps import OBEYS, Gate, app, shell
from tests.docker._proxy import CuttingProxy
from tests.services import dockerd as docker_service
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd

pytestmark = [pytest.mark.service("dockerd"), pytest.mark.slow]


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
            await anext(event async for event in scheduler.watch([app_id]) if event.is_terminal())
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


@pytest.mark.parametrize("room", [64 * 1024, 100_000, 400_000])
@pytest.mark.parametrize("tail", [True, False])
@pytest.mark.guard(loop_step=False, reason="the proxy shares this loop with the reader")
async def test_a_log_gets_on_however_little_a_connection_lets_through(
    proxy: CuttingProxy, room: int, tail: bool
) -> None:
    burst = "x=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; i=0; while [ $i -lt 8000 ]; do echo out $i $x; i=$((i+1)); done; "
    mixed = "i=0; while [ $i -lt 1000 ]; do echo out 8$i $x; echo err $i $x >&2; i=$((i+1)); done"
    async with DockerScheduler("session") as scheduler:
        scheduler.retry_for = 20
        app_id = await scheduler.submit(app(shell(burst + mixed)))
        if not tail:
            await anext(event async for event in scheduler.watch([app_id]) if event.is_terminal())
        proxy.room = lambda line: room if "/logs?" in line else None
        seen: dict[Stream, list[str]] = defaultdict(list)
        async for line in scheduler.log_iter(app_id, should_tail=tail):
            assert line.gap is None
            seen[line.stream].append(line.split()[1])
        proxy.room = lambda line: None

    assert [str(n) for n in range(8000)] + [f"8{n}" for n in range(1000)] == seen[Stream.STDOUT]
    assert [str(n) for n in range(1000)] == seen[Stream.STDERR]


async def created(scheduler: DockerScheduler) -> str:
    """Make an app of one container that was not started: the cheapest there is."""
    info = await scheduler.submit_dryrun(app(shell(":")))
    (container,) = info.request.containers
    daemon = await scheduler._docker()
    await daemon.create_container(container.name, to_wire(container, "none", info.digest), operation="submit")
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


async def test_an_end_whose_event_the_daemon_has_skipped_is_told_nevertheless(proxy: CuttingProxy) -> None:
    clock = VirtualClock()
    async with DockerScheduler("session", clock=clock) as scheduler, DockerScheduler("another process") as other:
        ids = [await created(other) for _ in range(2)]
        watches = [scheduler.watch([app_id]) for app_id in ids]
        for watch in watches:
            assert (await anext(watch)).state is AppState.PENDING
        await other.cancel(ids[0])
        assert (await anext(watches[0])).state is AppState.CANCELLED  # so the events arrive

        proxy.silenced = "/events"
        await other.cancel(ids[1])
        async with asyncio.timeout(WITHIN):
            step = asyncio.create_task(anext(watches[1]))
            await clock.advance(30)
            assert (await step).state is AppState.CANCELLED
        await gather_bounded(other.delete, ids, 8)


async def test_who_waits_is_told_as_soon_as_the_daemon_says_so(scheduler: DockerScheduler) -> None:
    # A daemon takes a container's network down before its lists tell of the end: that time is not ours.
    answers_before_told: list[int] = []
    async with DockerScheduler("another") as other:
        for _ in range(10):
            app_id = await scheduler.submit(app(shell("sleep 0.3")))
            told = asyncio.ensure_future(
                anext(event async for event in scheduler.watch([app_id]) if event.is_terminal())
            )
            late = 0
            while not told.done():
                status = await other.describe(app_id)
                late += status is not None and status.state.is_terminal() and not told.done()
            answers_before_told.append(late)

    assert sorted(answers_before_told)[5] <= 8


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


def _kept_by(daemon: Dockerd) -> list[str]:
    """Return the lines in the daemon's own file of its only container's log."""
    (log,) = daemon.directory.glob("data/containers/*/*-json.log")
    return [json.loads(row)["log"].removesuffix("\n") for row in log.read_text().splitlines()]


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

    # Of the lines that it has read, and not written yet, a daemon that ends may lose one.
    assert _kept_by(own_dockerd) == lines
    assert sorted({int(line) for line in lines}) == [int(line) for line in lines]
    assert status is not None
    if own_dockerd.live_restore:
        assert (AppState.SUCCEEDED, "399") == (status.state, lines[-1])
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
        drop_once(proxy, "after", "/containers/create")
        with pytest.raises(ConflictError, match=f"the container name {name} is taken"):
            await scheduler.schedule(info)

    left = dockerd.api.json("GET", "/containers/json?all=1")
    assert [[f"/{name}"]] == [container["Names"] for container in left]


async def test_an_own_container_whose_creation_was_not_answered_is_removed_with_the_others(
    proxy: CuttingProxy, dockerd: Dockerd
) -> None:
    async with DockerScheduler("session") as scheduler:
        info = await scheduler.submit_dryrun(app(shell(OBEYS), shell("no-such-program", name="second")))
        info.request.containers[1].command = ["/no/such/program"]
        drop_once(proxy, "after", "/containers/create")
        with pytest.raises(InvalidRequestError, match="no such file"):
            await scheduler.schedule(info)

    assert 1 == proxy.cuts
    assert [] == dockerd.api.json("GET", "/containers/json?all=1")


def drop_once(proxy: CuttingProxy, how: str, of: str = "") -> None:
    """Cut the connection of the first request that contains this."""

    def drop(_: int, line: str) -> str:
        if of not in line:
            return ""
        proxy.drop = lambda _, line: ""
        return how

    proxy.drop = drop


async def read_to_the_end(scheduler: DockerScheduler, app_id: str) -> object:
    return [str(line) async for line in scheduler.log_iter(app_id, should_tail=True)]


async def end_and_remove(scheduler: DockerScheduler, app_id: str) -> object:
    await scheduler.kill(app_id)
    await anext(event async for event in scheduler.watch([app_id]) if event.is_terminal())
    await scheduler.delete(app_id)
    return await scheduler.describe(app_id)


OPERATIONS: dict[str, Callable[[DockerScheduler, str], Awaitable[object]]] = {
    "describe": lambda scheduler, app_id: scheduler.describe(app_id),
    "describe_many": lambda scheduler, app_id: scheduler.describe_many([app_id, "other"]),
    "list": lambda scheduler, app_id: scheduler.list(),
    "cancel": lambda scheduler, app_id: scheduler.cancel(app_id),
    "log_iter": read_to_the_end,
    "kill_and_delete": end_and_remove,
    "prune": lambda scheduler, app_id: scheduler.prune(timedelta(0)),
}


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_an_operation_gets_over_one_cut_at_any_request(
    proxy: CuttingProxy, dockerd: Dockerd, operation: str, how: str
) -> None:
    act = OPERATIONS[operation]
    script = "echo hello; sleep 0.2" if operation in ("log_iter", "prune") else OBEYS
    most = 0
    async with DockerScheduler("session") as submitter:
        for number in range(100):
            app_id = await submitter.submit(app(shell(script)))
            async with DockerScheduler("another") as scheduler:
                proxy.requests.clear()
                proxy.drop = lambda at, line, cut_at=number: how if at == cut_at else ""  # type: ignore[misc]
                told = await act(scheduler, app_id)
                # Not the last one's: a watch looks after the containers of all that have ended just now.
                most = most or len(proxy.requests)
                proxy.drop = lambda at, line: ""
                status = await submitter.describe(app_id)
            dockerd.clean()
            check_done(operation, told, status)
            if number > most:
                return  # no request was left to be cut
    raise AssertionError("it took a hundred requests")


def check_done(operation: str, told: object, status: DescribeAppResponse | None) -> None:
    if operation == "log_iter":
        assert ["hello\n"] == told
    elif operation == "kill_and_delete":
        assert (None, None) == (told, status)
    elif operation == "cancel":
        assert status is not None
    elif operation in ("describe", "describe_many", "list"):
        assert told


@pytest.mark.parametrize("how", ["before", "after"])
async def test_a_submit_gets_over_one_cut_at_any_request_that_may_be_made_twice(
    proxy: CuttingProxy, dockerd: Dockerd, how: str
) -> None:
    for number in range(100):
        async with DockerScheduler("session") as scheduler:
            proxy.requests.clear()
            proxy.drop = lambda at, line, cut_at=number: (  # type: ignore[misc]
                how if at == cut_at and not line.partition(" HTTP")[0].endswith("/start") else ""
            )
            app_id = await scheduler.submit(app(shell("echo once", num_replicas=2)))
            most = len(proxy.requests)
            proxy.drop = lambda at, line: ""
            lines = [str(line) async for line in scheduler.log_iter(app_id, should_tail=True)]
            made = dockerd.api.json("GET", "/containers/json?all=1")
        dockerd.clean()
        assert (["once\n"] * 2, 2) == (lines, len(made))
        if number >= most:
            return  # no request was left to be cut
    raise AssertionError("it took a hundred requests")


class PausesTakeNoTime(Clock):
    """Its time is what was slept."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, delay: float) -> None:
        self.now += delay


async def test_a_daemon_that_cuts_every_connection_is_given_up_in_time(proxy: CuttingProxy) -> None:
    dockerd = await asyncio.to_thread(import_module, "asyncsched._dockerd")  # takes longer than a step may
    proxy.drop = lambda _, line: "after"
    daemon = dockerd.Daemon(clock=(clock := PausesTakeNoTime()), retry_for=60.0)
    with pytest.raises(UnavailableError, match=r"cannot reach Docker.*disconnected"):
        await daemon.list_containers(["x"], operation="list")
    await daemon.close()
    proxy.drop = lambda _, line: ""

    assert 58.0 <= clock.now < 60.0
    assert 30 <= proxy.cuts <= 140  # aiohttp itself asks a second time over a fresh connection


async def test_a_daemon_that_is_gone_after_a_cut_is_not_waited_for(
    proxy: CuttingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with DockerScheduler("session") as scheduler:
        await scheduler.list()
        proxy.drop = lambda _, line: "before"
        await proxy.leave()
        with pytest.raises(UnavailableError, match=r"no such file or directory|connection refused"):
            await scheduler.list()

    assert len(proxy.requests) <= 3


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


@pytest.mark.parametrize("first", ["made it", "completes it"])
async def test_two_submits_of_one_app_start_each_replica_once(
    proxy: CuttingProxy, dockerd: Dockerd, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: str
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    script = "echo run >> /out/${replica_id}"
    role = shell(script, num_replicas=3, mounts=[BindMount(str(out), "/out")])
    async with DockerScheduler("session") as made_it:
        info = await made_it.submit_dryrun(app(role))
        proxy.held = "/start"
        making = asyncio.ensure_future(made_it.schedule(info))
        await eventually(lambda: proxy.count("/start") == 3)
        monkeypatch.setenv("DOCKER_HOST", f"unix://{dockerd.socket}")
        if first == "made it":  # the second one has seen that nothing is started, and comes late
            async with CuttingProxy(dockerd.socket, tmp_path) as late, DockerScheduler("session") as other:
                monkeypatch.setenv("DOCKER_HOST", late.host)
                late.held = "POST"
                completing = asyncio.ensure_future(other.schedule(info))
                await eventually(lambda: late.count("POST") == 3)
                proxy.release()
                await making
                await anext(event async for event in made_it.watch([info.app_id]) if event.is_terminal())
                late.release()
                await completing
        else:
            async with DockerScheduler("session") as other:
                await other.schedule(info)
                await anext(event async for event in other.watch([info.app_id]) if event.is_terminal())
            proxy.release()
            await making
        assert [info.app_id] == [row.app_id for row in await made_it.list()]
        status = await made_it.describe(info.app_id)

    assert status is not None
    assert [AppState.SUCCEEDED] * 3 == [replica.state for replica in status.replicas]
    assert ["run\n"] * 3 == [file.read_text() for file in sorted(out.iterdir())]


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
            last = await anext(event async for event in scheduler.watch([app_id]) if event.is_terminal())
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


async def test_runs_that_come_while_a_stream_is_opened_are_told_apart(proxy: CuttingProxy, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    async with DockerScheduler("session") as scheduler:
        script = f"echo try; {Gate.passed}; exit 1"
        app_id = await scheduler.submit(app(shell(script, max_retries=1, mounts=gate.mounts)))
        proxy.held = "/logs"
        tail = asyncio.create_task(collected(scheduler, app_id))
        await eventually(lambda: proxy.count("/logs") == 1)
        gate.open()
        await anext(event async for event in scheduler.watch([app_id]) if event.is_terminal())
        proxy.release()
        attempts = await tail

    assert [0, 1] == attempts


async def collected(scheduler: DockerScheduler, app_id: str) -> list[int | None]:
    return [line.attempt async for line in scheduler.log_iter(app_id, should_tail=True)]
