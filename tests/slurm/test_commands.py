"""What is made of the cluster's answers, by stand-ins for its commands: for what our own cluster cannot say."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import pwd
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from asyncsched._platform import user_name
from asyncsched.errors import (
    ConfigError,
    ConflictError,
    InvalidRequestError,
    PermissionDeniedError,
    RunOptionError,
    SchedulerError,
    ThrottledError,
    UnavailableError,
)
from asyncsched.schedulers.slurm import SlurmScheduler, names
from asyncsched.schedulers.slurm.client import ACCOUNTS_REST, ACCOUNTS_SHARE, GATHER, Cluster
from asyncsched.schedulers.slurm.errors import unwritable
from asyncsched.specs import AppState, FailureCause
from asyncsched.testing import VirtualClock
from tests._support import WITHIN, eventually
from tests.slurm._apps import app
from tests.slurm._commands import Commands, sacct_row, squeue_row

BUSY = "sbatch: error: slurmctld RPC rate limit exceeded\n"


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    commands = Commands(tmp_path / "bin", monkeypatch)
    commands.say("sbatch", "7\n")
    return commands


@pytest.fixture
async def scheduler(commands: Commands, clock: VirtualClock, tmp_path: Path) -> AsyncGenerator[SlurmScheduler]:
    async with SlurmScheduler("session", state_dir=tmp_path / "home", clock=clock, retry_for=5.0) as scheduler:
        yield scheduler


async def test_a_submit_for_which_the_cluster_is_too_busy_is_made_again(
    commands: Commands, scheduler: SlurmScheduler
) -> None:
    commands.say("sbatch", stderr=BUSY, code=1, times=3)
    app_id = await scheduler.submit(app("true"))
    found = await scheduler.describe(app_id)

    assert 4 == commands.asked("sbatch")
    assert found is not None
    assert "7" == found.native_id


async def test_an_app_is_not_given_up_while_its_submitter_lives(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path
) -> None:
    commands.hold("sbatch")
    async with SlurmScheduler("other", state_dir=tmp_path / "home") as other:
        submit = asyncio.create_task(scheduler.submit(app("true")))
        await eventually(lambda: commands.asked("sbatch") == 1)
        (app_id,) = [path.name for path in (tmp_path / "home/apps").iterdir()]
        long_ago(tmp_path / "home/jobs" / app_id)
        waits = await other.describe(app_id)
        submit.cancel()
        commands.release("sbatch")
        await asyncio.gather(submit, return_exceptions=True)

    assert waits is not None
    assert (AppState.SUBMITTED, "its submit has not been answered yet") == (waits.state, waits.msg)


async def test_an_app_is_given_up_some_time_after_the_last_sign_of_a_submitter_that_was_killed(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path
) -> None:
    app_id = await scheduler.submit(app("true"))
    directory = tmp_path / "home/jobs" / app_id
    for number in ("job", "events/job"):
        (directory / number).unlink()
    long_ago(directory, lock=False)
    just_now = await scheduler.describe(app_id)
    long_ago(directory)
    later = await scheduler.describe(app_id)

    assert just_now is not None
    assert later is not None
    assert (AppState.SUBMITTED, AppState.FAILED) == (just_now.state, later.state)
    assert "its submit was cut off" in later.msg


def long_ago(directory: Path, *, lock: bool = True) -> None:
    """Have an app be submitted an hour ago, and its submitter have been seen then."""
    record = json.loads((directory / "app.json").read_text())
    record["created_ns"] = time.time_ns() - 3600 * 10**9
    (directory / "app.json").write_text(json.dumps(record))
    if lock:
        os.utime(directory / "lock", ns=(record["created_ns"],) * 2)


async def test_a_cluster_that_stays_too_busy_is_told_and_nothing_is_left(
    commands: Commands, scheduler: SlurmScheduler, clock: VirtualClock, tmp_path: Path
) -> None:
    commands.say("sbatch", stderr=BUSY, code=1)
    began = clock.monotonic()

    with pytest.raises(ThrottledError, match="RPC rate limit exceeded"):
        await scheduler.submit(app("true"))
    assert clock.monotonic() - began >= scheduler.retry_for
    assert [] == [*(tmp_path / "home/jobs").iterdir()] == [*(tmp_path / "home/apps").iterdir()]
    assert 0 == commands.asked("scancel")


async def test_a_submit_to_a_dead_controller_fails_within_the_time_of_one_request(
    commands: Commands, tmp_path: Path
) -> None:
    clock = VirtualClock()
    commands.hold("sbatch")
    commands.hold("scancel")
    async with SlurmScheduler("session", state_dir=tmp_path / "home", clock=clock) as scheduler:
        submit = asyncio.create_task(scheduler.submit(app("true")))
        async with asyncio.timeout(WITHIN):
            while not submit.done():
                await clock.advance(1.0)
            with pytest.raises(UnavailableError, match="sbatch did not end") as failed:
                await submit

    told = f"{failed.value} {failed.value.__notes__}"
    assert "scancel did not end" in told
    assert scheduler.request_timeout == sum(map(float, re.findall(r"took more than (\S+) s", told)))
    assert [] == [*(tmp_path / "home/jobs").iterdir()] == [*(tmp_path / "home/apps").iterdir()]


async def test_a_job_whose_number_cannot_be_written_down_is_taken_back(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path
) -> None:
    commands.hold("sbatch")
    submit = asyncio.create_task(scheduler.submit(app("true")))
    await eventually(lambda: commands.asked("sbatch"))
    (events,) = (tmp_path / "home/jobs").glob("*/events")
    events.rmdir()
    commands.release("sbatch")

    with pytest.raises(SchedulerError, match=f"cannot write the app to {events.parent}"):
        await submit
    assert 1 == commands.asked("scancel")
    assert [] == [*(tmp_path / "home/jobs").iterdir()] == [*(tmp_path / "home/apps").iterdir()]


async def test_a_submit_that_waits_for_another_one_submits_when_that_is_taken_back(
    commands: Commands, scheduler: SlurmScheduler, clock: VirtualClock, tmp_path: Path
) -> None:
    commands.hold("sbatch")
    info = await scheduler.submit_dryrun(app("true"))
    async with SlurmScheduler("session", state_dir=tmp_path / "home", clock=clock, retry_for=1e9) as other:
        first = asyncio.create_task(scheduler.schedule(info))
        await eventually(lambda: commands.asked("sbatch"))
        began = clock.monotonic()
        second = asyncio.create_task(other.schedule(info))
        await eventually(lambda: clock.monotonic() > began)  # nobody else looks at the clock
        first.cancel()
        commands.release("sbatch")
        await asyncio.gather(first, second, return_exceptions=True)

        assert first.cancelled()
        assert info.app_id == await second
        assert "7\n" == (tmp_path / "home/jobs" / info.app_id / "events/job").read_text()
    assert (2, 1) == (commands.asked("sbatch"), commands.asked("scancel"))


async def test_of_many_submits_under_one_key_one_is_made_wherever_their_directories_are(
    commands: Commands, tmp_path: Path, clock: VirtualClock
) -> None:
    async with AsyncExitStack() as stack:
        made = [SlurmScheduler("session", state_dir=tmp_path / "home", clock=clock) for _ in range(20)]
        for each in made:
            await stack.enter_async_context(each)
        submits = [
            each.submit(app("true"), {"job_dir": f"{tmp_path}/{number}"}, key="k") for number, each in enumerate(made)
        ]
        told = await asyncio.gather(*submits, return_exceptions=True)

    assert {str: 1, ConflictError: 19} == Counter(type(each) for each in told)
    assert 1 == commands.asked("sbatch")
    (link,) = (tmp_path / "home/apps").iterdir()
    assert "7\n" == (link / "events/job").read_text()
    assert [link.name] == [path.name for number in range(20) for path in (tmp_path / f"{number}").glob("*")]


SUBMITS = """
import asyncio, sys
from asyncsched.schedulers.slurm import SlurmScheduler
from tests.slurm._apps import app
async def submit():
    async with SlurmScheduler("session", state_dir=sys.argv[1]) as scheduler:
        await scheduler.submit(app("true"), key="k")
