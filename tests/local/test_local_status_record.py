"""What the state directory holds is read warily: records that are cut, foreign, older, newer or of another machine."""

from __future__ import annotations

import asyncio
import copy
import os
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from asyncsched.errors import ConflictError, PermissionDeniedError, SchedulerError
from asyncsched.schedulers.local import LocalScheduler
from asyncsched.schedulers.local.supervisor.formats import RECORD, STATE
from asyncsched.schedulers.local.supervisor.host import start_time
from asyncsched.specs import AppState
from tests.local._local import (
    IS_ROOT,
    NOBODY,
    ONE_LOOP,
    app,
    app_directory,
    ended,
    python,
    read,
    read_state,
    shell,
    texts,
    write_state,
)

pytestmark = ONE_LOOP


@pytest.fixture
async def app_id(scheduler: LocalScheduler) -> str:
    """An app of two lines that has ended."""
    app_id = await scheduler.submit(app(shell("echo one; sleep 0.01; echo two")))
    await ended(scheduler, app_id)
    return app_id


class Stranger:
    """A process that has nothing to do with any app."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(["sleep", "1000"])
        self.pid = self.process.pid
        self.start = start_time(self.pid) or 0

    @property
    def lives(self) -> bool:
        return self.process.poll() is None


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    """A process that has nothing to do with any app."""
    stranger = Stranger()
    yield stranger
    stranger.process.kill()
    stranger.process.wait()


async def test_a_record_cut_at_any_byte_is_damaged_and_no_more(
    scheduler: LocalScheduler, home: Path, app_id: str
) -> None:
    other = await scheduler.submit(app(shell("true")))
    await ended(scheduler, other)
    file = app_directory(home, app_id) / STATE
    whole = file.read_bytes()

    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        with pytest.raises(SchedulerError, match=f"record of {app_id} is damaged"):
            await scheduler.describe(app_id)

    states = {row.app_id: row.state for row in await scheduler.list()}
    assert {app_id: AppState.UNKNOWN, other: AppState.SUCCEEDED} == states
    await scheduler.delete(app_id)
    assert await scheduler.describe(app_id) is None


@pytest.mark.parametrize(
    "content",
    [b"[]", b"null", b"{}", b"[" * 100_000, b'{"format": "1.0"}', b'{"format": 1}', b'{"format": "x"}', b"\xff\xfe"],
)
async def test_a_record_of_anything_else_is_damaged(
    scheduler: LocalScheduler, home: Path, app_id: str, content: bytes
) -> None:
    (app_directory(home, app_id) / STATE).write_bytes(content)

    with pytest.raises(SchedulerError, match="damaged"):
        await scheduler.describe(app_id)


@pytest.mark.parametrize(
    ("field", "value"),
    [("app_id", "another"), ("session", "a/b"), ("replicas", [{}]), ("place", None), ("created_ns", "soon")]
    + [("created_ns", ns) for ns in (10**30, -(10**30), float("inf"))]
    + [("finished_ns", 10**30), ("started_ns", 10**30), ("revision", float("inf"))],
)
async def test_a_record_with_a_wrong_field_is_damaged(
    scheduler: LocalScheduler, home: Path, app_id: str, field: str, value: object
) -> None:
    write_state(home, app_id, {**read_state(home, app_id), field: value})

    with pytest.raises(SchedulerError, match="damaged"):
        await scheduler.describe(app_id)
    assert [(app_id, AppState.UNKNOWN)] == [(row.app_id, row.state) for row in await scheduler.list()]


async def test_an_index_cut_at_any_byte_gives_whole_lines(scheduler: LocalScheduler, home: Path, app_id: str) -> None:
    index = app_directory(home, app_id) / "main" / "0" / "index"
    whole = index.read_bytes()
    seen: list[list[str]] = []

    for length in range(len(whole) + 1):
        index.write_bytes(whole[:length])
        lines = await texts(scheduler, app_id)
        if not seen or lines != seen[-1]:
            seen.append(lines)

    assert [[], ["one"], ["one", "two"]] == seen


async def test_output_that_is_missing_is_told_as_a_gap(scheduler: LocalScheduler, home: Path, app_id: str) -> None:
    (app_directory(home, app_id) / "main" / "0" / "stdout.log").write_bytes(b"one\n")

    line, gap = await read(scheduler, app_id)

    assert "one\n" == line
    assert gap.gap is not None


async def test_a_clock_that_was_set_back_loses_no_line(scheduler: LocalScheduler, home: Path) -> None:
    each_read_by_itself = """
        import fcntl, os, termios, time
        for n in range(6):
            os.write(1, b"%d\\n" % n)
            while fcntl.ioctl(1, termios.FIONREAD, bytes(4)) != bytes(4):
                time.sleep(0.001)
    """
    app_id = await scheduler.submit(app(python(each_read_by_itself)))
    found = await ended(scheduler, app_id)
    index = app_directory(home, app_id) / "main" / "0" / "index"
    records = [*RECORD.iter_unpack(index.read_bytes())]
    hour = 3600 * 10**9
    moved = [(ns - (hour if number >= 3 else 0), *rest) for number, (ns, *rest) in enumerate(records)]
    index.write_bytes(b"".join(RECORD.pack(*record) for record in moved))

    lines = await read(scheduler, app_id)

    assert [*"012345"] == [line.text for line in lines]
    assert lines[2].timestamp is not None
    assert lines[3].timestamp is not None
    assert lines[3].timestamp < lines[2].timestamp
    assert found.started_at is not None
    assert [*"012345"] == await texts(scheduler, app_id, since=found.started_at - timedelta(hours=2))


async def test_an_end_before_the_start_is_still_an_end(scheduler: LocalScheduler, home: Path, app_id: str) -> None:
    record = read_state(home, app_id)
    for part in (record, *record["replicas"]):
        part["finished_ns"] = 1
    write_state(home, app_id, record)

    found = await scheduler.describe(app_id)

    assert found is not None
    assert AppState.SUCCEEDED is found.state
    assert ["one", "two"] == await texts(scheduler, app_id)
    assert [app_id] == [*await scheduler.prune(timedelta(0))]


async def test_many_apps_of_many_replicas_hold_no_loop(scheduler: LocalScheduler, home: Path, app_id: str) -> None:
    record = read_state(home, app_id)
    record["replicas"] = [{**record["replicas"][0], "k": k} for k in range(99)]
    many = [f"app-{number}" for number in range(200)]

    def write() -> None:
        for each in many:
            app_directory(home, each).mkdir(0o700)
            write_state(home, each, {**record, "app_id": each})

    await asyncio.to_thread(write)

    # No step may take more than 20 ms, which is looked after for every test.
    assert {*many, app_id} == {row.app_id for row in await scheduler.list()}
    found = (await scheduler.describe_many(many))["app-7"]
    assert found is not None
    assert 99 == len(found.replicas)
    assert {*many, app_id} == {*await scheduler.prune(timedelta(0))}


# Other releases


async def test_a_newer_minor_format_is_read(scheduler: LocalScheduler, home: Path, app_id: str) -> None:
    record = read_state(home, app_id)
    record["replicas"][0]["moon"] = "full"
    write_state(home, app_id, {**record, "format": "1.7", "weather": {"wind": 3}})

    found = await scheduler.describe(app_id)

    assert found is not None
    assert AppState.SUCCEEDED is found.state
    assert ["one", "two"] == await texts(scheduler, app_id)


async def test_a_newer_major_format_is_an_error_that_names_it(
    scheduler: LocalScheduler, home: Path, app_id: str
) -> None:
    write_state(home, app_id, {"format": "2.3"})

    with pytest.raises(SchedulerError, match=r"format 2\.3.*reads 1\.x"):
        await scheduler.describe(app_id)
    with pytest.raises(SchedulerError, match=r"format 2\.3"):
        await scheduler.delete(app_id)
    assert [AppState.UNKNOWN] == [row.state for row in await scheduler.list()]
    assert [] == [*await scheduler.prune(timedelta(0))]


# Other times and places


def _lost(record: dict[str, Any], pid: int, start: int) -> dict[str, Any]:
    """Return the record of an app whose supervisor was killed while it ran."""
    lost = copy.deepcopy(record)
    lost["finished_ns"] = None
    lost["supervisor"] = {**lost["supervisor"], "pid": 2**22 + 1, "watcher_pid": 2**22 + 2}
    lost["replicas"][0] |= {"over": False, "exit_code": None, "finished_ns": None, "pid": pid, "start": start}
    return lost


async def test_a_number_that_was_given_to_another_process_is_not_trusted(
    scheduler: LocalScheduler, home: Path, app_id: str, stranger: Stranger
) -> None:
    write_state(home, app_id, _lost(read_state(home, app_id), stranger.pid, stranger.start - 1))

    found = await scheduler.describe(app_id)

    assert found is not None
    assert AppState.FAILED is found.state
    assert "its end was not recorded" in found.replicas[0].reason
    await scheduler.cancel(app_id)
    await scheduler.kill(app_id)
    await scheduler.delete(app_id)
    assert stranger.lives


async def test_a_process_that_its_supervisor_has_left_behind_runs(
    scheduler: LocalScheduler, home: Path, app_id: str, stranger: Stranger
) -> None:
    write_state(home, app_id, _lost(read_state(home, app_id), stranger.pid, stranger.start))

    found = await scheduler.describe(app_id)

    assert found is not None
    assert AppState.RUNNING is found.state
    with pytest.raises(ConflictError):
        await scheduler.delete(app_id)
    assert stranger.lives


async def test_a_process_of_another_run_of_the_machine_is_gone(
    scheduler: LocalScheduler, home: Path, app_id: str, stranger: Stranger
) -> None:
    record = _lost(read_state(home, app_id), stranger.pid, stranger.start)
    record["place"]["boot_id"] = "another"
    write_state(home, app_id, record)

    found = await ended(scheduler, app_id)

    assert AppState.FAILED is found.state
    assert stranger.lives


@pytest.mark.parametrize("which", ["host", "pid_namespace"])
async def test_an_app_of_another_machine_is_unknown_here(
    scheduler: LocalScheduler, home: Path, app_id: str, stranger: Stranger, which: str
) -> None:
    record = _lost(read_state(home, app_id), stranger.pid, stranger.start)
    record["place"][which] = "another"
    write_state(home, app_id, record)

    found = await scheduler.describe(app_id)

    assert found is not None
    assert AppState.UNKNOWN is found.state
    assert f"runs on {record['place']['host']}" == found.msg == found.replicas[0].reason
    for end in (scheduler.cancel, scheduler.kill):
        with pytest.raises(SchedulerError, match="do it there"):
            await end(app_id)
    with pytest.raises(ConflictError):
        await scheduler.delete(app_id)
    assert [] == [*await scheduler.prune(timedelta(0))]
    assert ["one", "two"] == await texts(scheduler, app_id, should_tail=False)


# Directories that are not ours


async def _refuses(why: str) -> None:
    async with LocalScheduler("another") as another:
        with pytest.raises(PermissionDeniedError, match=why):
            await another.submit(app(shell("true")))
        with pytest.raises(PermissionDeniedError, match=why):
            await another.list()
        with pytest.raises(PermissionDeniedError, match=why):
            await another.describe("some-app")


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o1777])
async def test_a_directory_that_others_may_write_to_is_refused(home: Path, mode: int) -> None:
    home.mkdir()
    home.chmod(mode)

    await _refuses("is writable by other users")
    assert [] == [*home.iterdir()]


@pytest.mark.skipif(not IS_ROOT, reason="only root can give a directory to somebody else")
async def test_a_directory_of_somebody_else_is_refused(home: Path) -> None:
    home.mkdir(0o700)
    os.chown(home, NOBODY, NOBODY)

    await _refuses(f"belongs to user {NOBODY}")
    assert [] == [*home.iterdir()]


@pytest.mark.parametrize("name", ["apps", "supervisors"])
@pytest.mark.parametrize("what", ["link", "writable"])
async def test_a_directory_in_it_that_is_not_ours_is_refused(home: Path, tmp_path: Path, name: str, what: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    home.mkdir(0o700)
    if what == "link":
        (home / name).symlink_to(elsewhere)
    else:
        (home / name).mkdir()
        (home / name).chmod(0o777)

    async with LocalScheduler("session") as scheduler:
        with pytest.raises(SchedulerError, match=name):
            await scheduler.submit(app(shell("true")))
        if name == "apps":
            for look in (scheduler.list(), scheduler.describe("some-app"), scheduler.delete("some-app")):
                with pytest.raises(SchedulerError):
                    await look

    assert [] == [*elsewhere.iterdir()]


async def test_an_app_that_is_a_link_is_not_followed(scheduler: LocalScheduler, home: Path, app_id: str) -> None:
    directory = app_directory(home, app_id)
    away = directory.rename(home / "away")
    directory.symlink_to(away)

    with pytest.raises(SchedulerError):
        await scheduler.describe(app_id)
    await scheduler.delete(app_id)

    assert not directory.is_symlink()
    assert (away / STATE).exists()


async def test_only_we_can_read_what_is_there(scheduler: LocalScheduler, home: Path, app_id: str) -> None:
    modes = {each.relative_to(home): each.stat().st_mode & 0o777 for each in home.rglob("*")}

    assert 0o700 == home.stat().st_mode & 0o777
    assert {0o700, 0o600} == {*modes.values()}
    assert {0o700} == {modes[name] for name in modes if (home / name).is_dir()}
