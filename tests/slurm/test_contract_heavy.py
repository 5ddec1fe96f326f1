"""The contract in the other configurations: with accounts, and as an ordinary user."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from asyncsched.schedulers.slurm import SlurmScheduler
from asyncsched.specs import AppState, FailureCause
from asyncsched.testing.contract import ContractRig, SchedulerContract
from tests._support import eventually
from tests.services.slurm import SlurmCluster
from tests.slurm._apps import PATIENCE, app, ended, run, seen
from tests.slurm.test_contract import rig_on

ROOT = Path(__file__).parents[2]

NOBODY = 65534

ENDS = (AppState.SUCCEEDED, AppState.FAILED, AppState.CANCELLED)

pytestmark = [pytest.mark.service("slurmdbd"), pytest.mark.heavy("slurm")]


def known(cluster: SlurmCluster) -> set[str | None]:
    """The numbers of the jobs that the controller has not forgotten."""
    return {*cluster.run("squeue", "-h", "-t", "all", "-o", "%A").split()}


class TestSlurmWithAccounts(SchedulerContract):
    @pytest.fixture
    async def rig(
        self, slurm_with_accounts: SlurmCluster, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> AsyncGenerator[ContractRig]:
        monkeypatch.setenv("SLURM_CONF", str(slurm_with_accounts.conf))
        async with SlurmScheduler("mine") as scheduler:
            yield rig_on(scheduler, timeout=1.0)  # Slurm counts it in minutes
        slurm_with_accounts.clean()


async def test_accounts_tell_of_what_the_controller_has_forgotten(
    slurm_with_accounts: SlurmCluster, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(slurm_with_accounts.conf))
    async with SlurmScheduler("mine") as scheduler:
        stopped = await scheduler.submit(app("exec sleep 3600"))
        running = await seen(scheduler, stopped, lambda found: found.replicas[0].state is AppState.RUNNING)
        await asyncio.to_thread(slurm_with_accounts.run, "scancel", running.native_id)
        ends = [await run(scheduler, app("true")), await run(scheduler, app("exit 3")), await ended(scheduler, stopped)]
        for found in ends:  # nothing of their own is left to tell it
            (home / "jobs" / found.app_id / "events/main-0.ev").unlink()
        numbers = {found.native_id for found in ends}
        await eventually(lambda: not numbers & known(slurm_with_accounts), within=PATIENCE)
        again = await scheduler.describe_many([found.app_id for found in ends])
        told = slurm_with_accounts.run("sacct", "-X", "-n", "-P", "-j", running.native_id, "-o", "State")

    assert [*ENDS] == [found.state for found in again.values() if found]
    assert f"CANCELLED by {os.geteuid()}" == told.strip()


@pytest.mark.parametrize("own_slurm", [{"accounts": True}], indirect=True, ids=[""])
async def test_apps_that_a_new_controller_does_not_know_have_failed_unless_they_were_cancelled(
    own_slurm: SlurmCluster, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The accounts call all of them cancelled."""
    monkeypatch.setenv("SLURM_CONF", str(own_slurm.conf))
    async with SlurmScheduler("session") as scheduler:
        ids = [await scheduler.submit(app("exec sleep 3600")) for _ in range(3)]
        held = await scheduler.submit(app("true"), {"sbatch_args": ["--hold"]})
        running = [await seen(scheduler, each, lambda app: app.replicas[0].state is AppState.RUNNING) for each in ids]
        await scheduler.cancel(ids[0])
        await asyncio.to_thread(own_slurm.run, "scancel", running[1].native_id)
        await asyncio.gather(*(ended(scheduler, each) for each in ids[:2]))
        numbers = [each.native_id for each in running]
        states = ["-X", "-n", "-P", "-o", "State", "-j"]
        await eventually(lambda: ["RUNNING"] == own_slurm.run("sacct", *states, numbers[2]).split())
        await asyncio.to_thread(own_slurm.kill_controller)
        await asyncio.to_thread(own_slurm.start_controller, forgetful=True)
        await eventually(lambda: ["CANCELLED"] == own_slurm.run("sacct", *states, numbers[2]).split())
        found = await scheduler.describe_many([*ids, held])

    ends = [(AppState.CANCELLED, FailureCause.CANCELLED)] * 2 + [(AppState.FAILED, FailureCause.UNKNOWN)] * 2
    assert ends == [(each.state, each.cause) for each in found.values() if each]
    assert ["the cluster no longer knows its job" in each.msg for each in found.values() if each] == [False] * 2 + [
        True
    ] * 2