asyncio.run(submit())
"""


async def test_a_job_that_is_on_its_way_is_waited_for_though_its_submitter_was_killed(
    commands: Commands, clock: VirtualClock, tmp_path: Path
) -> None:
    commands.hold("sbatch")
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", SUBMITS, str(tmp_path / "home"))
    await eventually(lambda: commands.asked("sbatch"))
    killed.kill()
    await killed.wait()
    (link,) = (tmp_path / "home/apps").iterdir()
    async with SlurmScheduler("session", state_dir=tmp_path / "home", clock=clock, retry_for=1e9) as other:
        began = clock.monotonic()
        second = asyncio.create_task(other.submit(app("true"), key="k"))
        await eventually(lambda: clock.monotonic() > began + 1.0 or commands.asked("sbatch") > 1)
        commands.say("squeue", squeue_row("7", link.name, "RUNNING"))
        commands.release("sbatch")

        assert link.name == await second
    assert 1 == commands.asked("sbatch")
    assert "7\n" == (link / "events/job").read_text()


@pytest.mark.parametrize("answer", ["7", "7;cluster", "Submitted batch job 7", "a site's word\n7\n"])
async def test_a_job_is_known_by_the_number_that_is_told(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path, answer: str
) -> None:
    commands.say("sbatch", answer)
    app_id = await scheduler.submit(app("true"))

    assert "7\n" == (tmp_path / "home/jobs" / app_id / "events/job").read_text()


async def test_a_job_of_which_no_number_is_told_is_looked_for_and_ended(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path
) -> None:
    commands.say("sbatch", "a site's word")
    with pytest.raises(UnavailableError, match="sbatch failed"):
        await scheduler.submit(app("true"))

    assert [] == [*(tmp_path / "home/jobs").iterdir()] == [*(tmp_path / "home/apps").iterdir()]
    assert 1 == commands.asked("scancel")


async def test_submits_are_made_at_a_pace(commands: Commands, tmp_path: Path) -> None:
    async with VirtualClock() as clock:
        cluster = Cluster(clock=clock, timeout=30.0)
        for _ in range(140):
            await cluster.submits.turn()

        assert 2 == round(clock.monotonic(), 3)


async def test_all_who_ask_at_a_time_share_one_command(commands: Commands) -> None:
    clock = VirtualClock()
    cluster = Cluster(clock=clock, timeout=30.0)
    asking = [asyncio.create_task(cluster.jobs("describe")) for _ in range(320)]
    await clock.advance(GATHER)
    # The first command runs by now, or has run: what it tells may be older than what they want to know.
    asking += [asyncio.create_task(cluster.jobs("describe")) for _ in range(320)]
    await clock.advance(GATHER)
    await asyncio.gather(*asking)
    await cluster.close(10.0)

    assert 2 == commands.asked("squeue") == cluster.started


async def stored(scheduler: SlurmScheduler, folder: Path, count: int) -> list[str]:
    """Leave so many apps there, as their submits would; their jobs have numbers from 100."""
    info = await scheduler.submit_dryrun(app("true"))
    await scheduler.schedule(info)
    made = folder / "home/jobs" / info.app_id
    for number in range(count):
        app_id, there = f"job-{number}", folder / f"home/jobs/job-{number}"
        there.mkdir(mode=0o700)
        (there / "events").mkdir()
        (there / "app.json").write_text((made / "app.json").read_text().replace(info.app_id, app_id))
        (there / "events/job").write_text(f"{100 + number}\n")
        (folder / "home/apps" / app_id).symlink_to(there)
    return [f"job-{number}" for number in range(count)]


async def test_a_thousand_apps_are_described_by_two_commands(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path
) -> None:
    app_ids = await stored(scheduler, tmp_path, 1000)
    commands.say("squeue", "".join(squeue_row(str(100 + k), f"job-{k}", "RUNNING") for k in range(500)))
    commands.say("sacct", "".join(sacct_row(str(100 + k), f"job-{k}", "COMPLETED") for k in range(500, 1000)))
    before = scheduler.commands_started
    found = await scheduler.describe_many(app_ids)

    assert 2 == scheduler.commands_started - before
    states = [each.state for each in found.values() if each is not None]
    assert [AppState.RUNNING] * 500 + [AppState.SUCCEEDED] * 500 == states


async def test_a_thousand_apps_are_cancelled_by_two_commands(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path
) -> None:
    app_ids = await stored(scheduler, tmp_path, 1000)
    commands.say("squeue", "".join(squeue_row(str(100 + k), f"job-{k}", "RUNNING") for k in range(1000)))
    before = scheduler.commands_started
    told = await scheduler.cancel_many([*app_ids, "nobody"])

    assert dict.fromkeys([*app_ids, "nobody"]) == told
    assert (1, 1) == (commands.asked("squeue"), commands.asked("scancel"))
    assert 2 == scheduler.commands_started - before
    assert all((tmp_path / "home/jobs" / app_id / names.CANCELLED).exists() for app_id in app_ids)


async def test_many_apps_are_listed_and_pruned_by_few_commands(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path
) -> None:
    app_ids = [await scheduler.submit(app("true")) for _ in range(2)]
    for name in ("apps", "jobs"):
        copies(tmp_path / "home" / name, app_ids[0], 148)
    rows = [squeue_row("7", app_id, "COMPLETED") for app_id in app_ids]
    commands.say("squeue", "".join(rows))
    listed = await scheduler.list()
    asked = commands.asked("squeue")
    removed = await scheduler.prune(timedelta(0))

    assert {"7"} == {row.native_id for row in listed}
    assert (150, 150, 2, 2) == (len(listed), len(removed), asked, commands.asked("squeue") - asked)
    assert [] == [*(tmp_path / "home/jobs").iterdir()] == [*(tmp_path / "home/apps").iterdir()]


async def test_without_slurm_and_without_apps_a_list_says_that_it_is_not_set_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    async with SlurmScheduler("s", state_dir=str(tmp_path / "home")) as scheduler:
        with pytest.raises(UnavailableError, match="no Slurm on this machine") as caught:
            await scheduler.list()

    assert "no program squeue is in PATH" == caught.value.why
    assert not caught.value.is_set_up


def copies(directory: Path, app_id: str, count: int) -> None:
    """Have there be more apps like one: links to its directory's copies, or those."""
    for number in range(count):
        there, new = directory / app_id, directory / f"{app_id}-{number}"
        if there.is_symlink():
            new.symlink_to(f"{there.readlink()}-{number}")
        else:
            shutil.copytree(there, new)
            (new / "app.json").write_text((new / "app.json").read_text().replace(app_id, new.name))


