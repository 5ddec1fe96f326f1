"""Groups whose runner is closed under them, and groups that another process calls off."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from asyncsched.errors import ClosedError, ConfigError
from asyncsched.runner import JobGroup, Runner
from asyncsched.runner.groups.calling_off import call_off
from asyncsched.runner.groups.durable import LOOK_PAUSE
from asyncsched.runner.groups.job import Phase
from asyncsched.runner.groups.state_files import file_name
from asyncsched.specs import AppState
from tests._support import eventually
from tests.runner.groups_rig import GroupRig, another, work
from tests.runner.test_groups_answers import journals_held


@pytest.fixture
async def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[GroupRig]:
    monkeypatch.setenv("ASYNCSCHED_HOME", str(tmp_path / "home"))
    async with GroupRig() as rig, rig.clock:
        yield rig


@pytest.mark.parametrize("steps", range(1, 31))
async def test_a_runner_that_is_closed_while_a_journal_is_opened_lets_go_of_it(
    rig: GroupRig, tmp_path: Path, steps: int
) -> None:
    async def run(runner: Runner) -> None:
        async with runner.group(key="sweep") as group:
            group.start(work(), name="one")

    runner = another(rig)
    task = asyncio.create_task(run(runner))
    for _ in range(steps):
        await asyncio.sleep(0)
    was_done = task.done()
    await runner.close()
    assert [] == journals_held(tmp_path)
    await asyncio.wait([task])
    assert [] == journals_held(tmp_path)
    assert was_done or isinstance(task.exception(), ClosedError)
    async with another(rig) as runner:
        await run(runner)
    assert [] == journals_held(tmp_path)


async def test_a_group_whose_runner_is_closed_while_it_asks_is_not_entered(
    rig: GroupRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = another(rig)
    group = runner.group(key="sweep")
    asked, goes_on = asyncio.Event(), asyncio.Event()

    async def ask() -> list[object]:
        asked.set()
        await goes_on.wait()
        return []

    monkeypatch.setattr(group._engine, "_ask", ask)
    entering = asyncio.create_task(group.__aenter__())
    await asked.wait()
    await runner.close()
    assert [] == journals_held(tmp_path)
    goes_on.set()
    with pytest.raises(ClosedError, match="the runner 'me' was closed"):
        await entering
    assert [] == journals_held(tmp_path)


@pytest.mark.parametrize("key", [None, "sweep"])
async def test_a_launch_that_meets_a_closed_runner_is_no_failure(
    rig: GroupRig, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    runner = another(rig)
    closing: list[asyncio.Task[None]] = []

    def cut(group: JobGroup) -> None:
        """Close the runner where a launch goes on before its group knows."""
        send = group._engine._send

        async def closed(*args: object) -> object:
            closing.append(asyncio.create_task(runner.close()))
            await asyncio.sleep(0)
            return await send(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(group._engine, "_send", closed)

    with pytest.raises(ClosedError, match="the runner 'me' was closed"):
        async with runner.group(key=key) as group:
            cut(group)
            job = group.start(work())
    await asyncio.gather(*closing)
    assert [] == [*group.failed]
    assert isinstance(job.error, ClosedError)


async def test_jobs_that_never_start_as_the_runner_is_closed_are_told(rig: GroupRig) -> None:
    runner = another(rig)
    rig.service.slow("commit", 5)
    begun = asyncio.Event()
    rig.service.on_call("commit", begun.set)
    with pytest.raises(ClosedError, match="the runner 'me' was closed"):
        async with runner.group() as group:
            job = group.start(work())
            await begun.wait()
            await runner.close()
            assert job.is_terminal()
    with pytest.raises(ClosedError):
        await group.cancel()


@pytest.mark.parametrize("key", [None, "sweep"])
@pytest.mark.parametrize("on_failure", ["cancel", "continue"])
async def test_jobs_that_end_before_the_request_is_read_are_cancelled_as_well(
    rig: GroupRig, key: str | None, on_failure: str
) -> None:
    rig.hold()
    async with another(rig) as runner, runner.group(key=key, limit=3, on_failure=on_failure) as group:  # type: ignore[arg-type]
        jobs = [group.start(work()) for _ in range(5)]
        await eventually(lambda: len(group._engine.flights) == 3)
        await asyncio.to_thread(call_off, group.name, [runner.name], [runner.name])
        for app_id in list(rig.service.apps):
            rig.service.cancel(app_id)
    assert ([], 5) == ([*group.failed], group.counts.cancelled)
    assert {AppState.CANCELLED} == {job.state for job in jobs}


async def test_a_job_that_somebody_else_cancels_alone_has_failed(rig: GroupRig) -> None:
    rig.hold()
    async with another(rig) as runner, runner.group(limit=1, on_failure="continue") as group:
        one, other = group.start(work()), group.start(work())
        await eventually(lambda: one.handle is not None)
        for app_id in list(rig.service.apps):
            rig.service.cancel(app_id)
        await one
        rig.let_go()
    assert ([one], 1, AppState.SUCCEEDED) == ([*group.failed], group.counts.done, other.state)


async def test_a_group_with_a_key_hears_it_while_no_app_of_it_runs(rig: GroupRig) -> None:
    async with another(rig) as runner, runner.group(key="sweep") as group:
        await group.start(work())
        folder, pids = await asyncio.to_thread(call_off, "sweep", ["other", runner.name], [])
        later = group.start(work())
    assert (AppState.CANCELLED, None, [os.getpid()]) == (later.state, later.handle, pids)
    assert 1 == len([*folder.glob("*.cancel")])


async def test_a_group_with_a_key_hears_it_while_a_job_waits_to_be_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASYNCSCHED_HOME", str(tmp_path / "home"))
    async with GroupRig() as rig, another(rig) as runner, runner.group(key="sweep", retries=100) as group:
        job = group.start(work("exit 1"))

        async def has_failed_often() -> bool:
            is_there = job._failures == 8 and job._phase is Phase.PAUSED
            await rig.clock.advance(0 if is_there else 1)
            return is_there

        await eventually(has_failed_often)
        await asyncio.to_thread(call_off, "sweep", [runner.name], [])
        attempts = job.attempts
        await rig.clock.advance(LOOK_PAUSE)  # the job's own pause is half a minute at least
        await eventually(job.is_terminal)
    assert (AppState.CANCELLED, attempts) == (job.state, job.attempts)


def test_no_request_is_left_where_nobody_would_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASYNCSCHED_HOME", str(tmp_path))
    folder, _ = call_off("sweep", ["nobody", "runs"], ["runs"])
    (folder / file_name("kept", "sweep", ".jsonl")).touch()
    call_off("sweep", ["nobody", "kept"], [])
    there = {path.name for path in folder.glob("*.cancel")}
    assert {file_name(session, "sweep", ".cancel") for session in ("runs", "kept")} == there


async def test_a_time_limit_that_no_clock_keeps_is_refused(rig: GroupRig) -> None:
    async with rig.runner.group() as group:
        with pytest.raises(ConfigError, match="timeout must be a number of seconds above 0 and at most 1000000000"):
            group.start(work(), timeout=10**30)
