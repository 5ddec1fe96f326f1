"""Which job a name means: many are looked up together, and of several of one name the newest counts."""

from __future__ import annotations

import logging

import pytest

from asyncsched.schedulers.aws_batch import lookup_names
from asyncsched.specs import AppState
from tests.aws_batch.conftest import QUEUE, Virtual, in_bulk
from tests.aws_emulator.cloud import Cloud
from tests.aws_emulator.many import end, running_jobs
from tests.aws_emulator.model import Job, new_id

DELETED = {"asyncsched/deleted": "true"}

pytestmark = pytest.mark.guard(loop_step=False, reason="the emulator renders thousands of jobs in the same thread")


def handle(job: Job) -> str:
    return f"{QUEUE}:{job.name}"


def same_name(cloud: Cloud, count: int, name: str) -> list[Job]:
    jobs = running_jobs(cloud, count, QUEUE)
    for number, job in enumerate(jobs):
        job.name, job.created = name, 1_000 + number
    return jobs


async def test_a_thousand_handles_of_another_process_cost_few_calls(virtual: Virtual) -> None:
    jobs = running_jobs(virtual.cloud, 5000, QUEUE)
    for job in jobs[1000:4000]:
        end(virtual.cloud, job)
    wanted = jobs[:500] + jobs[2000:2500]
    scheduler = virtual.scheduler()

    found = await scheduler.describe_many([handle(job) for job in wanted])

    assert [job.id for job in wanted] == [app.native_id for app in found.values() if app is not None]
    assert {"ListJobs": 10, "DescribeJobs": 10} == dict(virtual.cloud.traffic.calls)
    virtual.cloud.traffic.calls.clear()
    await scheduler.describe_many([handle(job) for job in wanted])
    assert virtual.calls <= 11  # of a sweep: the names are not looked up again


@in_bulk
async def test_a_thousand_handles_are_cancelled_in_few_calls(virtual: Virtual) -> None:
    jobs = running_jobs(virtual.cloud, 1000, QUEUE)

    told = await virtual.scheduler().cancel_many([*map(handle, jobs), f"{QUEUE}:nobody"])

    assert {None} == set(told.values())
    assert all(job.terminated for job in jobs)
    assert virtual.calls <= 60
    assert {"ListJobs", "DescribeJobs", "TerminateJobs"} == set(virtual.cloud.traffic.calls)


async def test_names_that_nothing_has_cost_no_call_each(virtual: Virtual) -> None:
    running_jobs(virtual.cloud, 10, QUEUE)

    found = await virtual.scheduler().describe_many([f"{QUEUE}:nobody-{number}" for number in range(500)])

    assert {None} == set(found.values())
    assert virtual.calls <= 10


async def test_a_queue_that_is_too_long_to_be_listed_is_asked_for_each_name(
    virtual: Virtual, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup_names, "MAX_ROWS", 2)
    jobs = running_jobs(virtual.cloud, 100, QUEUE)
    wanted = jobs[40:52]

    found = await virtual.scheduler().describe_many([handle(job) for job in wanted])

    assert [job.id for job in wanted] == [app.native_id for app in found.values() if app is not None]
    assert virtual.cloud.traffic.calls["ListJobs"] <= 2 * len(wanted) + 1


@pytest.mark.parametrize("many", [False, True])
async def test_of_two_jobs_of_one_name_the_newest_counts_with_a_note(
    virtual: Virtual, caplog: pytest.LogCaptureFixture, *, many: bool
) -> None:
    _, newest, deleted = same_name(virtual.cloud, 3, f"twice-{new_id()[:8]}")
    deleted.tags = DELETED
    others = running_jobs(virtual.cloud, 20 if many else 0, QUEUE)
    with caplog.at_level(logging.WARNING, "asyncsched.schedulers.aws_batch"):
        found = await virtual.scheduler().describe_many([handle(newest), *map(handle, others)])

    assert newest.id == getattr(found[handle(newest)], "native_id", None)
    (note,) = caplog.messages
    assert handle(newest) in note
    assert newest.id in note


async def test_a_name_that_is_remembered_is_looked_up_again_when_its_job_is_gone(virtual: Virtual) -> None:
    first, second = same_name(virtual.cloud, 2, "twice")
    second.created, second.name = 0, "hidden"
    scheduler = virtual.scheduler()
    assert first.id == getattr(await scheduler.describe(handle(first)), "native_id", None)
    first.tags, second.name = DELETED, "twice"
    end(virtual.cloud, first)

    described, watched = await scheduler.describe(handle(first)), virtual.scheduler()
    assert second.id == getattr(described, "native_id", None)
    await watched.describe(handle(first))
    second.tags, third = DELETED, running_jobs(virtual.cloud, 1, QUEUE)[0]
    third.name = "twice"
    async with watched.watch([handle(first)]) as states:
        async for event in states:
            if event.state is AppState.RUNNING:
                assert third.id == getattr(event.current, "native_id", None)
                break
    await scheduler.cancel(handle(first))
    assert [False, False, True] == [job.terminated for job in (first, second, third)]