async def test_an_app_whose_directory_is_gone_can_be_ended_and_removed(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path
) -> None:
    for lost in ("app.json", ""):
        app_id = await scheduler.submit(app("true"))
        directory = tmp_path / "home/jobs" / app_id
        (directory / lost).unlink() if lost else shutil.rmtree(directory)
        commands.say("squeue", squeue_row("7", app_id, "RUNNING"))
        found = await scheduler.describe(app_id)
        before = commands.asked("scancel")
        await scheduler.cancel(app_id)
        many = await scheduler.cancel_many([app_id])
        with pytest.raises(ConflictError):
            await scheduler.delete(app_id)
        commands.say("squeue")
        gone = await scheduler.describe(app_id)
        await scheduler.delete(app_id)

        assert found is not None
        assert (AppState.RUNNING, "7", None) == (found.state, found.native_id, gone)
        assert (2, {app_id: None}) == (commands.asked("scancel") - before, many)
        assert [] == [*(tmp_path / "home/jobs").iterdir()] == [*(tmp_path / "home/apps").iterdir()]


async def test_an_app_whose_events_are_gone_can_be_ended(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path
) -> None:
    app_id = await scheduler.submit(app("true"))
    shutil.rmtree(tmp_path / "home/jobs" / app_id / "events")
    commands.say("squeue", squeue_row("7", app_id, "RUNNING"))
    await scheduler.cancel(app_id)

    assert 1 == commands.asked("scancel")


