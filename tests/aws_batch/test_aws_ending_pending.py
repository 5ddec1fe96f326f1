"""The option `pending_timeout`: what does not run in time is ended, and nothing else."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from asyncsched.errors import ConfigError, ConflictError
from asyncsched.schedulers.aws_batch import AWSBatchScheduler
from asyncsched.specs import AppState, FailureCause, Resource
from asyncsched.specs.dryrun import Ignored
from tests.aws_batch.conftest import QUEUE, Virtual, app, in_bulk

STUCK = "stuck"
WHY = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - no host"
CFG: dict[str, Any] = {"queue": STUCK, "pending_timeout": 600.0}

pytestmark = pytest.mark.guard(loop_step=False, reason="the emulator renders hundreds of jobs in the same thread")


@pytest.fixture
def stuck(virtual: Virtual) -> Virtual:
    """A cloud with a queue whose jobs do not start."""
    virtual.cloud.queues.add(STUCK)
    virtual.cloud.life.stuck[STUCK] = WHY
    return virtual


async def submitted(scheduler: AWSBatchScheduler, count: int, **more: Any) -> list[str]:
    return await asyncio.gather(*(scheduler.submit(app(), {**CFG, **more}) for _ in range(count)))


def statuses(virtual: Virtual) -> list[str]:
    virtual.cloud.timeline.catch_up()  # Things happen there when somebody looks.
    return [job.status for job in virtual.cloud.jobs]


async def test_an_app_over_its_time_is_failed_and_says_what_it_has_waited_for(stuck: Virtual) -> None:
    (app_id,) = await submitted(stuck.scheduler(), 1)
    other = stuck.scheduler()
    await stuck.clock.sleep(590)
    assert "RUNNABLE" == statuses(stuck)[0]
    await stuck.clock.sleep(20)
    ended = await other.describe(app_id)

    assert ended is not None
    assert (AppState.FAILED, FailureCause.UNSCHEDULABLE) == (ended.state, ended.cause)
    assert [FailureCause.UNSCHEDULABLE] == [replica.cause for replica in ended.replicas]
    assert ended.msg.startswith(f"asyncsched: did not run within its pending_timeout of 600 s: {WHY}")
    assert AppState.FAILED == (await other.list())[0].state
    assert 1 == stuck.cloud.traffic.calls["CancelJob"]


async def test_nobody_is_asked_before_the_time_is_over(stuck: Virtual) -> None:
    scheduler = stuck.scheduler()
    await submitted(scheduler, 10)
    before = stuck.calls
    await stuck.clock.sleep(590)

    assert before == stuck.calls


@in_bulk
async def test_a_thousand_apps_are_ended_together(stuck: Virtual) -> None:
    scheduler = stuck.scheduler()
    app_ids = await submitted(scheduler, 1000)
    tasks = len(asyncio.all_tasks())
    stuck.cloud.traffic.calls.clear()
    await stuck.clock.sleep(500)
    assert tasks == len(asyncio.all_tasks())
    await stuck.clock.sleep(110)
    calls = dict(stuck.cloud.traffic.calls)

    assert {"FAILED"} == {*statuses(stuck)}
    assert calls["CancelJobs"] <= 40
    assert calls.keys() <= {"CancelJob", "CancelJobs", "DescribeJobs"}
    assert sum(calls.values()) <= 80
    found = await scheduler.describe_many(app_ids)
    assert {FailureCause.UNSCHEDULABLE} == {each and each.cause for each in found.values()}


async def test_what_has_run_in_time_goes_on_also_when_it_waits_again(stuck: Virtual) -> None:
    scheduler = stuck.scheduler()
    runs, waits_again = [
        await scheduler.submit(each, {"queue": QUEUE, "pending_timeout": 60})
        for each in (app(["sleep", 500]), app(["sleep", 20], ["exit", 1], max_retries=2))
    ]
    await stuck.clock.sleep(10)
    assert ["RUNNING"] * 2 == statuses(stuck)
    stuck.cloud.life.stuck[QUEUE] = WHY
    await stuck.clock.sleep(200)
    found = await scheduler.describe_many([runs, waits_again])

    assert [AppState.RUNNING, AppState.PENDING] == [each and each.state for each in found.values()]
    assert 0 == stuck.cloud.traffic.calls["CancelJob"] + stuck.cloud.traffic.calls["CancelJobs"]


async def test_what_starts_at_that_moment_runs(stuck: Virtual) -> None:
    scheduler = stuck.scheduler(latency=1.0)
    (app_id,) = await submitted(scheduler, 1)
    stuck.cloud.pace.starting = 30.0
    await stuck.clock.sleep(595)
    assert ["RUNNABLE"] == statuses(stuck)
    stuck.cloud.life.unstick(STUCK, stuck.cloud.jobs)
    await stuck.clock.sleep(20)
    assert "STARTING" == statuses(stuck)[0]
    assert 1 == stuck.cloud.traffic.calls["CancelJob"]
    await stuck.clock.sleep(100)

    found = await scheduler.describe(app_id)
    assert found is not None
    assert AppState.SUCCEEDED == found.state


async def test_cancelled_and_deleted_apps_stay_so(stuck: Virtual) -> None:
    scheduler = stuck.scheduler()
    cancelled, deleted = await submitted(scheduler, 2)
    with pytest.raises(ConflictError):
        await scheduler.delete(deleted)
    await scheduler.cancel_many([cancelled, deleted])
    await scheduler.delete(deleted)
    await stuck.clock.sleep(1000)
    found = await scheduler.describe_many([cancelled, deleted])

    assert [AppState.CANCELLED, None] == [each and each.state for each in found.values()]
    assert 0 == stuck.cloud.traffic.calls["CancelJobs"] + stuck.cloud.traffic.calls["CancelJob"]


async def test_a_job_that_somebody_terminated_is_cancelled_whatever_its_reason(stuck: Virtual) -> None:
    scheduler = stuck.scheduler()
    (app_id,) = await submitted(scheduler, 1)
    await stuck.clock.sleep(700)
    stuck.cloud.jobs[0].terminated = True
    found = await scheduler.describe(app_id)

    assert found is not None
    assert (AppState.CANCELLED, FailureCause.CANCELLED) == (found.state, found.cause)


async def test_closing_the_scheduler_ends_it(stuck: Virtual) -> None:
    scheduler = stuck.scheduler()
    await submitted(scheduler, 3)
    tasks = asyncio.all_tasks()
    await scheduler.close()
    before = stuck.calls
    await stuck.clock.sleep(1000)

    assert before == stuck.calls
    assert {"RUNNABLE"} == {*statuses(stuck)}
    assert asyncio.all_tasks() <= tasks


async def test_closing_while_it_looks_ends_it(stuck: Virtual, caplog: pytest.LogCaptureFixture) -> None:
    scheduler = stuck.scheduler(latency=5.0)
    await submitted(scheduler, 3)
    await stuck.clock.sleep(602)
    caplog.clear()
    await scheduler.close()

    assert [] == caplog.records
    assert {"RUNNABLE"} == {*statuses(stuck)}


@pytest.mark.parametrize(("operation", "kind"), [("DescribeJobs", "unavailable"), ("CancelJob*", "denied")])
async def test_where_it_fails_it_is_said_once_and_tried_again(
    stuck: Virtual, caplog: pytest.LogCaptureFixture, operation: str, kind: str
) -> None:
    scheduler = stuck.scheduler(retry_for=5.0)
    await submitted(scheduler, 2)
    fault = stuck.cloud.traffic.fail(operation, kind, times=100_000)
    with caplog.at_level(logging.WARNING, "asyncsched.schedulers.pending"):
        await stuck.clock.sleep(1000)
    assert {"RUNNABLE"} == {*statuses(stuck)}
    fault.times = 0
    await stuck.clock.sleep(200)

    assert {"FAILED"} == {*statuses(stuck)}
    if kind == "denied":
        assert 1 == len([record for record in caplog.records if "batch:CancelJob" in record.getMessage()])


async def test_an_array_and_nodes_are_ended_as_a_whole(stuck: Virtual) -> None:
    scheduler = stuck.scheduler()
    array = await scheduler.submit(app(), {**CFG, "array_size": 3})
    nodes = await scheduler.submit(app(num_replicas=2), CFG)
    await stuck.clock.sleep(700)
    found = await scheduler.describe_many([array, nodes])

    assert [(AppState.FAILED, FailureCause.UNSCHEDULABLE)] * 2 == [(a.state, a.cause) for a in found.values() if a]
    causes = [replica.cause for each in found.values() if each for replica in each.replicas]
    assert [FailureCause.UNSCHEDULABLE] * 5 == causes


async def test_who_submits_the_same_app_again_takes_it_over(stuck: Virtual) -> None:
    first, second = stuck.scheduler(), stuck.scheduler()
    app_id = await first.submit(app(), CFG, key="k")
    await first.close()
    await stuck.clock.sleep(300)
    assert app_id == await second.submit(app(), CFG, key="k")
    await stuck.clock.sleep(700)

    assert "FAILED" == statuses(stuck)[0]


async def test_a_submit_that_fails_leaves_no_limit(stuck: Virtual) -> None:
    scheduler = stuck.scheduler()
    stuck.cloud.traffic.fail("SubmitJob", "denied", times=100)
    with pytest.raises(Exception, match="SubmitJob"):
        await submitted(scheduler, 1)
    before = stuck.calls
    await stuck.clock.sleep(1000)

    assert before == stuck.calls


async def test_the_dry_run_says_how_long_it_holds(stuck: Virtual) -> None:
    info = await stuck.scheduler().submit_dryrun(app(), CFG)

    assert 600.0 == info.request.pending_timeout
    assert (Ignored("main", "pending_timeout", "enforced only while the submitting process runs"),) == info.ignored


async def test_an_edited_request_counts(stuck: Virtual) -> None:
    scheduler = stuck.scheduler()
    info = await scheduler.submit_dryrun(app(), {**CFG, "pending_timeout": None})
    info.request.pending_timeout = 5.0
    await scheduler.schedule(info)
    await stuck.clock.sleep(100)

    assert "FAILED" == statuses(stuck)[0]


@pytest.mark.parametrize("wrong", [0, -1, float("inf"), float("nan")])
async def test_wrong_times_are_refused(virtual: Virtual, wrong: float) -> None:
    with pytest.raises(ConfigError, match="pending_timeout"):
        await virtual.scheduler().submit_dryrun(app(), {"queue": QUEUE, "pending_timeout": wrong})


async def test_what_is_too_large_for_every_host_waits(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    large = app(resource=Resource(1, 999, 64))
    app_id = await scheduler.submit(large, {"queue": QUEUE, "pending_timeout": 60})
    await virtual.clock.sleep(100)
    found = await scheduler.describe(app_id)

    assert found is not None
    assert FailureCause.UNSCHEDULABLE is found.cause
    assert "JOB_RESOURCE_REQUIREMENT" in found.msg
