"""What Google says of jobs and tasks, as states and causes: pure, and on the double where it takes several steps."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.cloud import batch_v1

from asyncsched.schedulers.gcp_batch import GCPBatchScheduler
from asyncsched.schedulers.gcp_batch.names import GCPJobRef
from asyncsched.schedulers.gcp_batch.status import JOB_STATES, describe_app, is_deleted, job_state, list_row
from asyncsched.schedulers.gcp_batch.status_tasks import TASK_STATES
from asyncsched.specs import AppDef, AppState, FailureCause
from asyncsched.specs.not_kept import NOT_KEPT
from tests.gcp_batch.conftest import played, quick
from tests.gcp_double.server import Double

REF = GCPJobRef("proj-1", "us-central1", "job")
DELAYED = "Quota checking process decided to delay scheduling for the job job due to inadequate quotas [Quota: CPUS]."


def job(state: str, *events: dict[str, Any], counts: dict[str, int] | None = None, count: int = 1) -> dict[str, Any]:
    told = {name: str(many) for name, many in (counts or {}).items()}
    return {
        "name": REF.resource,
        "uid": "u",
        "createTime": "2026-01-01T00:00:00Z",
        "taskGroups": [
            {"taskCount": str(count), "taskSpec": {"runnables": [{"container": {}, "displayName": "main"}]}}
        ],
        "status": {"state": state, "statusEvents": list(events), "taskGroups": {"group0": {"counts": told}}},
    }


def event(words: str, kind: str = "STATUS_CHANGED", **more: Any) -> dict[str, Any]:
    return {"type": kind, "description": words, "eventTime": "2026-01-01T00:01:00.123456789Z", **more}


def task(state: str, *runs: tuple[str, int | None], index: int = 0) -> dict[str, Any]:
    events = [
        event(
            f"Task state is updated to {name} on zones/us-central1-a/instances/8.",
            taskState=name,
            **({} if code is None else dict[str, Any](taskExecution={"exitCode": code})),
        )
        for name, code in runs
    ]
    return {
        "name": f"{REF.resource}/taskGroups/group0/tasks/{index}",
        "status": {"state": state, "statusEvents": events},
    }


def test_the_tables_are_those_of_googles_own_definitions() -> None:
    assert {*batch_v1.JobStatus.State.__members__} == {*JOB_STATES}
    assert {*batch_v1.TaskStatus.State.__members__} == {*TASK_STATES}


def test_a_job_that_was_made_by_hand_is_not_taken_for_a_role_without_mounts_and_resource() -> None:
    (role,) = describe_app(REF, job("RUNNING")).roles

    assert "made by hand: its resource, its mounts" in role.env[NOT_KEPT].why  # type: ignore[attr-defined] # it is one


@pytest.mark.parametrize("row", [{}, {"status": 7}, {"taskGroups": "x", "name": 3}, job("HALF_DONE")])
def test_what_is_not_understood_is_unknown(row: dict[str, Any]) -> None:
    assert AppState.UNKNOWN is job_state(row) is describe_app(REF, row).state


def test_a_preempted_task_that_succeeded_at_last_has_succeeded() -> None:
    runs = [("RUNNING", None), ("PENDING", 50001), ("RUNNING", None), ("SUCCEEDED", None)]
    (replica,) = describe_app(REF, job("SUCCEEDED", counts={"SUCCEEDED": 1}), [task("SUCCEEDED", *runs)]).replicas

    assert (AppState.SUCCEEDED, 0, 1, None) == (replica.state, replica.exit_code, replica.num_restarts, replica.cause)
    assert "its Spot VM was taken away (exit code 50001)" in replica.reason
    assert "8" == replica.hostname


@pytest.mark.parametrize(
    ("code", "cause", "signal"),
    [
        (3, FailureCause.EXIT, None),
        (125, FailureCause.EXIT, None),
        (137, FailureCause.SIGNAL, 9),
        (50001, FailureCause.PREEMPTED, None),
        (50003, FailureCause.NODE, None),
        (50005, FailureCause.TIMEOUT, None),
    ],
)
def test_an_exit_code_tells_the_cause(code: int, cause: FailureCause, signal: int | None) -> None:
    found = describe_app(
        REF, job("FAILED", counts={"FAILED": 1}), [task("FAILED", ("RUNNING", None), ("FAILED", code))]
    )

    assert (AppState.FAILED, cause) == (found.state, found.cause)
    assert (code, signal, cause) == (
        found.replicas[0].exit_code,
        found.replicas[0].signal,
        found.replicas[0].cause,
    )
    assert str(code) in found.msg


def test_a_job_that_fails_without_a_task_tells_why() -> None:
    found = describe_app(REF, job("FAILED", event("Quota exceeded for CPUS")))

    assert (AppState.FAILED, "Quota exceeded for CPUS", FailureCause.QUOTA) == (found.state, found.msg, found.cause)
    assert [AppState.FAILED] == [replica.state for replica in found.replicas]


def test_a_job_that_waits_for_a_quota_says_so() -> None:
    row = job("SCHEDULED", event("VM creation failed: CODE_GCE_QUOTA_EXCEEDED", "OPERATIONAL_INFO"))
    found = describe_app(REF, row)

    assert (AppState.PENDING, FailureCause.QUOTA) == (found.state, found.cause)
    assert "CODE_GCE_QUOTA_EXCEEDED" in found.msg


@pytest.mark.parametrize(
    ("words", "state", "cause"),
    [
        (DELAYED, AppState.PENDING, FailureCause.QUOTA),
        ("VM creation failed: ZONE_RESOURCE_POOL_EXHAUSTED", AppState.PENDING, FailureCause.UNSCHEDULABLE),
        ("The job is looked at.", AppState.SUBMITTED, None),
    ],
)
def test_a_queued_job_that_batch_keeps_waiting_is_pending(
    words: str, state: AppState, cause: FailureCause | None
) -> None:
    row = job("QUEUED", event(words, "OPERATIONAL_INFO"))
    found = describe_app(REF, row)

    assert (state, cause, words) == (found.state, found.cause, found.msg)
    assert [state] == [replica.state for replica in found.replicas]
    assert state is list_row(REF, row).state


async def test_a_quota_that_delays_a_queued_job_is_told_alike_by_watch_describe_and_list(
    double: Double, scheduler: GCPBatchScheduler
) -> None:
    double.jobs.pace.queued = 600
    app_id = await scheduler.submit(AppDef("app", [played(["exit", 0])]), {})
    (name,) = double.jobs.jobs
    async with asyncio.timeout(60), scheduler.watch([app_id]) as watch:
        assert AppState.SUBMITTED is (await anext(watch)).state
        double.do(lambda: double.jobs.tell(double.jobs.jobs[name].job, "OPERATIONAL_INFO", DELAYED))
        told = (await anext(watch)).current
    found = await scheduler.describe(app_id)

    assert told is not None
    assert found is not None
    assert [(AppState.PENDING, FailureCause.QUOTA, DELAYED)] * 2 == [
        (each.state, each.cause, each.msg) for each in (told, found)
    ]
    assert [AppState.PENDING] == [row.state for row in await scheduler.list()]


@pytest.mark.parametrize("state", ["CANCELLATION_IN_PROGRESS", "DELETION_IN_PROGRESS"])
def test_what_is_on_its_way_has_not_ended(state: str) -> None:
    found = describe_app(REF, job(state, counts={"RUNNING": 1}))

    assert AppState.RUNNING is found.state
    assert "it is being" in found.msg


@pytest.mark.parametrize(
    ("row", "gone"),
    [
        (job("DELETION_IN_PROGRESS", event("set from SUCCEEDED to DELETION_IN_PROGRESS for job x")), True),
        (job("DELETION_IN_PROGRESS", event("set from RUNNING to DELETION_IN_PROGRESS for job x")), False),
        (job("DELETION_IN_PROGRESS", counts={"SUCCEEDED": 2, "FAILED": 1}), True),
        (job("DELETION_IN_PROGRESS", counts={"SUCCEEDED": 2, "RUNNING": 1}), False),
        (job("SUCCEEDED", counts={"SUCCEEDED": 2}), False),
    ],
)
def test_what_had_ended_and_is_being_deleted_does_not_exist(row: dict[str, Any], gone: bool) -> None:
    assert gone == is_deleted(row)


def test_a_large_job_is_told_by_its_numbers() -> None:
    row = job("RUNNING", counts={"RUNNING": 4000, "PENDING": 96_000}, count=100_000)
    found = describe_app(REF, row)

    assert "96000 pending, 4000 running" == found.msg
    assert 100_000 == len(found.replicas)


def test_those_that_were_not_read_are_in_the_states_that_are_left() -> None:
    failed = task("FAILED", ("RUNNING", None), ("FAILED", 7), index=3)

    one = describe_app(REF, job("FAILED", counts={"SUCCEEDED": 599, "FAILED": 1}, count=600), [failed])
    many = describe_app(REF, job("CANCELLED", counts={"SUCCEEDED": 500, "UNEXECUTED": 100}, count=600))

    assert {3} == {replica.id for replica in one.replicas if replica.state is AppState.FAILED}
    assert 599 == sum(replica.state is AppState.SUCCEEDED for replica in one.replicas)
    assert "replica 3: exit code 7" == one.msg
    assert {AppState.UNKNOWN} == {replica.state for replica in many.replicas}


async def test_of_a_large_job_only_what_has_failed_is_read(double: Double) -> None:
    async with quick("s", replica_detail=3) as made:
        app_id = await made.submit(AppDef("app", [played(["exit", 4], num_replicas=5)]), {})
        async with asyncio.timeout(60):
            ended = [found async for found in made.watch([app_id])][-1].current
    assert ended is not None
    assert [4] * 5 == [replica.exit_code for replica in ended.replicas]


async def test_a_preemption_is_retried_apart_from_failures(scheduler: GCPBatchScheduler) -> None:
    app = AppDef("app", [played(["exit", 50001, 0], num_replicas=2)])
    app_id = await scheduler.submit(app, {"spot": True, "retry_on_preemption": 2})
    failing = await scheduler.submit(AppDef("app", [played(["exit", 3])]), {"retry_on_preemption": 2})
    async with asyncio.timeout(60):
        async for _ in scheduler.watch([app_id, failing]):
            pass
    good, bad = [await scheduler.describe(each) for each in (app_id, failing)]

    assert good is not None
    assert bad is not None
    assert [(AppState.SUCCEEDED, 0, 1)] * 2 == [(r.state, r.exit_code, r.num_restarts) for r in good.replicas]
    assert [(AppState.FAILED, 3, 0)] == [(r.state, r.exit_code, r.num_restarts) for r in bad.replicas]