async def test_a_directory_that_others_may_write_to_is_told_to_those_alone_who_ask_for_it(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path
) -> None:
    theirs, mine = [await scheduler.submit(app("true")) for _ in range(2)]
    (tmp_path / "home/jobs" / theirs).chmod(0o777)
    commands.say("squeue", squeue_row("7", mine, "COMPLETED"))

    async def states(app_id: str) -> list[AppState | None]:
        async with scheduler.watch([app_id]) as watch:
            return [event.state async for event in watch]

    told = await asyncio.gather(states(theirs), states(mine), return_exceptions=True)
    ended = await scheduler.cancel_many([theirs, mine])

    assert isinstance(told[0], PermissionDeniedError)
    assert [AppState.SUCCEEDED] == told[1]
    assert [True, False] == [isinstance(ended[each], PermissionDeniedError) for each in (theirs, mine)]
    assert [mine] == [each.app_id for each in await scheduler.list()] == await scheduler.prune(timedelta(0))


async def test_who_cannot_be_cancelled_is_told_apart(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path
) -> None:
    app_ids = await stored(scheduler, tmp_path, 3)
    commands.say("squeue", "".join(squeue_row(str(100 + k), f"job-{k}", "RUNNING") for k in range(3)))
    error = "scancel: error: Kill job error on job id"
    complaint = f"{error} 100: Invalid job id specified\n{error} 101: Access/permission denied\n"
    commands.say("scancel", stderr=complaint, code=1)
    told = await scheduler.cancel_many(app_ids)

    assert [None, PermissionDeniedError, None] == [error and type(error) for error in told.values()]
    assert 1 == commands.asked("scancel")


async def test_all_are_told_of_a_cluster_that_does_not_answer(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path
) -> None:
    app_ids = await stored(scheduler, tmp_path, 3)
    commands.say("squeue", "".join(squeue_row(str(100 + k), f"job-{k}", "RUNNING") for k in range(3)))
    commands.say("scancel", stderr="scancel: error: Unable to contact slurm controller\n", code=1)

    assert {UnavailableError} == {type(error) for error in (await scheduler.cancel_many(app_ids)).values()}


async def test_ends_do_not_wait_for_submits(commands: Commands, scheduler: SlurmScheduler, tmp_path: Path) -> None:
    app_ids = await stored(scheduler, tmp_path, 1)
    commands.say("squeue", squeue_row("100", "job-0", "RUNNING"))
    commands.hold("sbatch")
    asked = commands.asked("sbatch")
    submits = [asyncio.create_task(scheduler.submit(app("true"))) for _ in range(60)]
    await eventually(lambda: commands.asked("sbatch") > asked)
    assert {"job-0": None} == await scheduler.cancel_many(app_ids)
    assert not any(submit.done() for submit in submits)
    commands.release("sbatch")
    await asyncio.gather(*submits)


