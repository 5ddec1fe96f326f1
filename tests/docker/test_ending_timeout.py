"""Limits to how long a replica may run, on a real daemon: whoever keeps the time."""

from __future__ import annotations

from pathlib import Path

import pytest

from asyncsched.errors import RunOptionError
from asyncsched.schedulers.docker import DockerScheduler
from asyncsched.specs import AppDef, AppState, FailureCause
from tests._support import eventually
from tests.docker._apps import OBEYS, Gate, app, shell
from tests.docker.test_scheduler import end
from tests.services.dockerd import Dockerd

pytestmark = pytest.mark.service("dockerd")


def limited() -> AppDef:
    return app(shell(OBEYS, max_retries=3), shell(":", name="quick"))


async def test_each_replica_that_is_over_its_time_has_failed(scheduler: DockerScheduler) -> None:
    app_id = await scheduler.submit(limited(), {"timeout": 3.0})
    assert AppState.FAILED is await end(scheduler, app_id)

    async with DockerScheduler("other") as other:
        status = await other.describe(app_id)
    assert status is not None
    over, quick = status.replicas
    assert (FailureCause.TIMEOUT, FailureCause.TIMEOUT, 0) == (status.cause, over.cause, over.num_restarts)
    assert over.reason == "stopped because it ran longer than its timeout of 3 s; exit code 0"
    assert (AppState.SUCCEEDED, None) == (quick.state, quick.cause)


async def test_who_watches_keeps_the_time_of_a_submitter_that_is_gone(docker_host: str, dockerd: Dockerd) -> None:
    async with DockerScheduler("gone") as submitter:
        app_id = await submitter.submit(app(shell(OBEYS)), {"timeout": 1.0})
    async with DockerScheduler("other") as other:
        assert AppState.FAILED is await end(other, app_id)
    dockerd.clean()


async def test_who_submits_again_keeps_the_time(docker_host: str, dockerd: Dockerd) -> None:
    async with DockerScheduler("same") as submitter:
        app_id = await submitter.submit(limited(), {"timeout": 1.0}, key="key")
    async with DockerScheduler("same") as again:
        assert app_id == await again.submit(limited(), {"timeout": 1.0}, key="key")

        async def has_failed() -> bool:
            status = await again.describe(app_id)
            return status is not None and status.state is AppState.FAILED

        await eventually(has_failed)
    dockerd.clean()


async def test_who_cancels_has_the_last_word_over_a_timeout(scheduler: DockerScheduler, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    waits = shell(f"trap '' TERM; {Gate.passed}", mounts=gate.mounts)
    app_id = await scheduler.submit(app(waits), {"timeout": 0.5, "grace_period": 600.0})

    async def is_being_stopped() -> bool:
        status = await scheduler.describe(app_id)
        return status is not None and any(each.timed_out for each in status.native)  # type: ignore[attr-defined]

    await eventually(is_being_stopped)
    await scheduler.cancel(app_id)
    gate.open()

    assert AppState.CANCELLED is await end(scheduler, app_id)


async def test_a_dry_run_tells_who_keeps_the_time(scheduler: DockerScheduler) -> None:
    info = await scheduler.submit_dryrun(app(shell(":")), {"timeout": 60.0})
    unlimited = await scheduler.submit_dryrun(app(shell(":")))

    assert [("worker", "timeout")] == [each[:2] for each in info.ignored]
    assert () == unlimited.ignored


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf"), float("nan")])
async def test_a_timeout_is_a_number_above_0(scheduler: DockerScheduler, seconds: float) -> None:
    with pytest.raises(
        RunOptionError, match=f"timeout must be more than 0 and at most 1000000000 seconds, got {seconds!r}"
    ):
        await scheduler.submit_dryrun(app(shell(":")), {"timeout": seconds})
