"""Apps seen from other processes: while they run and afterwards, detached ones, and those of another release."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast
from uuid import uuid4

import pytest

from asyncsched.clock import Clock
from asyncsched.errors import SchedulerError
from asyncsched.runner import Runner
from asyncsched.schedulers._common.program import Programs
from asyncsched.schedulers.local import LocalScheduler
from asyncsched.schedulers.local.changes import LocalStateReader
from asyncsched.schedulers.local.client import Supervisors
from asyncsched.schedulers.local.lookup import Apps
from asyncsched.schedulers.local.state_dir import StateDir
from asyncsched.schedulers.local.status_record import read_record
from asyncsched.schedulers.state_reports import StatePort
from asyncsched.specs import AppState
from tests._cancelling import cancelled_at_each_await
from tests._support import WITHIN, eventually
from tests.local._local import (
    LOOKS_AROUND,
    ONE_LOOP,
    Other,
    app,
    app_directory,
    ended,
    first,
    lives,
    marked,
    read_state,
    shell,
    texts,
)

pytestmark = [ONE_LOOP, LOOKS_AROUND]

REPOSITORY = Path(__file__).parents[2]

SUBMITS = """
    async def main():
        async with LocalScheduler("session") as scheduler:
            role = shell("echo ready; until [ -e $1/go ]; do sleep 0.01; done; echo gone; exit 3", sys.argv[1])
            app_id = await scheduler.submit(app(role), {"detach": "detach" in sys.argv, "grace_period": 0.5})
            await first(scheduler, app_id)
            say(app_id)
            hear()
        say("closed")
    asyncio.run(main())
"""
"""Submits an app that waits for a file ``go`` in a directory, tells its id, and closes its scheduler when told so."""


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Where the app looks; its name marks its processes, and none of them is left."""
    directory = tmp_path / f"mark-{uuid4().hex}"
    directory.mkdir()
    yield directory
    (directory / "go").touch()


async def test_another_process_watches_reads_and_cancels_an_app(home: Path, directory: Path) -> None:
    with Other(SUBMITS, str(directory)) as owner:
        app_id = await owner.heard()
        async with LocalScheduler("other") as other:
            rows = await other.list()
            assert [(app_id, AppState.RUNNING, "session")] == [(r.app_id, r.state, r.session) for r in rows]
            tail = other.log_iter(app_id, should_tail=True)
            assert "ready\n" == await anext(tail)
            waiting = asyncio.create_task(ended(other, app_id))
            (directory / "go").touch()

            assert "gone\n" == await anext(tail)
            assert [] == [line async for line in tail]
            found = await waiting
            assert AppState.FAILED is found.state
            assert 3 == found.replicas[0].exit_code
            await other.delete(app_id)
            assert await other.describe(app_id) is None


@pytest.fixture
def runner(home: Path) -> Runner:
    """A runner of another session; to be made it looks for plugins on the disk."""
    return Runner("another")


async def test_another_process_cancels_an_app_by_its_handle(directory: Path, runner: Runner) -> None:
    with Other(SUBMITS, str(directory)) as owner:
        handle = f"local_cwd://session/{await owner.heard()}"
        async with runner:
            status = await runner.status(handle)
            assert status is not None
            assert AppState.RUNNING is status.state
            await runner.cancel(handle)
            status = await runner.wait(handle)
            assert status is not None
            assert AppState.CANCELLED is status.state
            assert ["ready"] == [line.text async for line in runner.log_lines(handle, "main", 0)]
            await runner.delete(handle)
            assert await runner.status(handle) is None