@pytest.mark.parametrize(
    ("state", "reason", "expected"),
    [
        ("OUT_OF_MEMORY", "OutOfMemory", (AppState.FAILED, FailureCause.OOM)),
        ("TIMEOUT", "TimeLimit", (AppState.FAILED, FailureCause.TIMEOUT)),
        ("PREEMPTED", "None", (AppState.FAILED, FailureCause.PREEMPTED)),
        ("NODE_FAIL", "NodeDown", (AppState.FAILED, FailureCause.NODE)),
        ("CANCELLED", "None", (AppState.CANCELLED, FailureCause.CANCELLED)),
    ],
)
@pytest.mark.parametrize("who", ["squeue", "sacct"])
async def test_how_a_job_ended_is_told_by_whoever_still_knows_it(
    commands: Commands,
    scheduler: SlurmScheduler,
    who: str,
    state: str,
    reason: str,
    expected: tuple[AppState, FailureCause],
) -> None:
    app_id = await scheduler.submit(app("true"))
    if who == "squeue":
        commands.say("squeue", squeue_row("7", app_id, state, reason=reason))
    else:
        told = "CANCELLED by 1000" if state == "CANCELLED" else state
        commands.say("sacct", sacct_row("7", app_id, told, "0:125" if state == "OUT_OF_MEMORY" else "0:0"))
    found = await scheduler.describe(app_id)

    assert found is not None
    assert expected == (found.state, found.cause)
    assert [expected] == [(each.state, each.cause) for each in found.replicas]


@pytest.mark.parametrize(
    "complaint",
    [
        "slurm_persist_conn_open_without_init: failed to open persistent connection to host:localhost:6819: "
        "Connection refused\nsacct: error: Problem talking to the database: Connection refused",
        "something that nobody has heard of",
    ],
)
async def test_accounts_that_do_not_answer_stop_nobody_from_being_described(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path, complaint: str, caplog: pytest.LogCaptureFixture
) -> None:
    runs = await scheduler.submit(app("true"))
    commands.say("sbatch", "8\n")
    written = await scheduler.submit(app("true"))
    (tmp_path / "home/jobs" / written / "events/main-0.ev").write_text("start 0 n1 1.0\nexit 0 3 2.0\n")
    commands.say("sbatch", "9\n")
    silent = await scheduler.submit(app("true", num_replicas=2))
    (tmp_path / "home/jobs" / silent / "events/main-0.ev").write_text("start 0 n1 1.0\nexit 0 0 2.0\n")
    (tmp_path / "home/jobs" / silent / "events/main-1.ev").write_text("start 0 n1 1.0\n")
    commands.say("squeue", squeue_row("7", runs, "RUNNING"))
    commands.say("sacct", stderr=f"sacct: error: {complaint}\n", code=1)
    found = await scheduler.describe_many([runs, written, silent])
    rows = await scheduler.list()

    states = {runs: AppState.RUNNING, written: AppState.FAILED, silent: AppState.UNKNOWN}
    assert states == {app_id: each.state for app_id, each in found.items() if each is not None}
    assert states == {row.app_id: row.state for row in rows}
    told = found[silent]
    assert told is not None
    assert [AppState.SUCCEEDED, AppState.UNKNOWN] == [replica.state for replica in told.replicas]
    assert complaint.rpartition("\n")[2] in told.msg
    # Accounts that do not answer are not asked again at once, and it is told once.
    assert 1 == commands.asked("sacct") == len(caplog.messages)

    commands.say("sacct", sacct_row("9", silent, "TIMEOUT"))
    await scheduler.clock.sleep(ACCOUNTS_REST)
    again = await scheduler.describe(silent)

    assert again is not None
    assert (AppState.FAILED, FailureCause.TIMEOUT) == (again.state, again.cause)


async def test_accounts_that_hang_are_asked_once_and_not_waited_for_long(commands: Commands) -> None:
    clock = VirtualClock()
    cluster = Cluster(clock=clock, timeout=30.0)
    commands.hold("sacct")
    asking = [asyncio.create_task(cluster.forgotten([f"{job}"], "describe")) for job in range(20)]
    await eventually(lambda: commands.asked("sacct"))
    asking += [asyncio.create_task(cluster.forgotten([f"{job}"], "describe")) for job in range(20)]
    async with asyncio.timeout(WITHIN):
        while not all(each.done() for each in asking):
            await clock.advance(1.0)
    told = await asyncio.gather(*asking, return_exceptions=True)
    await cluster.close(10.0)

    assert 1 == commands.asked("sacct")
    assert 40 == sum(isinstance(each, UnavailableError) for each in told)
    assert {f"it took more than {30 * ACCOUNTS_SHARE:g} s"} == {
        each.why for each in told if isinstance(each, UnavailableError)
    }


