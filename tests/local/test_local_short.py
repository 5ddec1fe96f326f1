"""An app that cannot be looked at for now is neither gone nor over: it goes on, and the same call works later."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from asyncsched.errors import SchedulerError, UnavailableError
from asyncsched.schedulers.local import LocalScheduler, client, lookup
from asyncsched.schedulers.local.client_processes import until_ended
from asyncsched.schedulers.local.client_start import PendingSupervisor
from asyncsched.schedulers.local.state_dir import StateDir
from asyncsched.schedulers.local.status_record import SpoiltError
from asyncsched.schedulers.local.supervisor import host
from asyncsched.schedulers.local.supervisor.identity_tags import TAG, end_marked, first_tag
from asyncsched.specs import AppState
from tests._support import WITHIN, eventually
from tests.local._local import (
    ONE_LOOP,
    app,
    app_directory,
    ended,
    first,
    lives,
    read_state,
    shell,
    write_state,
)

pytestmark = ONE_LOOP

WAITS = "echo ready; exec sleep 1000"
BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Opening:
    """Files that cannot be opened for now.

    Attributes:
        failed: Those that somebody tried to open.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.failed: list[str] = []
        self._path = ""
        self._times = self._after = 0
        self._number = 0
        self._open = os.open
        monkeypatch.setattr(os, "open", self)
        monkeypatch.setattr(os, "supports_dir_fd", {*os.supports_dir_fd, self})

    def __call__(self, path: Any, *args: Any, **options: Any) -> int:
        if path == self._path and self._after > 0:
            self._after -= 1
        elif path == self._path and self._times > 0:
            self._times -= 1
            self.failed.append(path)
            raise OSError(self._number, os.strerror(self._number), path)
        return self._open(path, *args, **options)

    def fail(self, path: str, number: int = errno.EMFILE, *, times: int = sys.maxsize, after: int = 0) -> None:
        """Let one fail some times, after it has been opened some times."""
        self._path, self._number, self._times, self._after = path, number, times, after

    def work(self) -> None:
        """Let none fail any more."""
        self._times = 0


@pytest.fixture
def opening(monkeypatch: pytest.MonkeyPatch) -> Opening:
    """What cannot be opened; this process does not know yet where it runs."""
    monkeypatch.setattr(lookup, "_place", {})
    return Opening(monkeypatch)


def _stat(pid: int) -> str:
    return f"/proc/{pid}/stat"


async def test_a_machine_that_cannot_be_identified_for_now_was_not_restarted(
    scheduler: LocalScheduler, home: Path, opening: Opening
) -> None:
    app_id = await scheduler.submit(app(shell(WAITS)))
    await first(scheduler, app_id)
    async with LocalScheduler("another") as another:
        for look in (another.describe, another.cancel, another.delete):
            opening.fail(BOOT_ID, times=1)
            with pytest.raises(UnavailableError, match="this machine cannot be identified") as caught:
                await look(app_id)
            assert caught.value.retryable
            assert "ulimit -n" in caught.value.fix

        found = await another.describe(app_id)
        assert found is not None
        assert AppState.RUNNING is found.state
        await another.cancel(app_id)
    assert AppState.CANCELLED is (await ended(scheduler, app_id)).state


async def test_a_machine_that_does_not_tell_its_boot_was_not_restarted(
    scheduler: LocalScheduler, opening: Opening
) -> None:
    app_id = await scheduler.submit(app(shell(WAITS)))
    await first(scheduler, app_id)
    async with LocalScheduler("another") as another:
        opening.fail(BOOT_ID, errno.EACCES)
        found = await another.describe(app_id)
        assert found is not None
        assert AppState.UNKNOWN is found.state

        opening.work()
        found = await another.describe(app_id)
        assert found is not None
        assert AppState.RUNNING is found.state


async def _left_behind(scheduler: LocalScheduler, home: Path) -> tuple[str, int]:
    """Return an app without a supervisor, of which a process runs."""
    app_id = await scheduler.submit(app(shell("true")))
    await ended(scheduler, app_id)
    record = read_state(home, app_id)
    mine = {"pid": os.getpid(), "start": await asyncio.to_thread(host.start_time, os.getpid())}
    record["finished_ns"] = None
    record["supervisor"] |= {"pid": os.getpid(), "start": 1, "socket": "none.sock"}
    record["replicas"][0] |= {**mine, "over": False, "exit_code": None, "finished_ns": None}
    write_state(home, app_id, record)
    return app_id, os.getpid()


