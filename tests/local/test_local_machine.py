"""Machines that lack something: calls of the kernel, privileges, room on the disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from asyncsched.errors import UnavailableError
from asyncsched.schedulers.local import LocalScheduler
from asyncsched.specs import AppState
from tests._support import eventually
from tests.local import _without
from tests.local._local import AS_NOBODY, IS_ROOT, ONE_LOOP, Other, app, app_directory, ended, python, texts, until

REPOSITORY = Path(__file__).parents[2]
CONTRACT = "tests/local/test_local_contract.py"

WITHIN = 900
"""Seconds in which the whole suite has ended, however busy the machine is: it guards against hangs."""


def _run_contract(*prefix: str, options: Sequence[str] = (), temp: Path) -> None:
    """Run the contract suite in a process of its own."""
    command = [*prefix, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={temp}/pytest"]
    run = subprocess.run(
        [*command, *options, CONTRACT],
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, "HOME": str(temp), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(temp)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=WITHIN - 60,
    )
    assert 0 == run.returncode, run.stdout
    assert " passed" in run.stdout


@pytest.mark.slow
@pytest.mark.timeout(WITHIN)
@pytest.mark.skipif(not _without.CALLS, reason="the numbers of this machine's system calls are not known here")
@pytest.mark.parametrize(
    ("calls", "options"),
    [
        # The kernel has neither.
        (["pidfd_open=ENOSYS", "inotify_init1=ENOSYS"], []),
        # The user has as many instances, or as many watches, as he may.
        (["inotify_init1=EMFILE"], ["--loops=asyncio", "-k", "LogContract or line or tail or way"]),
        (["inotify_add_watch=ENOSPC"], ["--loops=uvloop", "-k", "line or tail or way"]),
    ],
    ids=["no pidfd, no inotify", "no more instances", "no more watches"],
)
def test_the_contract_holds_where_a_call_is_missing(tmp_path: Path, calls: list[str], options: list[str]) -> None:
    _run_contract(sys.executable, _without.__file__, *calls, "--", options=options, temp=tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(WITHIN)
@pytest.mark.skipif(not IS_ROOT, reason="the suite runs as an ordinary user already")
def test_the_contract_holds_for_an_ordinary_user(ordinary_home: Path) -> None:
    _run_contract(*AS_NOBODY, temp=ordinary_home)


MANY = """
    async def main():
        async with LocalScheduler("session") as scheduler:
            app_id = await scheduler.submit(app(shell('echo "$1 ${#2}"', "$" + "{replica_id}", num_replicas=600)))
            lines = await read(scheduler, app_id)
            found = await ended(scheduler, app_id)
            say(os.getuid() != 0, found.state.name, len(found.replicas))
            say(sorted(int(line.split()[0]) for line in lines) == [*range(600)])
    asyncio.run(main())
"""


@pytest.mark.slow
def test_six_hundred_replicas_of_an_ordinary_user(ordinary_home: Path) -> None:
    env = {"ASYNCSCHED_HOME": str(ordinary_home / "state"), "HOME": str(ordinary_home)}
    with Other(MANY, env=env, prefix=AS_NOBODY if IS_ROOT else ()) as other:
        assert "True SUCCEEDED 600" == other.hear()
        assert "True" == other.hear()


# Room on the disk


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A disk of two megabytes, on which the state lies."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=0700", "tmpfs", str(disk)]
    if not IS_ROOT or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("only root, where mounting is allowed, can make a small disk")
    monkeypatch.setenv("ASYNCSCHED_HOME", str(disk / "home"))
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def _fill(disk: Path, *, leave: int) -> Path:
    """Fill a disk with a file, but for some bytes."""
    file = disk / "filling"
    room = os.statvfs(disk)
    file.write_bytes(b"x" * max(0, room.f_bavail * room.f_bsize - leave))
    return file


@ONE_LOOP
async def test_on_a_full_disk_output_waits_and_nothing_is_lost(small_disk: Path) -> None:
    code = "for number in range(50_000): print('line', number)"
    async with LocalScheduler("session") as scheduler:
        app_id = await scheduler.submit(app(python("import sys; sys.stdin.read()\n" + code)))
        await ended(scheduler, app_id)
        await scheduler.delete(app_id)
        filling = _fill(small_disk, leave=400_000)
        app_id = await scheduler.submit(app(python(code)))

        found = await until(scheduler, app_id, lambda found: "disk" in found.msg)
        assert AppState.RUNNING is found.state
        assert "the disk of its logs is full: its output waits until there is free space" == found.msg
        read_so_far = await texts(scheduler, app_id, should_tail=False)
        assert [f"line {number}" for number in range(len(read_so_far) - 1)] == read_so_far[:-1]

        filling.unlink()
        assert AppState.SUCCEEDED is (await ended(scheduler, app_id)).state
        assert [f"line {number}" for number in range(50_000)] == await texts(scheduler, app_id)


@pytest.mark.slow
@ONE_LOOP
async def test_on_a_full_disk_apps_end_when_they_are_told_to(small_disk: Path) -> None:
    async with LocalScheduler("session") as scheduler:
        app_id = await scheduler.submit(app(python("while True: print('x' * 1000)")), {"grace_period": 0.5})
        await until(scheduler, app_id, lambda found: "disk" in found.msg)
        async with LocalScheduler("another") as another:
            found = await another.describe(app_id)
            assert found is not None
            assert AppState.RUNNING is found.state
            await another.cancel(app_id)

        found = await ended(scheduler, app_id)
        assert AppState.CANCELLED is found.state
        await scheduler.delete(app_id)
        assert not app_directory(small_disk / "home", app_id).exists()


@ONE_LOOP
async def test_nothing_is_started_without_room_for_its_record(small_disk: Path) -> None:
    async with LocalScheduler("session") as scheduler:
        app_id = await scheduler.submit(app(python("pass")))
        await ended(scheduler, app_id)
        filling = _fill(small_disk, leave=0)
        ran = small_disk.parent / "ran"

        with pytest.raises(UnavailableError, match=r"[Nn]o space left.*free some disk space"):
            await scheduler.submit(app(python(f"open({str(ran)!r}, 'w')")))

        assert not ran.exists()
        assert [app_id] == [row.app_id for row in await scheduler.list()]
        filling.unlink()
        again = await scheduler.submit(app(python("print('room')")))
        assert ["room"] == await texts(scheduler, again)
        await eventually(lambda: 2 == len([*(small_disk / "home" / "apps").iterdir()]))