@pytest.mark.parametrize("own_slurm", [{"accounts": True, "min_job_age": 2}], indirect=True, ids=[""])
async def test_apps_are_described_while_the_accounts_are_down(
    own_slurm: SlurmCluster, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(own_slurm.conf))
    async with SlurmScheduler("mine") as scheduler:
        living = await scheduler.submit(app("exec sleep 3600"))
        await seen(scheduler, living, lambda found: found.state is AppState.RUNNING)
        told, silent = await run(scheduler, app("exit 3")), await run(scheduler, app("true"))
        (home / "jobs" / silent.app_id / "events/main-0.ev").unlink()
        numbers = {told.native_id, silent.native_id}
        await eventually(lambda: not numbers & known(own_slurm), within=PATIENCE)
        await asyncio.to_thread(own_slurm.kill_accounts)
        try:
            found = await scheduler.describe_many([living, told.app_id, silent.app_id])
            rows = await scheduler.list()
        finally:
            await asyncio.to_thread(own_slurm.start)
    async with SlurmScheduler("other") as scheduler:
        again = await scheduler.describe(silent.app_id)
        await scheduler.cancel(living)

    states = [AppState.RUNNING, AppState.FAILED, AppState.UNKNOWN]
    assert states == [each.state for each in found.values() if each]
    assert [*reversed(states)] == [row.state for row in rows]
    assert again is not None
    assert AppState.SUCCEEDED == again.state


async def test_an_app_that_waits_for_a_limit_of_its_user_says_so(
    slurm_with_accounts: SlurmCluster, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(slurm_with_accounts.conf))
    async with SlurmScheduler("mine") as scheduler:
        first = await scheduler.submit(app("exec sleep 3600"), {"qos": "narrow"})
        await seen(scheduler, first, lambda found: found.state is AppState.RUNNING)
        second = await scheduler.submit(app("true"), {"qos": "narrow"})
        found = await seen(scheduler, second, lambda found: found.msg.startswith("QOS"))
        await scheduler.cancel(first)

        assert (AppState.PENDING, FailureCause.QUOTA) == (found.state, found.cause)
        assert "QOSMaxJobsPerUserLimit" == found.msg
        assert AppState.SUCCEEDED == (await ended(scheduler, second)).state


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can become another user")
@pytest.mark.timeout(1800)
def test_the_contract_holds_for_an_ordinary_user() -> None:
    own = Path(tempfile.mkdtemp(prefix="asn-", dir="/tmp"))
    os.chown(own, NOBODY, NOBODY)
    # The interpreter may lie in a place that only root can read.
    user = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    reads = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    tests = ["-q", "-p", "no:cacheprovider", f"--basetemp={own}/base", "tests/slurm/test_contract.py"]
    try:
        done = subprocess.run(
            ["setpriv", *user, *reads, sys.executable, "-m", "pytest", *tests],
            cwd=ROOT,
            env={
                **os.environ,
                "CI": "true",
                "HOME": str(own),
                "TMPDIR": str(own),
                "USER": "nobody",
                "LOGNAME": "nobody",
            },
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        shutil.rmtree(own, ignore_errors=True)

    last = done.stdout.rstrip().rpartition("\n")[2]
    assert 0 == done.returncode, done.stdout[-3000:] + done.stderr[-1000:]
    assert "passed" in last