@pytest.mark.parametrize("state", ["RUNNING", "PENDING", "COMPLETING", "REQUEUED", "NODE_FAIL"])
async def test_a_job_that_the_controller_does_not_know_has_ended_whatever_the_accounts_say(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path, state: str
) -> None:
    app_id = await scheduler.submit(app("true"), {"requeue": True})
    commands.say("sacct", sacct_row("7", app_id, state))
    found = await scheduler.describe(app_id)
    (tmp_path / "home/jobs" / app_id / "events/main-0.ev").write_text("start 0 n1 1.0\nexit 0 0 2.0\n")
    written = await scheduler.describe(app_id)

    assert found is not None
    assert written is not None
    assert (AppState.FAILED, AppState.FAILED) == (found.state, found.replicas[0].state)
    assert AppState.SUCCEEDED == written.replicas[0].state


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory that belongs to another user")
async def test_a_directory_of_somebody_else_is_not_taken(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path
) -> None:
    info = await scheduler.submit_dryrun(app("true"))
    there = tmp_path / "home/jobs" / info.app_id
    there.mkdir(parents=True)
    (there / "app.json").write_text("{}")
    os.chown(there, 65534, 65534)

    with pytest.raises(PermissionDeniedError, match=f"^{there} cannot be used"):
        await scheduler.schedule(info)
    assert 0 == commands.asked("sbatch")
    assert ["app.json"] == [path.name for path in there.iterdir()]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory that belongs to another user")
