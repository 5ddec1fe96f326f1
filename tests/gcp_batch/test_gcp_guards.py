"""What stands between a user and the SDK's faults, Google's quotas, and an account that is not what it seems."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from asyncsched.errors import PermissionDeniedError, WrongLoopError
from asyncsched.schedulers._common.rate_limit import RateLimits
from asyncsched.schedulers.gcp_batch import GCPBatchScheduler, create_scheduler
from asyncsched.specs import AppDef
from asyncsched.testing import VirtualClock
from tests._support import WITHIN
from tests.gcp_batch.conftest import played, quick
from tests.gcp_double.server import PROJECT, Double, Fault

UNKNOWN = f"{PROJECT}:us-central1:nosuchapp-x1"

ON_A_VM = f"""
import asyncio
from asyncsched.schedulers.gcp_batch import create_scheduler

async def main():
    async with create_scheduler("s") as made:
        print(await made.exists({UNKNOWN!r}))

asyncio.run(main())
"""


def test_a_scheduler_belongs_to_the_loop_of_its_first_call(double: Double) -> None:
    async def ask(made: GCPBatchScheduler) -> None:
        async with asyncio.timeout(WITHIN):
            assert await made.describe(UNKNOWN) is None

    async def ask_and_close(made: GCPBatchScheduler) -> None:
        await ask(made)
        await made.close()

    with asyncio.Runner() as first, asyncio.Runner() as second:
        made = quick("s")
        first.run(ask(made))
        with pytest.raises(WrongLoopError, match=r"asyncsched\.sync"):
            second.run(ask(made))
        first.run(ask_and_close(made))

    assert 1 == double.tokens.exchanges


def test_a_machine_without_a_file_uses_the_account_of_its_vm(double: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    # The SDK reads it when it is imported: a process of its own imports it anew.
    environment = {**os.environ, "GCE_METADATA_HOST": double.url.removeprefix("http://")}
    done = subprocess.run([sys.executable, "-c", ON_A_VM], capture_output=True, text=True, env=environment, check=False)

    assert ("False", 0) == (done.stdout.strip(), done.returncode), done.stderr
    assert 1 == double.tokens.exchanges


async def test_a_service_that_is_not_enabled_is_told_with_what_enables_it(
    double: Double, scheduler: GCPBatchScheduler
) -> None:
    double.faults.append(Fault("disabled"))
    with pytest.raises(PermissionDeniedError, match=r"batch\.googleapis\.com is not enabled") as caught:
        await scheduler.submit(AppDef("app", [played()]), {})

    assert f"run gcloud services enable batch.googleapis.com --project {PROJECT}" == caught.value.fix
    assert 1 == double.calls["POST /v1/projects/*/locations/*/jobs"]


async def test_submits_are_paced_at_what_google_takes(double: Double) -> None:
    app = AppDef("app", [played(["sleep", 60])])
    async with VirtualClock() as clock, create_scheduler("s", clock=clock, limits=RateLimits()) as made:
        began = clock.monotonic()
        ids = await asyncio.gather(*(made.submit(app, {}) for _ in range(51)))
        passed = clock.monotonic() - began

    assert 51 == len(set(ids)) == double.jobs.created
    assert passed > 49 / 25


@pytest.mark.parametrize("kind", ["service account", "user"])
async def test_an_account_acts_as_another(
    double: Double, surroundings: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_IAMCREDENTIALS", double.url)
    if kind == "user":
        (surroundings / "key.json").write_text(json.dumps(double.tokens.user_file(double.url)))
    async with asyncio.timeout(WITHIN), quick("s", impersonate="runner@proj-1.iam.gserviceaccount.com") as made:
        assert await made.describe(UNKNOWN) is None
        assert await made.describe(UNKNOWN) is None

    assert ["runner@proj-1.iam.gserviceaccount.com"] == double.tokens.acted_as


async def test_calls_say_what_makes_them(double: Double, scheduler: GCPBatchScheduler) -> None:
    await scheduler.describe(UNKNOWN)

    assert double.headers[0]["User-Agent"].startswith("asyncsched/")