async def test_a_process_that_cannot_be_looked_at_has_not_ended(
    scheduler: LocalScheduler, home: Path, opening: Opening
) -> None:
    app_id, pid = await _left_behind(scheduler, home)
    async with LocalScheduler("another") as another:
        for look in (another.describe, another.delete):
            opening.fail(_stat(pid))
            with pytest.raises(UnavailableError, match=f"the process {pid} cannot be looked at"):
                await look(app_id)
        assert [app_id] == [row.app_id for row in await another.list()]
        assert [] == await another.prune(timedelta(0))
        opening.work()

        found = await another.describe(app_id)
        assert found is not None
        assert AppState.RUNNING is found.state
        assert app_directory(home, app_id).exists()


@pytest.mark.parametrize("way", ["delete", "prune", "submit"])
async def test_a_start_that_cannot_be_looked_at_was_not_cut_off(
    scheduler: LocalScheduler, home: Path, opening: Opening, way: str
) -> None:
    definition = app(shell("true"))
    app_id = await scheduler.submit(definition, key="k")
    await ended(scheduler, app_id)
    record = read_state(home, app_id)
    supervisor = {"pid": os.getppid(), "start": await asyncio.to_thread(host.start_time, os.getppid())}
    record["supervisor"] |= supervisor
    write_state(home, app_id, {**record, "started_ns": None, "finished_ns": None})
    old = app_directory(home, app_id) / "state.json"
    os.utime(old, (1, 1))
    async with LocalScheduler("session") as another:
        calls = {
            "delete": lambda: another.delete(app_id),
            "prune": lambda: another.prune(timedelta(0)),
            "submit": lambda: another.submit(definition, key="k"),
        }
        opening.fail(_stat(os.getppid()))
        with pytest.raises(UnavailableError, match=f"the process {os.getppid()} cannot be looked at"):
            await calls[way]()

    assert old.exists()


async def test_a_draft_whose_maker_cannot_be_looked_at_stays(
    scheduler: LocalScheduler, home: Path, opening: Opening
) -> None:
    await ended(scheduler, await scheduler.submit(app(shell("true"))))
    pid = os.getppid()
    draft = home / "apps" / f".{pid}-{await asyncio.to_thread(host.start_time, pid)}-0.copied"
    draft.mkdir()
    os.utime(draft, (1, 1))
    for each in (home / "apps").glob("*/state.json"):
        os.utime(each, (1, 1))
    opening.fail(_stat(pid))
    with pytest.raises(UnavailableError, match="cannot be looked at"):
        await scheduler.prune(timedelta(days=1))

    assert draft.exists()