@pytest.mark.parametrize("where", ["place", "place/within", "link"])
@pytest.mark.parametrize(("owner", "mode"), [(65534, 0o755), (0, 0o777), (0, 0o775), (65534, 0o1777)])
async def test_a_place_in_which_others_could_change_an_app_is_refused(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path, where: str, owner: int, mode: int
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (tmp_path / "link").symlink_to(place)
    os.chown(place, owner, 4711)
    place.chmod(mode)

    why = f"{place} belongs to {user_name(owner)}" if owner else f"{place} has mode 0{mode:o}, which lets others write"
    with pytest.raises(PermissionDeniedError, match=f"^{tmp_path / where} cannot be used for apps") as error:
        await scheduler.submit(app("true"), {"job_dir": str(tmp_path / where)})
    assert error.value.why.startswith(f"{why}: ")
    assert "`job_dir`" in error.value.fix
    assert (owner == 0) == error.value.fix.startswith(f"set the sticky bit of {place} (chmod +t), or use another")
    assert 0 == commands.asked("sbatch")
    assert [] == [path for path in place.rglob("*") if path.name != "within"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory that belongs to another user")
async def test_a_group_that_has_another_user_is_others(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path
) -> None:
    """Root's group is root alone; that of `daemon` is the only group of another user, who is no listed member."""
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(0o2775)
    await scheduler.submit(app("true"), {"job_dir": str(place)})
    os.chown(place, 0, pwd.getpwnam("daemon").pw_gid)
    place.chmod(0o2775)

    with pytest.raises(PermissionDeniedError, match="has mode 2775, which lets others write"):
        await scheduler.submit(app("true"), {"job_dir": str(place)})


def test_a_full_disk_is_told_with_what_helps() -> None:
    with pytest.raises(OSError, match="No space left") as full, open("/dev/full", "wb", 0) as file:  # noqa: PTH123
        file.write(b"x")
    told = unwritable("/shared", full.value, "submit")

    assert "cannot write the app to /shared" == told.what
    assert told.fix.startswith("free space there, or use another directory")
    assert unwritable("/shared", PermissionError(errno.EACCES, "no"), "submit").fix.startswith("use another directory")
    assert told.retryable
    passing = unwritable("/shared", OSError(errno.EMFILE, "Too many open files"), "submit")
    assert (True, "let other apps end, or raise the limit of open files (ulimit -n)") == (
        passing.retryable,
        passing.fix,
    )


async def test_a_place_that_others_may_use_but_not_change_is_taken(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path
) -> None:
    """The sticky bit says so; what is missing is made for this user alone."""
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(0o1777)
    before = os.umask(0)
    try:
        await scheduler.submit(app("true"), {"job_dir": str(place / "new/one")})
    finally:
        os.umask(before)

    assert [0o700, 0o700] == [path.stat().st_mode & 0o777 for path in (place / "new", place / "new/one")]


async def test_a_workspace_may_hold_the_place_in_which_apps_will_be(
    commands: Commands, tmp_path: Path, clock: VirtualClock
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/file").touch()
    state_dir = tmp_path / "work/.asyncsched/slurm"
    async with SlurmScheduler("session", state_dir=state_dir, clock=clock) as scheduler:
        for job_dir in (None, f"{tmp_path}/work/made/on/the/way"):
            app_id = await scheduler.submit(app("true"), {"job_dir": job_dir}, f"{tmp_path}/work")
            copy = Path(job_dir or state_dir / "jobs") / app_id / "workspace"

            assert ["file"] == [path.name for path in copy.iterdir() if path.name[0] != "."]


@pytest.mark.parametrize("who", ["squeue", "sacct"])
async def test_a_number_that_two_apps_have_had_tells_of_the_one_that_has_it(
    commands: Commands, scheduler: SlurmScheduler, who: str
) -> None:
    """A cluster that was set up anew counts from 1 again."""
    first, second = await scheduler.submit(app("true")), await scheduler.submit(app("true"))
    told = {"squeue": squeue_row("7", first, "TIMEOUT"), "sacct": sacct_row("7", first, "TIMEOUT")}
    commands.say(who, told[who])
    for app_ids in ((first, second), (second, first)):
        found = await scheduler.describe_many(app_ids)
        causes = {app_id: each.cause for app_id, each in found.items() if each is not None}

        assert {first: FailureCause.TIMEOUT, second: FailureCause.UNKNOWN} == causes


async def test_a_submitter_whose_working_directory_is_gone_is_told(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    with pytest.raises(ConfigError, match="working directory no longer exists"):
        await scheduler.submit(app("true"), {"job_dir": "relative"})


async def test_rows_of_others_are_passed_over_whatever_they_hold(commands: Commands, scheduler: SlurmScheduler) -> None:
    app_id = await scheduler.submit(app("true"))
    noise = "\udcff\x1f\x00\x1b[2J|\x85\u2028 ''\x1f\x1f"
    others = [squeue_row(job, noise, noise, reason=noise) for job in ("6", "8", "-1", "9" * 5000, noise, "")]
    commands.say("squeue", "".join([*others, squeue_row("7", app_id, "RUNNING"), *others, noise, "\n\x1f\n"]))
    found = await scheduler.describe(app_id)

    assert found is not None
    assert AppState.RUNNING == found.state
    assert [app_id] == [row.app_id for row in await scheduler.list()]


@pytest.mark.parametrize("name", ["app.json", "events/main-0.ev", "events/job", "batch.log", "main-0.result"])
async def test_a_directory_in_the_place_of_a_file_is_no_file(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path, name: str
) -> None:
    app_id = await scheduler.submit(app("true"))
    commands.say("squeue", squeue_row("7", app_id, "FAILED"))
    path = tmp_path / "home/jobs" / app_id / name
    path.unlink(missing_ok=True)
    path.mkdir()
    found = await scheduler.describe(app_id)

    assert found is not None
    assert (name == "app.json", AppState.FAILED) == (not found.replicas, found.state)
    if found is not None:
        unreadable = {("main", 0): {"error": "the result is not a regular file that can be read"}}
        assert (unreadable if name.endswith(".result") else {}) == await scheduler.results(app_id)


@pytest.mark.parametrize(("mark", "state"), [("late", AppState.FAILED), ("cancelled", AppState.CANCELLED)])
async def test_what_is_marked_while_the_cluster_is_asked_counts(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path, mark: str, state: AppState
) -> None:
    app_id = await scheduler.submit(app("true"))
    commands.say("squeue", squeue_row("7", app_id, "CANCELLED") if mark == "late" else "")
    program = tmp_path / "bin/squeue"
    program.write_text(program.read_text().replace("\n", f"\n: >{tmp_path}/home/jobs/{app_id}/events/{mark}\n", 1))
    found = await scheduler.describe(app_id)

    assert found is not None
    assert state == found.state


async def test_a_job_that_only_shares_the_number_is_another(commands: Commands, scheduler: SlurmScheduler) -> None:
    app_id = await scheduler.submit(app("true"))
    commands.say("squeue", squeue_row("7", "of-somebody-else", "FAILED"))
    commands.say("sacct", sacct_row("7", "of-somebody-else", "FAILED"))
    found = await scheduler.describe(app_id)

    assert found is not None
    assert (AppState.FAILED, FailureCause.UNKNOWN) == (found.state, found.cause)
    assert "no longer knows its job" in found.msg


@pytest.mark.parametrize(
    ("complaint", "kind"),
    [
        ("Unable to contact slurm controller", UnavailableError),
        ("slurm_load_jobs error: Transport endpoint is not connected", UnavailableError),
        ("slurm_load_jobs error: Broken pipe", UnavailableError),
        ("something else", SchedulerError),
    ],
)
async def test_a_failing_squeue_is_told_to_each(
    commands: Commands, scheduler: SlurmScheduler, complaint: str, kind: type[SchedulerError]
) -> None:
    app_id = await scheduler.submit(app("true"))
    commands.say("squeue", stderr=f"squeue: error: {complaint}\n", code=1)
    told = await asyncio.gather(*(scheduler.describe(app_id) for _ in range(3)), return_exceptions=True)

    assert [kind] * 3 == [type(each) for each in told]
    assert all(complaint in str(each) for each in told)


async def test_all_lines_of_a_refusal_are_told(commands: Commands, scheduler: SlurmScheduler) -> None:
    """The last one names no limit, and a site's own words come before it."""
    lines = ("sbatch: error: QOSMaxSubmitJobPerUserLimit", "sbatch: error: Batch job submission failed: Job violates")
    hint = 'Try "sbatch --help" for more information'
    commands.say("sbatch", stderr="\n".join((*lines, hint, "")), code=1)

    with pytest.raises(InvalidRequestError) as refused:
        await scheduler.submit(app("true"))
    assert "; ".join(lines) == refused.value.why


async def test_what_the_cluster_has_said_of_an_end_is_kept(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path
) -> None:
    app_id = await scheduler.submit(app("true"))
    commands.say("squeue", squeue_row("7", app_id, "TIMEOUT", reason="TimeLimit"))
    before = await scheduler.describe(app_id)
    commands.say("squeue")
    found = await scheduler.describe(app_id)
    told = tmp_path / "home/jobs" / app_id / "told"
    told.write_bytes(told.read_bytes()[:-9])
    damaged = await scheduler.describe(app_id)

    assert before == found
    assert before is not None
    assert FailureCause.TIMEOUT == before.cause
    assert 1 == commands.asked("sacct")  # only when the word was lost
    assert damaged is not None
    assert FailureCause.UNKNOWN == damaged.cause


async def test_what_cannot_be_kept_is_told_nevertheless(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No directory is left, or another thing stands in the file's place: nothing is written anywhere else."""
    gone, taken = await scheduler.submit(app("true")), await scheduler.submit(app("true"))
    shutil.rmtree(tmp_path / "home/jobs" / gone)
    (tmp_path / "home/jobs" / taken / "told").mkdir()
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    found = []
    for app_id in (gone, taken):
        commands.say("squeue", squeue_row("7", app_id, "TIMEOUT"))
        found.append(await scheduler.describe(app_id))

    assert [FailureCause.TIMEOUT] * 2 == [each.cause for each in found if each]
    assert [] == [*(tmp_path / "cwd").iterdir()]
    assert [] == [path.name for path in (tmp_path / "home/jobs" / taken).iterdir() if path.name.startswith(".")]


async def test_what_was_said_of_an_earlier_start_does_not_count(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path
) -> None:
    app_id = await scheduler.submit(app("true"))
    commands.say("squeue", squeue_row("7", app_id, "PREEMPTED"))
    before = await scheduler.describe(app_id)
    (tmp_path / "home/jobs" / app_id / "events/job").write_text("7;1\n")
    commands.say("squeue")
    found = await scheduler.describe(app_id)

    assert (FailureCause.PREEMPTED, FailureCause.UNKNOWN) == (before and before.cause, found and found.cause)


@pytest.mark.parametrize("prolog", ["if true", "echo 'x", "echo )"])
async def test_a_prolog_that_is_no_shell_is_refused_at_dry_run(
    commands: Commands, scheduler: SlurmScheduler, prolog: str
) -> None:
    with pytest.raises(RunOptionError, match=re.escape(f"prolog must be a line of shell, got {prolog!r}")):
        await scheduler.submit_dryrun(app("true"), {"prolog": prolog})
    await scheduler.submit_dryrun(app("true"), {"prolog": "if true; then echo 'x'; fi"})


async def test_an_app_whose_files_and_whose_job_are_gone_is_unknown(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path
) -> None:
    app_id = await scheduler.submit(app("true"))
    for number in ("job", "events/job"):
        (tmp_path / f"home/jobs/{app_id}/{number}").unlink()
    (tmp_path / f"home/jobs/{app_id}/events").rmdir()
    commands.say("squeue", squeue_row("7", app_id, "COMPLETED"))
    known = await scheduler.describe(app_id)
    commands.say("squeue")
    found = await scheduler.describe(app_id)

    assert known is not None
    assert found is not None
    assert (AppState.SUCCEEDED, AppState.UNKNOWN) == (known.state, found.state)
    assert "has lost its replicas' records" in found.msg
