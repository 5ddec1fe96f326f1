"""Groups with a key: what was done is done, what runs is followed, and a journal is read wherever it was cut."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from asyncsched.errors import ConflictError, UsageError
from asyncsched.runner import Runner
from asyncsched.runner.groups.journal import end_line, plan_line, read_journal, sent_line
from asyncsched.runner.groups.outcome import End, Verdict
from asyncsched.specs import AppState, AppStatus
from tests._support import eventually
from tests.runner.groups_rig import GroupRig, another, rig_follows, work


@pytest.fixture
async def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[GroupRig]:
    monkeypatch.setenv("ASYNCSCHED_HOME", str(tmp_path / "home"))
    async with GroupRig() as rig, rig.clock:
        yield rig


async def test_what_is_done_is_done_and_what_has_failed_runs_again(rig: GroupRig) -> None:
    async with rig.runner.group(key="sweep", on_failure="continue") as group:
        group.start(work("exit 0"), name="good")
        group.start(work("exit 1"), name="bad")
    submits = rig.service.calls["submit"]
    async with another(rig) as runner, runner.group(key="sweep", on_failure="continue") as group:
        good, bad = group.start(work("exit 0"), name="good"), group.start(work("exit 1"), name="bad")
    assert (AppState.SUCCEEDED, AppState.FAILED) == (good.state, bad.state)
    assert (1, 2) == (len(good.attempts), len(bad.attempts))
    assert 1 == rig.service.calls["submit"] - submits


@pytest.mark.parametrize(("reuse", "attempts"), [("any", (1, 1)), ("never", (2, 2)), ("succeeded", (1, 2))])
async def test_what_is_taken_as_it_is(rig: GroupRig, reuse: str, attempts: tuple[int, int]) -> None:
    for _ in range(2):
        async with another(rig) as runner:
            async with runner.group(key="sweep", on_failure="continue", reuse=reuse) as group:  # type: ignore[arg-type]
                jobs = [group.start(work(f"exit {code}")) for code in (0, 1)]
    assert attempts == tuple(len(job.attempts) for job in jobs)


async def test_what_runs_is_left_and_followed_and_counts(rig: GroupRig) -> None:
    runner = another(rig)
    rig.hold()
    with pytest.raises(ZeroDivisionError) as caught:
        async with runner.group(key="sweep", limit=2) as group:
            for _ in range(6):
                group.start(work("sleep 1000"))
            await eventually(lambda: len(group._engine.flights) == 2)
            raise ZeroDivisionError
    assert "2 jobs run on, and a group with key='sweep' comes back to them" in "".join(caught.value.__notes__)
    assert (2, 2) == (rig.running, len(group.left_running))
    await runner.close()

    rig.most = 0
    async with another(rig) as runner, runner.group(key="sweep", limit=2) as group:
        jobs = [group.start(work("sleep 1000")) for _ in range(6)]
        assert [True, True, False] == [job.handle is not None for job in jobs[:3]]  # whether or not there is a slot
        rig.let_go()
    assert {AppState.SUCCEEDED} == {job.state for job in jobs}
    assert [1] * 6 == [len(job.attempts) for job in jobs]
    assert (2, 6) == (rig.most, len(rig.service.apps))


async def test_a_service_that_forgets_is_not_asked_about_what_has_ended(rig: GroupRig) -> None:
    async with rig.runner.group(key="sweep") as group:
        job = group.start(work("exit 0"))
    assert job.handle is not None
    rig.service.vanish(job.handle.app_id)
    described = rig.service.calls["describe"]
    async with another(rig) as runner, runner.group(key="sweep") as group:
        again = group.start(work("exit 0"))
    assert (AppState.SUCCEEDED, described) == (again.state, rig.service.calls["describe"])


async def test_another_app_under_a_jobs_name_is_refused(rig: GroupRig) -> None:
    for script in ("exit 0", "sleep 1"):
        async with another(rig) as runner, runner.group(key="sweep", on_failure="continue") as group:
            job = group.start(work(script), name="mine")
    assert isinstance(job.error, ConflictError)
    assert "was another app before" in str(job.error)
    assert 1 == len(rig.service.apps)


async def test_the_second_of_two_is_told(rig: GroupRig) -> None:
    async with rig.runner.group(key="sweep") as group:
        group.start(work("sleep 10"))
        async with another(rig) as runner:
            with pytest.raises(ConflictError, match="is run already"):
                async with runner.group(key="sweep"):
                    pass
            late = runner.group(key="sweep")
            job = late.start(work("sleep 10"))
            await job
            assert isinstance(job.error, ConflictError)
            await late.aclose()
    assert 1 == len(rig.service.apps)


async def test_a_submit_whose_answer_was_lost_is_found(rig: GroupRig, tmp_path: Path) -> None:
    async with rig.runner.group(key="sweep") as group:
        job = group.start(work("sleep 5"))
    [path] = (tmp_path / "home/groups").iterdir()
    planned = path.read_bytes().split(b"\n")[0] + b"\n"
    path.write_bytes(planned)
    async with another(rig) as runner, runner.group(key="sweep") as group:
        again = group.start(work("sleep 5"))
    assert job.attempts == again.attempts
    assert 1 == rig.service.calls["submit"]


async def test_what_was_half_sent_is_sent_again_under_its_key(rig: GroupRig, tmp_path: Path) -> None:
    runner = another(rig)
    rig.hold()
    with pytest.raises(ZeroDivisionError):
        async with runner.group(key="sweep", limit=1) as group:
            job = group.start(work("sleep 5"))
            await rig_follows(runner)
            raise ZeroDivisionError
    await runner.close()
    [path] = (tmp_path / "home/groups").iterdir()
    path.write_bytes(path.read_bytes().split(b"\n")[0] + b"\n")
    async with another(rig) as runner, runner.group(key="sweep", limit=1) as group:
        again = group.start(work("sleep 5"))
        await eventually(lambda: rig.service.calls["submit"] == 2 and again.handle is not None)
        rig.let_go()
        await again
        handles = group._engine.handles
    assert (AppState.SUCCEEDED, job.attempts) == (again.state, again.attempts)
    assert (2, 1, 1) == (rig.service.calls["submit"], len(rig.service.apps), len(handles))


async def test_half_an_app_that_is_told_as_failed_is_completed(rig: GroupRig, tmp_path: Path) -> None:
    """As where a service, or its files, tell after a while that a submit was cut off."""
    async with rig.runner.group(key="sweep", on_failure="continue") as group:
        [path] = (tmp_path / "home/groups").iterdir()
        job = group.start(work("exit 1"))
    path.write_bytes(path.read_bytes().split(b"\n")[0] + b"\n")
    async with another(rig) as runner, runner.group(key="sweep", on_failure="continue") as group:
        again = group.start(work("exit 1"))
    assert (AppState.FAILED, job.attempts) == (again.state, again.attempts)
    assert 2 == rig.service.calls["submit"]


async def test_apps_that_end_with_their_process_cannot_be_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASYNCSCHED_HOME", str(tmp_path / "home"))
    async with Runner("me") as runner, runner.group("local_cwd", key="sweep") as group:
        with pytest.raises(UsageError, match="detach"):
            group.start(work())


def test_a_journal_is_read_wherever_it_was_cut() -> None:
    lines: list[dict[str, object]] = []
    for index, name in enumerate(("a", "b\n", "ü")):
        lines.append(plan_line(name, index, "d" * 64, 1, f"fake://me/{index}"))
        lines.append(sent_line(name, 1))
        lines.append(end_line(name, 1, Verdict(End.SUCCEEDED, AppStatus(AppState.SUCCEEDED, msg="ok\n"))))
    whole = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    for cut in range(len(whole) + 1):
        complete = whole[:cut].count(b"\n")
        told = read_journal(whole[:cut])
        attempts = [past.attempts[1] for past in told.values()]
        assert (complete + 2) // 3 == len(told)
        assert (complete + 1) // 3 == sum(attempt.is_sent for attempt in attempts)
        assert complete // 3 == sum(attempt.end is not None for attempt in attempts)
        assert told == read_journal(whole[:cut] + b"\xff\n[]\n{}\n")


async def test_a_cut_journal_is_gone_on_with(rig: GroupRig, tmp_path: Path) -> None:
    async with rig.runner.group(key="sweep") as group:
        group.start(work("sleep 5"))
    [path] = (tmp_path / "home/groups").iterdir()
    whole = path.read_bytes()
    for cut in range(0, len(whole), 7):
        path.write_bytes(whole[:cut])
        async with another(rig) as runner, runner.group(key="sweep") as group:
            job = group.start(work("sleep 5"))
        assert (AppState.SUCCEEDED, 1) == (job.state, len(job.attempts))
    assert 1 == len(rig.service.apps)
    await asyncio.sleep(0)