@pytest.mark.parametrize("how", ["close", "SIGKILL", "SIGTERM"])
async def test_a_detached_app_outlives_its_submitter(home: Path, directory: Path, how: str) -> None:
    with Other(SUBMITS, str(directory), "detach") as owner:
        app_id = await owner.heard()
        if how == "close":
            owner.say()
            assert "closed" == await owner.heard()
        else:
            owner.send(signal.Signals[how])
        await asyncio.to_thread(owner.wait)

        async with LocalScheduler("other") as other:
            found = await other.describe(app_id)
            assert found is not None
            assert AppState.RUNNING is found.state
            assert ["ready"] == await texts(other, app_id, should_tail=False)
            (directory / "go").touch()

            found = await ended(other, app_id)
            assert 3 == found.replicas[0].exit_code
            assert ["ready", "gone"] == await texts(other, app_id)
            supervisor = read_state(home, app_id)["supervisor"]
            await other.delete(app_id)
    await eventually(lambda: not lives(supervisor["pid"]) and not lives(supervisor["watcher_pid"]))
    assert [] == marked(directory.name)
    assert [] == [*(home / "supervisors").iterdir()]


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A copy of the package in a directory of its own, with what the other process's script needs."""
    release = tmp_path / "release"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "asyncsched", release / "asyncsched", ignore=ignored)
    shutil.copytree(REPOSITORY / "tests/local", release / "tests/local", ignore=ignored)
    for file in ("__init__.py", "_support.py"):
        shutil.copy(REPOSITORY / "tests" / file, release / "tests")
    return release


def _is_of(release: Path, home: Path, app_id: str) -> None:
    pid = read_state(home, app_id)["supervisor"]["pid"]
    assert str(release) in Path(f"/proc/{pid}/cmdline").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("then", ["removed", "replaced"])
async def test_a_detached_app_outlives_an_upgrade(home: Path, directory: Path, release: Path, then: str) -> None:
    with Other(SUBMITS, str(directory), "detach", path=release) as owner:
        app_id = await owner.heard()
        _is_of(release, home, app_id)
        owner.say()
        await asyncio.to_thread(owner.wait)
    shutil.rmtree(release / "asyncsched")
    if then == "replaced":
        for name in ("worker", "app", "replica", "main"):
            file = release / "asyncsched/schedulers/local/supervisor" / f"{name}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("raise SystemExit('of another release')")

    async with LocalScheduler("other") as other:
        found = await other.describe(app_id)
        assert found is not None
        assert AppState.RUNNING is found.state
        assert ["ready"] == await first(other, app_id)
        await other.cancel(app_id)
        assert AppState.CANCELLED is (await ended(other, app_id)).state
        await other.delete(app_id)
    assert [] == marked(directory.name)
    assert [] == [*home.glob("crash*")]


async def test_a_supervisor_of_another_protocol_is_an_error_that_says_so(
    home: Path, directory: Path, release: Path
) -> None:
    layout = release / "asyncsched/schedulers/local/supervisor/formats.py"
    text = layout.read_text()
    assert "PROTOCOL = 1\n" in text
    layout.write_text(text.replace("PROTOCOL = 1\n", "PROTOCOL = 2\n"))
    with Other(SUBMITS, str(directory), "detach", path=release) as owner:
        app_id = await owner.heard()
        _is_of(release, home, app_id)

        async with LocalScheduler("other") as other:
            with pytest.raises(SchedulerError, match=r"another release.*uses protocol 2, not 1"):
                await other.describe(app_id)
            with pytest.raises(SchedulerError, match="protocol 2"):
                await other.cancel(app_id)
            with pytest.raises(SchedulerError, match="protocol 2"):
                await other.delete(app_id)
            assert [(app_id, AppState.UNKNOWN)] == [(row.app_id, row.state) for row in await other.list()]

            # What it has written down is still understood, once there is nobody to be asked.
            (directory / "go").touch()
            await eventually(lambda: read_state(home, app_id)["finished_ns"] is not None)
            assert 3 == (await ended(other, app_id)).replicas[0].exit_code


async def test_many_processes_follow_one_app_to_its_end(scheduler: LocalScheduler) -> None:
    app_id = await scheduler.submit(app(shell("echo ready; exec sleep 1000", num_replicas=2)))
    others = [LocalScheduler(f"other-{number}") for number in range(5)]
    waiting = [asyncio.create_task(ended(each, app_id)) for each in others]
    reading = [asyncio.create_task(first(each, app_id, 2)) for each in others]
    assert [["ready", "ready"]] * 5 == await asyncio.gather(*reading)

    await others[0].cancel(app_id)

    assert {AppState.CANCELLED} == {found.state for found in await asyncio.gather(*waiting)}
    for each in others:
        await each.close()


