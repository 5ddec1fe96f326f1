"""Logs of a group's jobs that are kept in files."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.errors import ConfigError
from asyncsched.logs.line import LogGap, LogLine, LogOrigin, gap_line, label
from asyncsched.runner.groups import keeper
from asyncsched.runner.groups.kept_files import KeptApp, plain_name
from asyncsched.specs.stream import Stream
from tests.runner.groups_rig import GroupRig, work


@pytest.fixture
async def rig(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncGenerator[GroupRig]:
    monkeypatch.setenv("ASYNCSCHED_HOME", str(tmp_path / "home"))
    async with GroupRig() as rig, rig.clock:
        yield rig


def kept(folder: Path) -> list[str]:
    return sorted(path.read_text() for path in folder.rglob("*.log"))


async def test_every_job_is_kept_each_attempt_by_itself(rig: GroupRig, tmp_path: Path) -> None:
    async with rig.runner.group(limit=3, retries=1, on_failure="continue", keep_logs=tmp_path / "logs") as group:
        for number in range(20):
            group.start(work(f"echo job {number}; sleep 1; echo over; exit {int(number == 7)}"), name=f"n{number}")
    folder = tmp_path / "logs" / group.name
    assert sorted(["job 7\nover\n", *(f"job {number}\nover\n" for number in range(20))]) == kept(folder)
    assert 2 == len([*(folder / "n7").iterdir()])
    assert {} == group.lost_logs


async def test_many_jobs_at_once_with_few_followed_and_few_files_open(
    rig: GroupRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most, opened, flush = 0, 0, KeptApp.flush

    def counted(app: KeptApp) -> None:
        nonlocal most, opened
        opened += 1
        most = max(most, opened)
        flush(app)
        opened -= 1

    rig.service.watchers.clear()  # to count what runs at each change takes longer than the rest
    monkeypatch.setattr(KeptApp, "flush", counted)
    monkeypatch.setattr(keeper, "AT_ONCE", 20)
    async with rig.runner.group(keep_logs=tmp_path) as group:
        for number in range(200):
            group.start(work(f"echo {number}; exit 0"))
            await asyncio.sleep(0)
    assert sorted(f"{number}\n" for number in range(200)) == kept(tmp_path / group.name)
    assert 1 <= most <= keeper.WRITTEN_AT_ONCE


async def test_a_job_of_its_own_is_kept_to_its_end(rig: GroupRig, tmp_path: Path) -> None:
    async with rig.runner.job(work("echo one; exit 0"), keep_logs=tmp_path) as job:
        await job
    assert ["one\n"] == kept(tmp_path)
    (job,) = await rig.runner.run_all([work("echo two; exit 0")], keep_logs=str(tmp_path))
    assert ["one\n", "two\n"] == kept(tmp_path)


async def test_a_group_that_comes_back_goes_on_where_the_files_are(rig: GroupRig, tmp_path: Path) -> None:
    for left in (None, "one\ntw", "one\n", ""):  # what a process that was killed has written
        if left is not None:
            (path,) = tmp_path.rglob("*.log")
            path.write_text(left)
            (path.parent / "complete").unlink()
        async with rig.runner.group(key="sweep", keep_logs=tmp_path) as group:
            group.start(work("echo one; sleep 50; echo two; exit 0"), name="a/b")
        assert ["one\ntwo\n"] == kept(tmp_path)
        assert {} == group.lost_logs
    assert 1 == len(rig.service.apps)


async def test_a_job_that_ended_while_nobody_looked_is_kept(rig: GroupRig, tmp_path: Path) -> None:
    rig.hold()
    with pytest.raises(ZeroDivisionError):
        async with rig.runner.group(key="sweep") as group:
            group.start(work("echo one; exit 0"), name="a")
            await rig.held()
            raise ZeroDivisionError
    rig.let_go()
    (app_id,) = rig.service.apps
    await rig.runner.wait(f"fake://me/{app_id}")
    async with rig.runner.group(key="sweep", keep_logs=tmp_path) as group:
        group.start(work("echo one; exit 0"), name="a")
    assert ["one\n"] == kept(tmp_path)


async def test_a_folder_that_cannot_be_written_to_is_refused(rig: GroupRig, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="keep_logs must be a folder that can be written to"):
        async with rig.runner.group(keep_logs=tmp_path / "file"):
            raise AssertionError
    for wrong in (7, "", b"x"):
        with pytest.raises(ConfigError, match="keep_logs must be the path of a folder"):
            rig.runner.group(keep_logs=wrong)  # type: ignore[arg-type]


async def test_a_full_disk_is_told_and_ends_no_job(
    rig: GroupRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(fd: int, data: object, offset: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    async with rig.runner.group(keep_logs=tmp_path) as group:
        jobs = [group.start(work("echo one; exit 0")) for _ in range(3)]
    assert {job.handle for job in jobs} == {*group.lost_logs}
    assert {errno.ENOSPC} == {error.errno for error in group.lost_logs.values() if isinstance(error, OSError)}
    assert 1 == sum("is not kept to its end" in record.getMessage() for record in caplog.records)


async def test_a_disk_that_has_room_again_loses_nothing(
    rig: GroupRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite, calls = os.pwrite, 0

    def short(fd: int, data: memoryview, offset: int) -> int:
        nonlocal calls
        calls += 1
        if calls in (1, 3):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return pwrite(fd, data[: max(len(data) // 2, 1)], offset)

    monkeypatch.setattr(os, "pwrite", short)
    async with rig.runner.group(keep_logs=tmp_path) as group:
        group.start(work("echo ab; sleep 100; exit 0"))
    assert ["ab\n"] == kept(tmp_path)
    assert 3 < calls


ORIGIN = LogOrigin("app", "main", 0, Stream.STDOUT)


def lines(*texts: str, origin: LogOrigin = ORIGIN) -> list[LogLine]:
    return label(texts, origin, None)


def write(folder: Path, *said: LogLine) -> None:
    app = KeptApp(folder)
    for line in said:
        app.add(line)
        app.flush()


@given(st.binary(max_size=20), st.integers(0, 30))
def test_a_log_is_gone_on_with_wherever_it_was_cut(
    tmp_path_factory: pytest.TempPathFactory, said: bytes, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("kept")
    text = said.decode("latin-1")
    whole = lines("first\n", text, "last\n")
    write(folder, *whole)
    (path,) = folder.iterdir()
    expected = path.read_bytes()
    assert f"first\n{text}last\n".encode() == expected
    path.write_bytes(expected[:cut])
    for _ in range(2):
        write(folder, *whole)
        assert {path.name: expected} == {each.name: each.read_bytes() for each in folder.iterdir()}


def test_a_log_that_has_become_another_is_kept_beside_the_old_one(tmp_path: Path) -> None:
    write(tmp_path, *lines("one\n", "two\n", "three\n"))
    now = [*lines("one\n"), gap_line(LogGap(reason="rotated"), ORIGIN), *lines("three\n", "four\n")]
    for _ in range(2):
        write(tmp_path, *now)
        assert "one\ntwo\nthree\n" == (tmp_path / "main-0.stdout.log").read_text()
        assert "one\n[lines are missing here: rotated]\nthree\nfour\n" == (tmp_path / "main-0.stdout.2.log").read_text()


def test_no_two_origins_share_a_file_and_no_name_leaves_the_folder(tmp_path: Path) -> None:
    origins = [
        ORIGIN,
        ORIGIN._replace(stream=Stream.STDERR),
        ORIGIN._replace(replica=10),
        ORIGIN._replace(attempt=1),
        ORIGIN._replace(attempt=None),
        ORIGIN._replace(container="attempt1"),
        ORIGIN._replace(role="main-0"),
        ORIGIN._replace(role="../../up"),
        ORIGIN._replace(role="x" * 300),
    ]
    write(tmp_path / "in", *[line for origin in origins for line in lines(repr(origin), origin=origin)])
    assert len(origins) == len([*(tmp_path / "in").iterdir()])
    assert [tmp_path / "in"] == [*tmp_path.iterdir()]


@given(st.text(max_size=300))
def test_names_of_files_are_plain(name: str) -> None:
    plain = plain_name(name)
    assert 0 < len(plain.encode()) <= 255
    assert plain not in (".", "..", "complete")
    assert not {*"/\\\0@ "} & {*plain}
