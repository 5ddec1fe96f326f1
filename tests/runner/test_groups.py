"""Groups of jobs: limits, retries, ends, and what becomes of jobs when a block is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from asyncsched.errors import AppStatusError, ClosedError, ConfigError, UnavailableError
from asyncsched.runner.groups.job import Job, Phase
from asyncsched.specs import AppDef, AppState, AppStatus, Role
from tests._support import eventually
from tests.runner.groups_rig import GroupRig, work


@pytest.fixture
async def rig() -> AsyncGenerator[GroupRig]:
    async with GroupRig() as rig, rig.clock:
        yield rig


async def test_a_sweep_keeps_to_its_limit_and_tells_each_end_once(rig: GroupRig) -> None:
    told = []
    async with rig.runner.group(limit=8) as group:
        jobs = []
        for index in range(100):
            jobs.append(group.start(work(f"sleep {index % 7 + 1}; exit 0")))
            await asyncio.sleep(0)  # each is a step of its own
        assert "waiting for a slot (8 of 8 in use)" == jobs[-1].status.msg
        async for job in group.as_completed():
            told.append(job.name)
            assert sum(group.counts) == 100
    assert sorted(told) == sorted(job.name for job in jobs)
    assert 8 == rig.most
    assert {AppState.SUCCEEDED} == {job.state for job in jobs}
    assert f"{group.name}: 100/100 done, 0 failed, 0 running, 0 waiting" == str(group)


async def test_the_first_failure_ends_the_others_and_is_raised_at_the_end(rig: GroupRig) -> None:
    with pytest.raises(ExceptionGroup, match=r"the job bad .*did not succeed") as caught:
        async with rig.runner.group(limit=2) as group:
            slow = group.start(work("sleep 1000"), name="slow")
            bad = group.start(work("sleep 1; exit 3"), name="bad")
            never = group.start(work(), name="never")
            await bad
            late = group.start(work(), name="late")
            assert late.is_terminal()
    assert 1 == len(caught.value.exceptions)
    assert [bad] == [*group.failed]
    assert ["CANCELLED", "FAILED", "CANCELLED", "CANCELLED"] == [str(j.state) for j in (slow, bad, never, late)]
    assert "never started" in never.status.msg
    assert 0 == rig.running
    with pytest.raises(ClosedError):
        group.start(work())


async def test_failures_go_on_where_that_is_asked_for(rig: GroupRig) -> None:
    async with rig.runner.group(on_failure="continue") as group:
        jobs = [group.start(work(f"exit {index % 2}")) for index in range(6)]
    assert [0, 1] * 3 == [int(job.state is AppState.FAILED) for job in jobs]
    assert 3 == len(group.failed)


async def test_some_failures_are_put_up_with(rig: GroupRig) -> None:
    async with rig.runner.group(max_failures=2, limit=1) as group:
        for code in (1, 1, 0, 0):
            group.start(work(f"exit {code}"))
    assert (2, 2) == (group.counts.done, group.counts.failed)
    with pytest.raises(ExceptionGroup, match="and 2 more"):
        async with rig.runner.group(max_failures=0.5, limit=1) as group:
            for code in (1, 0, 1, 1):
                group.start(work(f"exit {code}"))


async def test_a_job_is_retried_with_other_options(rig: GroupRig) -> None:
    asked: list[int] = []

    def cfg(attempt: int) -> dict[str, int]:
        asked.append(attempt)
        return {"priority": attempt}

    with pytest.raises(ExceptionGroup):
        async with rig.runner.group(cfg=cfg, retries=2) as group:
            job = group.start(work("exit 1"))
    assert [1, 2, 3] == asked
    assert 3 == len({*job.attempts})


def _raising(attempt: int) -> dict[str, int]:
    return {"priority": attempt // 0}


def _without() -> dict[str, int]:
    return {"priority": 1}


async def _waiting(attempt: int) -> dict[str, int]:
    return {"priority": attempt}


@pytest.mark.parametrize(
    ("cfg", "told"),
    [
        (_raising, "integer division or modulo by zero; cfg(1), the function of the attempt, raised it"),
        (_waiting, "cfg must be a function of the attempt that does not wait; write def, not async def"),
        (_without, "cfg must be a function of the attempt: too many positional arguments; write def cfg(attempt)"),
        (lambda attempt: [attempt], "what cfg(1) returns must be a mapping of run options, got a list"),
    ],
)
@pytest.mark.filterwarnings("error")
async def test_a_function_of_the_attempt_that_cannot_be_used_is_named(rig: GroupRig, cfg: Any, told: str) -> None:
    (job,) = await rig.runner.run_all([work()], cfg=cfg)
    assert f"it could not be launched: {told}" in job.status.msg


async def test_a_job_that_is_asked_too_early_whether_it_succeeded_says_so(rig: GroupRig) -> None:
    rig.hold()
    async with rig.runner.group() as group:
        job = group.start(work())
        with pytest.raises(AppStatusError, match=r"is not over: PENDING.*; await it first") as caught:
            job.raise_for_status()
        await group.cancel()
    assert not caught.value.status.is_terminal()


@pytest.mark.parametrize("jobs", [1, 2])
async def test_jobs_that_are_left_to_run_are_not_told_as_ended(rig: GroupRig, jobs: int) -> None:
    rig.hold()
    with pytest.raises(KeyError) as caught:
        async with rig.runner.group(on_leave="leave") as group:
            for _ in range(jobs):
                group.start(work())
            await rig.held(jobs)
            raise KeyError
    handles = ", ".join(job.handle or "" for job in group.left_running)
    told = "1 job runs on" if jobs == 1 else "2 jobs run on"
    assert [f"group {group.name}: {told}: {handles}"] == caught.value.__notes__


async def test_one_job_that_is_ended_is_told_as_one(rig: GroupRig) -> None:
    rig.hold()
    with pytest.raises(KeyError) as caught:
        async with rig.runner.group() as group:
            group.start(work())
            await rig.held()
            raise KeyError
    assert [f"The group {group.name} was left: 1 job was ended, and 0 never started."] == caught.value.__notes__


async def test_a_job_that_takes_too_long_is_ended_and_retried(rig: GroupRig) -> None:
    async with rig.runner.group(timeout=5, retries=1, on_failure="continue") as group:
        job = group.start(work("sleep 1000"))
        status = await job
    assert (AppState.FAILED, True, 2) == (status.state, job.timed_out, len(job.attempts))
    assert "timeout of 5 s" in status.msg
    assert 0 == rig.running


async def test_a_launch_that_fails_is_the_jobs_error(rig: GroupRig) -> None:
    rig.service.fail("submit", UnavailableError("down"))
    async with rig.runner.group(on_failure="continue", retries=3) as group:
        job = group.start(work())
        other = group.start(work())
    assert isinstance(job.error, UnavailableError)
    assert (AppState.FAILED, AppState.SUCCEEDED) == (job.state, other.state)


async def test_jobs_that_are_done_already_are_taken_up_in_small_steps(
    rig: GroupRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig.runner.group() as group:
        engine = group._engine
        monkeypatch.setattr(engine, "_is_ready", lambda: False)
        jobs = []
        for _ in range(100):
            jobs.append(group.start(work()))
            await asyncio.sleep(0)  # each is a step of its own
        monkeypatch.undo()

        def settle(job: Job) -> bool:
            engine.over(job, Phase.DONE, AppStatus(AppState.SUCCEEDED))
            return True

        monkeypatch.setattr(engine, "_is_settled", settle)
        engine.fill()
        assert 0 < sum(job.is_terminal() for job in jobs) <= 10
        await group.wait()
        assert 100 == group.counts.done


@pytest.mark.parametrize("steps", range(6))
async def test_a_launch_that_is_cancelled_gives_its_slot_to_the_next(steps: int) -> None:
    async with GroupRig() as rig:
        rig.service.slow("submit", 1.0)
        group = rig.runner.group(limit=1)
        first, second = group.start(work()), group.start(work())
        for _ in range(steps):  # 0: the task that launches it has not begun
            await asyncio.sleep(0)
        await first.cancel()
        await rig.clock.advance(2)
        assert (AppState.CANCELLED, AppState.SUCCEEDED) == (first.state, second.state)


@pytest.mark.parametrize("steps", range(6))
async def test_a_block_that_is_left_right_after_a_start_ends_at_once(steps: int) -> None:
    async with GroupRig() as rig:
        rig.service.slow("submit", 1.0)
        with pytest.raises(ZeroDivisionError):
            async with rig.runner.group() as group:
                job = group.start(work())
                for _ in range(steps):
                    await asyncio.sleep(0)
                raise ZeroDivisionError
        assert AppState.CANCELLED is job.state
        assert not rig.running


async def test_a_body_that_raises_ends_the_jobs_and_says_so(rig: GroupRig) -> None:
    rig.hold()
    with pytest.raises(ZeroDivisionError) as caught:
        async with rig.runner.group(limit=2) as group:
            for _ in range(5):
                group.start(work("sleep 1000"))
            await rig.held(2)
            raise ZeroDivisionError
    assert [f"The group {group.name} was left: 2 jobs were ended, and 3 never started."] == caught.value.__notes__
    assert (0, 0) == (rig.running, len(group.left_running))


async def test_of_an_only_job_that_was_ended_one_is_told(rig: GroupRig) -> None:
    rig.hold()
    with pytest.raises(ZeroDivisionError) as caught:
        async with rig.runner.group() as group:
            group.start(work("sleep 1000"))
            await rig.held(1)
            raise ZeroDivisionError
    assert [f"The group {group.name} was left: 1 job was ended, and 0 never started."] == caught.value.__notes__


async def test_a_cancelled_block_ends_its_jobs_and_is_cancelled(rig: GroupRig) -> None:
    rig.hold()

    async def body() -> None:
        async with rig.runner.group() as group:
            group.start(work("sleep 1000"))
            await group.wait()

    task = asyncio.create_task(body())
    await rig.held()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert 0 == rig.running


async def test_ending_a_group_raises_nothing(rig: GroupRig) -> None:
    rig.hold()
    async with rig.runner.group(limit=1) as group:
        jobs = [group.start(work("sleep 1000")) for _ in range(3)]
        await rig.held()
        await group.cancel()
    assert {AppState.CANCELLED} == {job.state for job in jobs}
    assert 0 == rig.running


async def test_what_does_not_end_is_named(rig: GroupRig) -> None:
    rig.hold()
    rig.service.fail("cancel", *[UnavailableError("down")] * 9)
    with pytest.raises(ZeroDivisionError) as caught:
        async with rig.runner.group() as group:
            job = group.start(work("sleep 1000000"))
            await rig.held()
            raise ZeroDivisionError
    assert [job] == [*group.left_running]
    assert str(job.handle) in "".join(caught.value.__notes__)


async def test_closing_the_runner_tells_who_waits(rig: GroupRig) -> None:
    rig.hold()
    group = rig.runner.group()
    job = group.start(work("sleep 1000"))
    waiting = [asyncio.create_task(wait) for wait in (job._wait(), group.wait())]
    ends = asyncio.create_task(anext(group.as_completed()))
    await rig.held()
    await rig.runner.close()
    for task in (*waiting, ends):
        with pytest.raises(ClosedError):
            await task
    assert 1 == rig.running


async def test_cancelling_who_waits_touches_no_job(rig: GroupRig) -> None:
    async with rig.runner.group() as group:
        job = group.start(work("sleep 100"))
        for wait in (job._wait(), group.wait(), anext(group.as_completed())):
            task = asyncio.ensure_future(wait)
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    assert AppState.SUCCEEDED is job.state


async def test_one_job_may_be_cancelled_wherever_it_is(rig: GroupRig) -> None:
    rig.hold()
    async with rig.runner.group(limit=1) as group:
        running, waiting = group.start(work("sleep 1000")), group.start(work())
        await rig.held()
        await waiting.cancel()
        await running.cancel()
        rig.service.start_delay = 0.0
        last = group.start(work())
    assert ["CANCELLED", "CANCELLED", "SUCCEEDED"] == [str(job.state) for job in (running, waiting, last)]


async def test_a_group_of_one(rig: GroupRig) -> None:
    assert AppState.SUCCEEDED is (await rig.runner.job(work())).state
    rig.hold()
    async with rig.runner.job(work("sleep 1000")) as job:
        await rig.held()
    assert (AppState.CANCELLED, 0) == (job.state, rig.running)
    await eventually(lambda: not rig.runner._groups)


async def test_run_all_raises_nothing(rig: GroupRig) -> None:
    jobs = await rig.runner.run_all([work("exit 1"), work("exit 0")], limit=1)
    assert ["FAILED", "SUCCEEDED"] == [str(job.state) for job in jobs]


async def test_apps_say_which_group_they_belong_to(rig: GroupRig) -> None:
    async with rig.runner.group() as group:
        job = group.start(work())
    assert job.handle is not None
    app = rig.service.apps[job.handle.app_id]
    assert {"ASYNCSCHED_GROUP": group.name, "ASYNCSCHED_GROUP_INDEX": "0"} == app.metadata
    assert app.metadata.items() <= app.app.roles[0].env.items()


async def test_the_lines_of_jobs_that_start_later_are_read(rig: GroupRig) -> None:
    async with rig.runner.group(limit=1) as group:
        for index in range(3):
            group.start(work(f"echo {index}; sleep 1"))
        lines = [line.text async for line in group.log_lines(should_tail=True)]
        assert ["0", "1", "2"] == sorted(lines)
        assert ["2"] == [line.text async for line in group.jobs[2].log_lines()]


async def test_apps_are_checked_at_once_and_copied(rig: GroupRig) -> None:
    async with rig.runner.group(limit=1) as group:
        with pytest.raises(ValueError, match="no roles"):
            group.start(AppDef("x"))
        app = work("exit 0")
        group.start(work("sleep 1"))
        job = group.start(app)
        app.roles[0] = Role("main", "image", entrypoint="sh", args=["-c", "exit 1"])
    assert AppState.SUCCEEDED is job.state


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"limit": 0}, "limit must be a whole number of at least 1, got 0"),
        ({"retries": -1}, "retries must be a whole number of at least 0, got -1"),
        ({"timeout": 0}, "timeout must be a number of seconds above 0 and at most 1000000000, got 0"),
        ({"on_failure": "stop"}, "on_failure must be one of 'cancel', 'continue', got 'stop'"),
        ({"max_failures": 1.5}, "max_failures must be a whole number from 0, or a share"),
        ({"max_failures": 1, "on_failure": "continue"}, "no number of failures ends the group"),
        ({"key": ""}, "key must be printable text of 1 to 100 characters, got ''"),
        ({"scheduler": "fak"}, "did you mean fake"),
    ],
)
async def test_wrong_arguments_are_told(rig: GroupRig, wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        rig.runner.group(**wrong)  # type: ignore[arg-type]