async def test_an_app_whose_directory_is_removed_while_it_runs(scheduler: LocalScheduler, home: Path) -> None:
    app_id = await scheduler.submit(app(shell("echo ready; exec sleep 1000")), {"grace_period": 0.5})
    await first(scheduler, app_id)
    shutil.rmtree(app_directory(home, app_id))

    found = await scheduler.describe(app_id)
    assert found is not None
    assert AppState.RUNNING is found.state
    await scheduler.cancel(app_id)
    async with asyncio.timeout(WITHIN):
        async with scheduler.watch([app_id]) as watch:
            last = [event async for event in watch][-1]
    assert last.gone or (last.current is not None and last.current.state is AppState.CANCELLED)

    again = await scheduler.submit(app(shell("echo still there")))
    assert ["still there"] == await texts(scheduler, again)


async def test_an_app_that_was_ours_and_is_now_anothers_is_watched_to_its_end(
    scheduler: LocalScheduler, home: Path, tmp_path: Path
) -> None:
    definition = app(shell(f"test -e {tmp_path}/again || exit 0; exec sleep 1000"))
    app_id = await scheduler.submit(definition, key="one")
    async with LocalScheduler("session") as another:
        await ended(another, app_id)
        await another.delete(app_id)
        (tmp_path / "again").touch()
        assert app_id == await another.submit(definition, key="one")

        async with scheduler.watch([app_id]) as watch, asyncio.timeout(WITHIN):
            assert AppState.RUNNING is (await anext(watch)).state
            await another.kill(app_id)
            assert AppState.CANCELLED is [event async for event in watch][-1].state


class _Port:
    """Somebody who has asked for apps already, and is to be told of what has changed since."""

    def __init__(self, *app_ids: str) -> None:
        self.app_ids = app_ids
        self.told: set[str] = set()
        self.on_add: Callable[[str], None] | None = None
        self.on_discard: Callable[[str], None] | None = None

    def connected(self) -> None:
        pass

    def changed(self, *app_ids: str) -> None:
        self.told.update(app_ids)


async def test_the_end_of_an_app_that_nobody_tells_of_any_more_is_told(scheduler: LocalScheduler, home: Path) -> None:
    app_id = await scheduler.submit(app(shell("true")), {"detach": True})
    await ended(scheduler, app_id)
    place = StateDir([home])
    supervisors = Supervisors(place, Programs("local_cwd", clock=Clock()), Clock())
    port = _Port(app_id, "no-such-app")
    reader = LocalStateReader(cast("StatePort", port), Apps(place, supervisors), supervisors, Clock())
    reading = asyncio.create_task(reader.run())
    try:
        await eventually(lambda: port.told == {app_id, "no-such-app"})
    finally:
        reading.cancel()
        await asyncio.wait([reading])
        place.close()


async def test_a_connection_that_is_kept_stays_when_another_one_ends(scheduler: LocalScheduler, home: Path) -> None:
    app_id = await scheduler.submit(app(shell("exec sleep 1000")))
    record = read_record(app_id, (app_directory(home, app_id) / "state.json").read_bytes())
    place = StateDir([home])
    supervisors = Supervisors(place, Programs("local_cwd", clock=Clock()), Clock())
    lost: list[str] = []
    supervisors.listen(lambda *_: None, lost.append)
    try:
        async with supervisors.ask(record.supervisor) as passing:
            async with supervisors.ask(record.supervisor, keep=True) as kept:
                assert kept is not passing
        await passing.lost()

        async with supervisors.ask(record.supervisor) as again:
            assert kept is again
        assert [] == lost

        await scheduler.close()
        await kept.lost()
        assert [record.supervisor.socket] == lost
    finally:
        await supervisors.close(10.0)
        place.close()


async def test_asking_another_supervisor_leaves_nothing_when_it_is_cancelled_at_any_await(
    home: Path, directory: Path
) -> None:
    with Other(SUBMITS, str(directory)) as owner:
        app_id = await owner.heard()
        before = _descriptors()

        async def ask() -> bool:
            async with LocalScheduler("other") as other:
                return await other.exists(app_id)

        async for outcome in cancelled_at_each_await(ask):
            assert outcome.cancelled or outcome.result
            await eventually(lambda: before == _descriptors())


def _descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])
