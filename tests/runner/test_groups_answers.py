"""What a group answers for: attempts nobody wants any more, apps that a launch has left, apps of an earlier run."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from asyncsched.errors import AuthError, ConflictError, InvalidRequestError
from asyncsched.runner import Runner
from asyncsched.runner.groups.calling_off import call_off
from asyncsched.specs import AppState, FailureCause
from tests._support import eventually
from tests.logs._inotify import open_files
from tests.runner.groups_rig import GroupRig, another, rig_follows, work


@pytest.fixture
async def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[GroupRig]:
    monkeypatch.setenv("ASYNCSCHED_HOME", str(tmp_path / "home"))
    async with GroupRig() as rig, rig.clock:
        yield rig


def journals_held(home: Path) -> list[str]:
    """Return the journals below a directory that this process has open."""
    return [name for name in open_files() if name.startswith(str(home))]


@pytest.mark.parametrize("steps", range(1, 12))
async def test_a_group_whose_opening_is_cancelled_holds_nothing(rig: GroupRig, tmp_path: Path, steps: int) -> None:
    async def run(runner: Runner) -> None:
        async with runner.group(key="sweep") as group:
            group.start(work(), name="one")

    before = asyncio.all_tasks()
    async with another(rig) as runner:
        task = asyncio.create_task(run(runner))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert [] == journals_held(tmp_path)
        await run(runner)
    assert [] == journals_held(tmp_path)
    assert before == asyncio.all_tasks()


@pytest.mark.parametrize("cause", [FailureCause.EXIT, FailureCause.PREEMPTED])
async def test_a_job_whose_end_was_asked_for_is_not_tried_again(rig: GroupRig, cause: FailureCause) -> None:
    rig.service.slow("cancel", 5)
    rig.hold()
    async with rig.runner.group(retries=2, on_failure="continue") as group:
        job = group.start(work())
        await rig.held()
        cancelling = asyncio.create_task(job.cancel())
        await asyncio.sleep(0)
        rig.fail(job, cause)
        await cancelling
    assert (AppState.FAILED, 1) == (job.state, len(job.attempts))


async def test_a_job_that_was_cancelled_while_it_was_launched_is_ended_all_the_same(rig: GroupRig) -> None:
    rig.service.fail("remove", AuthError("no", backend="fake"))
    rig.service.slow("commit", 5)
    async with rig.runner.group(limit=1, on_failure="continue") as group:
        job = group.start(work("sleep 1000"))
        cancels: list[asyncio.Task[None]] = []
        rig.service.on_call("commit", lambda: cancels.append(asyncio.create_task(job.cancel())))
        await job
        await asyncio.gather(*cancels)
        assert "may be left behind" in job.status.msg
        await eventually(lambda: rig.running == 0)
    assert ((), AppState.CANCELLED) == (group.left_running, job.state)


async def test_pre_emption_counts_as_little_after_a_restart(rig: GroupRig) -> None:
    runner = another(rig)
    group = runner.group(key="sweep", retries=1, on_failure="continue")
    await group.__aenter__()
    rig.hold()
    job = group.start(work("sleep 100; exit 1"))
    await rig_follows(runner)
    rig.fail(job, FailureCause.PREEMPTED)
    await eventually(lambda: len(job.attempts) == 2)
    await runner.close()
    rig.let_go()
    async with another(rig) as runner, runner.group(key="sweep", retries=1, on_failure="continue") as group:
        job = group.start(work("sleep 100; exit 1"))
    assert 3 == len(job.attempts)


async def test_what_a_launch_that_failed_has_left_keeps_its_slot_until_it_has_ended(rig: GroupRig) -> None:
    rig.service.fail("commit", InvalidRequestError("no", backend="fake"))
    rig.service.fail("remove", AuthError("no", backend="fake"))
    rig.service.slow("cancel", 5)
    async with rig.runner.group(limit=1, on_failure="continue") as group:
        left, other = group.start(work("sleep 1000")), group.start(work("sleep 1"))
        await left
        assert "may be left behind" in str(left.error) + left.status.msg
        assert (1, None) == (rig.running, other.handle)
    assert (AppState.FAILED, AppState.SUCCEEDED) == (left.state, other.state)
    assert (1, 0) == (rig.most, len(group.left_running))


async def test_what_a_launch_has_left_and_cannot_be_ended_is_named(
    rig: GroupRig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.service.fail("commit", InvalidRequestError("no", backend="fake"))
    rig.service.fail("remove", AuthError("no", backend="fake"))
    rig.service.fail("cancel", *[AuthError("no", backend="fake")] * 9)
    with caplog.at_level(logging.WARNING, "asyncsched.runner"):
        async with rig.runner.group(limit=1, on_failure="continue") as group:
            left = group.start(work("sleep 100000"))
            await left
    assert ((left,), 1) == (group.left_running, rig.running)
    [app_id] = rig.service.apps
    assert f"1 job may still run: fake://me/{app_id}" in caplog.text


async def left_running(rig: GroupRig, names: str = "abc") -> None:
    """Leave a group with jobs that run on."""
    rig.hold()
    async with another(rig) as runner:
        with pytest.raises(ZeroDivisionError):
            async with runner.group(key="sweep") as group:
                for name in names:
                    group.start(work("sleep 1000"), name=name)
                await eventually(lambda: len(group._engine.flights) == len(names))
                raise ZeroDivisionError
    rig.service.start_delay = 0.0


async def test_apps_of_an_earlier_run_are_told_and_named(
    rig: GroupRig, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    await left_running(rig)
    [path] = (tmp_path / "home/groups").iterdir()
    begun, others = (lines := path.read_bytes().splitlines(keepends=True))[:3], lines[3:]
    path.write_bytes(b"".join([*begun[::-1], *others]))  # launches at the same time are noted in any order
    async with another(rig) as runner:
        async with runner.group(key="sweep") as group:
            await group.start(work(), name="d")
            assert "sweep: 1/1 done, 0 failed, 0 running, 0 waiting, and 3 of an earlier run" == str(group)
        assert ["a", "b", "c"] == [job.name for job in group.left_running]
        assert [AppState.PENDING] * 3 == [job.state for job in group.left_running]
        assert {app_id for app_id, app in rig.service.apps.items() if not app.ended} == {
            job.handle.app_id for job in group.left_running if job.handle
        }
        assert {"work"} == {job.app.name for job in group.left_running}
    assert "3 jobs run on, and a group with key='sweep' comes back to them" in caplog.text


async def test_apps_of_an_earlier_run_are_ended_with_a_word(rig: GroupRig, caplog: pytest.LogCaptureFixture) -> None:
    await left_running(rig)
    async with another(rig) as runner:
        with pytest.raises(ZeroDivisionError) as caught:
            async with runner.group(key="sweep", on_leave="cancel") as group:
                await group.start(work(), name="d")
                raise ZeroDivisionError
    assert (0, ()) == (rig.running, group.left_running)
    assert "3 jobs were ended" in "".join(caught.value.__notes__)
    assert "3 apps of an earlier run, whose jobs were not started again, are ended" in caplog.text


async def test_apps_of_an_earlier_run_end_with_their_group(rig: GroupRig) -> None:
    await left_running(rig)
    async with another(rig) as runner:
        async with runner.group(key="sweep", on_leave="cancel") as group:
            group.start(work(), name="d")
    assert (0, ()) == (rig.running, group.left_running)


async def test_a_job_that_was_sent_in_part_and_is_another_now_is_told_and_named(rig: GroupRig, tmp_path: Path) -> None:
    await left_running(rig, "a")
    [path] = (tmp_path / "home/groups").iterdir()
    path.write_bytes(path.read_bytes().split(b"\n")[0] + b"\n")
    async with another(rig) as runner:
        async with runner.group(key="sweep", cfg={"queue": "other"}, on_failure="continue") as group:
            job = group.start(work("sleep 1000"), name="a")
            await job
            assert isinstance(job.error, ConflictError)
            assert "may run on" in job.status.msg
    assert (AppState.FAILED, [job], 1) == (job.state, [*group.left_running], rig.running)


async def test_numbers_are_unique_whatever_the_order(rig: GroupRig) -> None:
    for names in ("ab", "cabd"):
        async with another(rig) as runner, runner.group(key="sweep") as group:
            for name in names:
                group.start(work(), name=name)
    assert [("c", 2), ("a", 0), ("b", 1), ("d", 3)] == [(job.name, job.index) for job in group.jobs]
    told = [rig.service.apps[job.handle.app_id].metadata["ASYNCSCHED_GROUP_INDEX"] for job in group.jobs if job.handle]
    assert ["2", "0", "1", "3"] == told


async def test_numbers_are_unique_in_a_group_that_nobody_has_entered(rig: GroupRig) -> None:
    for names in ("ab", "cab"):
        async with another(rig) as runner:
            group = runner.group(key="sweep")
            for name in names:
                group.start(work(), name=name)
            await group.wait()
            await group.aclose()
    assert [("c", 2), ("a", 0), ("b", 1)] == [(job.name, job.index) for job in group.jobs]


async def test_names_that_nobody_gave_are_not_taken(rig: GroupRig) -> None:
    async with rig.runner.group() as group:
        group.start(work(), name="work-1")
        names = [group.start(work()).name for _ in range(2)]
    assert ["work-2", "work-3"] == names


@pytest.mark.parametrize("line", [b"[" * 100_000, b'{"job":"q","attempt":1,"index":"zz","digest":"x","handle":"no"}'])
async def test_a_line_that_is_no_line_of_ours_is_passed_over(rig: GroupRig, tmp_path: Path, line: bytes) -> None:
    for _ in range(2):
        async with another(rig) as runner, runner.group(key="sweep") as group:
            job = group.start(work())
        [path] = (tmp_path / "home/groups").iterdir()
        path.write_bytes(path.read_bytes() + line + b"\n")
    assert (AppState.SUCCEEDED, 1) == (job.state, len(rig.service.apps))


async def test_a_job_whose_scheduler_is_gone_fails_alone(rig: GroupRig, tmp_path: Path) -> None:
    await left_running(rig, "a")
    [path] = (tmp_path / "home/groups").iterdir()
    path.write_bytes(path.read_bytes().replace(b"fake://", b"other://"))
    async with another(rig) as runner, runner.group(key="sweep", on_failure="continue") as group:
        lost, fine = group.start(work("sleep 1000"), name="a"), group.start(work(), name="b")
    assert (AppState.FAILED, AppState.SUCCEEDED) == (lost.state, fine.state)
    assert "other" in lost.status.msg


@pytest.mark.parametrize("key", [None, "sweep"])
async def test_a_group_that_another_process_calls_off_launches_nothing_more(rig: GroupRig, key: str | None) -> None:
    rig.hold()
    async with another(rig) as runner, runner.group(key=key, limit=2) as group:
        jobs = [group.start(work()) for _ in range(6)]
        await eventually(lambda: len(group._engine.flights) == 2)
        folder, pids = await asyncio.to_thread(call_off, group.name, [runner.name], [runner.name])
        assert [os.getpid()] * (key is not None) == pids
        for app_id in list(rig.service.apps):
            rig.service.cancel(app_id)
    assert {AppState.CANCELLED} == {job.state for job in jobs}
    assert 2 == len(rig.service.apps)
    assert [] == await asyncio.to_thread(lambda: list(folder.glob("*.cancel")))


async def test_who_called_off_an_earlier_run_did_not_mean_the_next_one(rig: GroupRig) -> None:
    async with another(rig) as runner:
        await asyncio.to_thread(call_off, "sweep", [runner.name], [runner.name])
        async with runner.group(key="sweep") as group:
            job = group.start(work())
    assert AppState.SUCCEEDED is job.state


async def test_a_group_with_a_key_looks_before_each_launch(rig: GroupRig) -> None:
    rig.hold()
    async with another(rig) as runner, runner.group(key="sweep", limit=1) as group:
        first, second = group.start(work()), group.start(work())
        await eventually(lambda: len(group._engine.flights) == 1)
        await asyncio.to_thread(call_off, "sweep", [runner.name], [runner.name])
        rig.let_go()
    assert (AppState.SUCCEEDED, AppState.CANCELLED, None) == (first.state, second.state, second.handle)


def test_a_request_that_nobody_reads_does_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASYNCSCHED_HOME", str(tmp_path))
    folder, _ = call_off("old", ["me"], ["me"])
    [old] = folder.iterdir()
    os.utime(old, (0, 0))
    call_off("new", ["me"], ["me"])
    assert old not in [*folder.iterdir()]
    assert 1 == len([*folder.iterdir()])