async def test_a_submitter_that_cannot_be_identified_may_submit_again(
    home: Path, tmp_path: Path, opening: Opening
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    async with LocalScheduler("session") as scheduler:
        for workspace in (None, str(files)):
            opening.fail(_stat(os.getpid()), times=1)
            with pytest.raises(UnavailableError, match="Too many open files"):
                await scheduler.submit(app(shell("true")), workspace=workspace)
            opening.work()
            app_id = await scheduler.submit(app(shell("true")), workspace=workspace)
            assert AppState.SUCCEEDED is (await ended(scheduler, app_id)).state
            await scheduler._supervisors.stop()


def test_a_supervisor_that_cannot_be_started_ahead_leaves_nothing_open(home: Path, opening: Opening) -> None:
    state = StateDir([home])
    state.make()
    before = len([*Path("/proc/self/fd").iterdir()])
    opening.fail(_stat(os.getpid()))
    with pytest.raises(OSError, match="Too many open files"):
        PendingSupervisor(state)

    assert before == len([*Path("/proc/self/fd").iterdir()])
    state.close()


async def test_a_process_is_waited_for_while_it_cannot_be_looked_at(
    scheduler: LocalScheduler, home: Path, opening: Opening
) -> None:
    app_id = await scheduler.submit(app(shell(WAITS)))
    await first(scheduler, app_id)
    replica = read_state(home, app_id)["replicas"][0]
    opening.fail(_stat(replica["pid"]), times=2)
    waiting = asyncio.create_task(until_ended(replica["pid"], replica["start"], scheduler.clock))
    await eventually(lambda: len(opening.failed) == 2)
    assert not waiting.done()
    await scheduler.kill(app_id)
    await waiting
    assert not lives(replica["pid"])


def test_what_a_supervisor_left_is_looked_for_until_all_can_be_seen(opening: Opening) -> None:
    # Processes of another supervisor: the first look at one of them fails.
    name, tag = (1 << 22) - 1, first_tag((1 << 22) - 1, 7)
    with subprocess.Popen(["sleep", "1000"]) as process:
        resource.prlimit(process.pid, TAG, (tag, resource.RLIM_INFINITY))
        opening.fail(_stat(process.pid), times=1)

        assert end_marked(name, 7)
        assert -signal.SIGKILL == process.wait(WITHIN)
    assert [_stat(process.pid)] == opening.failed


@pytest.mark.parametrize("missing", ["a socket", "their directory"])
async def test_a_supervisor_that_cannot_be_reached_for_now_has_not_ended(
    scheduler: LocalScheduler, monkeypatch: pytest.MonkeyPatch, opening: Opening, missing: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    app_id = await scheduler.submit(app(shell(WAITS)))
    await first(scheduler, app_id)
    async with LocalScheduler("another") as another:
        with monkeypatch.context() as short:
            if missing == "a socket":
                short.setattr(client, "socket", SimpleNamespace(**{**vars(socket), "socket": fail}))
            else:
                opening.fail("supervisors")
            for look in (another.describe, another.cancel, another.kill, another.delete):
                with pytest.raises(UnavailableError, match="Too many open files") as caught:
                    await look(app_id)
                assert caught.value.retryable
            assert [AppState.UNKNOWN] == [row.state for row in await another.list()]
        opening.work()

        found = await another.describe(app_id)
        assert found is not None
        assert AppState.RUNNING is found.state
        await another.cancel(app_id)
    assert AppState.CANCELLED is (await ended(scheduler, app_id)).state


async def test_a_supervisor_that_could_not_be_reached_when_a_watch_began_is_watched(
    scheduler: LocalScheduler, opening: Opening
) -> None:
    app_id = await scheduler.submit(app(shell(WAITS)))
    await first(scheduler, app_id)
    async with LocalScheduler("another") as another:
        opening.fail("supervisors", times=3)
        waiting = asyncio.create_task(ended(another, app_id))
        await eventually(lambda: len(opening.failed) == 3)
        await scheduler.cancel(app_id)

        assert AppState.CANCELLED is (await waiting).state


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC, errno.EIO, errno.ESTALE, errno.EACCES])
@pytest.mark.parametrize("after", [0, 1], ids=["looking", "removing"])
async def test_an_app_whose_record_cannot_be_read_for_now_is_not_told_as_removed(
    scheduler: LocalScheduler, home: Path, opening: Opening, after: int, number: int
) -> None:
    app_id = await scheduler.submit(app(shell("true")))
    await ended(scheduler, app_id)
    scheduler._apps._mine.clear()
    opening.fail("state.json", number, after=after)
    with pytest.raises(SchedulerError, match=f"the record of {app_id} cannot be read") as caught:
        await scheduler.delete(app_id)
    assert not isinstance(caught.value, SpoiltError)  # which says that the app may be deleted
    assert (number != errno.EACCES) == caught.value.retryable
    opening.fail("state.json", number, after=after)
    if after:
        with pytest.raises(SchedulerError, match="cannot be read"):
            await scheduler.prune(timedelta(0))
    else:
        assert [] == await scheduler.prune(timedelta(0))
    opening.work()

    assert (app_directory(home, app_id) / "state.json").exists()
    assert [app_id] == await scheduler.prune(timedelta(0))
    assert not app_directory(home, app_id).exists()


async def test_what_is_left_of_an_app_and_cannot_be_read_for_now_is_not_told_as_removed(
    scheduler: LocalScheduler, home: Path, opening: Opening
) -> None:
    app_id = await scheduler.submit(app(shell("true")))
    await ended(scheduler, app_id)
    scheduler._apps._mine.clear()
    (app_directory(home, app_id) / "state.json").unlink()
    opening.fail("state.json", after=1)
    with pytest.raises(UnavailableError, match=f"the record of {app_id} cannot be read"):
        await scheduler.delete(app_id)
    opening.work()

    await scheduler.delete(app_id)
    assert not app_directory(home, app_id).exists()


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EACCES])
async def test_a_directory_of_an_app_that_cannot_be_opened_for_now_is_not_damaged(
    scheduler: LocalScheduler, home: Path, opening: Opening, number: int
) -> None:
    app_id = await scheduler.submit(app(shell("true")))
    await ended(scheduler, app_id)
    scheduler._apps._mine.clear()
    opening.fail(app_id, number)
    with pytest.raises(SchedulerError, match="cannot be read") as caught:
        await scheduler.delete(app_id)

    assert not isinstance(caught.value, SpoiltError)
    assert app_directory(home, app_id).exists()
