"""Parts of the contract in the other configurations: with accounts, and as an ordinary user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from asyncsched.schedulers.slurm import SlurmScheduler
from asyncsched.specs import AppState
from asyncsched.testing.contract import ContractRig, SchedulerContract
from tests._support import eventually
from tests.services.slurm import SlurmCluster
from tests.slurm._apps import PATIENCE, app, run

ROOT = Path(__file__).parents[2]

NOBODY = 65534
CHOSEN = (
    "success or failure or cancel_ends or cancelled_for or restarts or key or delete or another or attempts or way_"
)

pytestmark = [pytest.mark.service("slurmdbd"), pytest.mark.heavy("slurm")]


class TestSlurmWithAccounts(SchedulerContract):
    @pytest.fixture
    async def rig(
        self, slurm_with_accounts: SlurmCluster, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> AsyncGenerator[ContractRig]:
        monkeypatch.setenv("SLURM_CONF", str(slurm_with_accounts.conf))
        async with SlurmScheduler("mine") as scheduler:
            yield ContractRig(
                scheduler,
                another=lambda: SlurmScheduler("other"),
                image="",
                patience=PATIENCE,
                exact_times=False,
                reads_results=True,
                long_sleep="exec sleep 3600",
            )
        slurm_with_accounts.clean()


async def test_accounts_tell_of_what_the_controller_has_forgotten(
    slurm_with_accounts: SlurmCluster, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(slurm_with_accounts.conf))
    async with SlurmScheduler("mine") as scheduler:
        ends = [await run(scheduler, app("true")), await run(scheduler, app("exit 3"))]
        for found in ends:  # nothing of their own is left to tell it
            (home / "jobs" / found.app_id / "main-0.ev").unlink()
        await eventually(
            lambda: not any(found.native_id in slurm_with_accounts.run("squeue", "-h", "-t", "all") for found in ends),
            within=PATIENCE,
        )
        again = await scheduler.describe_many([found.app_id for found in ends])

    assert [AppState.SUCCEEDED, AppState.FAILED] == [found.state for found in again.values() if found]


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can become another user")
def test_the_contract_holds_for_an_ordinary_user() -> None:
    own = Path(tempfile.mkdtemp(prefix="asn-", dir="/tmp"))
    os.chown(own, NOBODY, NOBODY)
    # The interpreter may lie in a place that only root can read.
    user = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    reads = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    tests = ["-q", "-p", "no:cacheprovider", f"--basetemp={own}/base", "-k", CHOSEN, "tests/slurm/test_contract.py"]
    try:
        done = subprocess.run(
            ["setpriv", *user, *reads, sys.executable, "-m", "pytest", *tests],
            cwd=ROOT,
            env={**os.environ, "HOME": str(own), "TMPDIR": str(own), "USER": "nobody", "LOGNAME": "nobody"},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        shutil.rmtree(own, ignore_errors=True)

    last = done.stdout.rstrip().rpartition("\n")[2]
    assert 0 == done.returncode, done.stdout[-3000:] + done.stderr[-1000:]
    assert "passed" in last
    assert "skipped" not in last
