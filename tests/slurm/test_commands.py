"""What is made of the cluster's answers, by stand-ins for its commands: for what our own cluster cannot say."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from asyncsched.errors import PermissionDeniedError, SchedulerError, ThrottledError, UnavailableError
from asyncsched.schedulers.slurm import SlurmScheduler
from asyncsched.schedulers.slurm.client import GATHER, Cluster
from asyncsched.specs import AppState, FailureCause
from asyncsched.testing import VirtualClock
from tests.slurm._apps import app
from tests.slurm._commands import Commands, sacct_row, squeue_row

BUSY = "sbatch: error: slurmctld RPC rate limit exceeded\n"


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    commands = Commands(tmp_path / "bin", monkeypatch)
    commands.say("sbatch", "7\n")
    return commands


@pytest.fixture
async def clock() -> AsyncGenerator[VirtualClock]:
    async with VirtualClock() as clock:
        yield clock


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


async def test_a_thousand_apps_are_described_by_two_commands(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path
) -> None:
    info = await scheduler.submit_dryrun(app("true"))
    await scheduler.schedule(info)
    made = tmp_path / "home/jobs" / info.app_id
    for number in range(1000):  # as a thousand submits would leave them
        app_id, there = f"job-{number}", tmp_path / f"home/jobs/job-{number}"
        there.mkdir(mode=0o700)
        (there / "events").mkdir()
        (there / "app.json").write_text((made / "app.json").read_text().replace(info.app_id, app_id))
        (there / "events/job").write_text(f"{100 + number}\n")
        (tmp_path / "home/apps" / app_id).symlink_to(there)
    commands.say("squeue", "".join(squeue_row(str(100 + k), f"job-{k}", "RUNNING") for k in range(500)))
    commands.say("sacct", "".join(sacct_row(str(100 + k), f"job-{k}", "COMPLETED") for k in range(500, 1000)))
    before = scheduler.commands_started
    found = await scheduler.describe_many([f"job-{number}" for number in range(1000)])

    assert 2 == scheduler.commands_started - before
    states = [each.state for each in found.values() if each is not None]
    assert [AppState.RUNNING] * 500 + [AppState.SUCCEEDED] * 500 == states


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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory that belongs to another user")
async def test_a_directory_of_somebody_else_is_not_taken(
    commands: Commands, scheduler: SlurmScheduler, tmp_path: Path
) -> None:
    info = await scheduler.submit_dryrun(app("true"))
    there = tmp_path / "home/jobs" / info.app_id
    there.mkdir(parents=True)
    (there / "app.json").write_text("{}")
    os.chown(there, 65534, 65534)

    with pytest.raises(PermissionDeniedError, match=f"^{there} is not used"):
        await scheduler.schedule(info)
    assert 0 == commands.asked("sbatch")
    assert ["app.json"] == [path.name for path in there.iterdir()]


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


async def test_rows_of_others_are_passed_over_whatever_they_hold(commands: Commands, scheduler: SlurmScheduler) -> None:
    app_id = await scheduler.submit(app("true"))
    noise = "\udcff\x1f\x00\x1b[2J|\x85\u2028 ''\x1f\x1f"
    others = [squeue_row(job, noise, noise, reason=noise) for job in ("6", "8", "-1", "9" * 5000, noise, "")]
    commands.say("squeue", "".join([*others, squeue_row("7", app_id, "RUNNING"), *others, noise, "\n\x1f\n"]))
    found = await scheduler.describe(app_id)

    assert found is not None
    assert AppState.RUNNING == found.state
    assert [app_id] == [row.app_id for row in await scheduler.list()]


async def test_a_job_that_only_shares_the_number_is_another(commands: Commands, scheduler: SlurmScheduler) -> None:
    app_id = await scheduler.submit(app("true"))
    commands.say("squeue", squeue_row("7", "of-somebody-else", "FAILED"))
    commands.say("sacct", sacct_row("7", "of-somebody-else", "FAILED"))
    found = await scheduler.describe(app_id)

    assert found is not None
    assert (AppState.FAILED, FailureCause.UNKNOWN) == (found.state, found.cause)
    assert "knows nothing of its job" in found.msg


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
