"""Cancelling many jobs: as few calls as AWS Batch allows, within its limits, whatever the service knows."""

from __future__ import annotations

import asyncio

import pytest

from asyncsched.errors import SchedulerError, UnavailableError
from asyncsched.schedulers.aws_batch import AWSBatchScheduler
from tests.aws_batch.conftest import QUEUE, Virtual, in_bulk
from tests.aws_emulator.many import end, running_jobs

pytestmark = pytest.mark.guard(loop_step=False, reason="the emulator renders hundreds of jobs in the same thread")


async def cancel_all(scheduler: AWSBatchScheduler, app_ids: list[str]) -> None:
    await asyncio.gather(*(scheduler.cancel(app_id) for app_id in app_ids))


@in_bulk
async def test_two_thousand_jobs_take_eighty_calls_within_the_limits(virtual: Virtual) -> None:
    jobs = running_jobs(virtual.cloud, 2000, QUEUE)
    virtual.cloud.traffic.throttle(DescribeJobs=(10, 10), TerminateJobs=(10, 10), TerminateJob=(10, 10))
    scheduler = virtual.scheduler()
    began = virtual.clock.monotonic()
    await cancel_all(scheduler, [f"{QUEUE}:{job.id}" for job in jobs])

    assert all(job.terminated for job in jobs)
    assert {"DescribeJobs": 40, "TerminateJobs": 40} == dict(virtual.cloud.traffic.calls)
    assert 0 == virtual.cloud.traffic.throttled.total()
    assert virtual.clock.monotonic() - began < 15


@in_bulk
async def test_ends_wait_neither_for_submits_nor_for_reads(virtual: Virtual) -> None:
    [job] = running_jobs(virtual.cloud, 1, QUEUE)
    connections = virtual.scheduler()._connections
    connection = connections.at()
    waiting = [
        asyncio.create_task(connections.pacer(connection.location, operation, "batch").turn())
        for operation in ("SubmitJob", "ListJobs")
        for _ in range(600)
    ]
    await connection.call("batch", "TerminateJobs", jobs=[job.id], reason="test")

    assert job.terminated
    assert sum(not turn.done() for turn in waiting) > 1000
    for turn in waiting:
        turn.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


@in_bulk
async def test_those_that_have_ended_or_never_were_are_left_alone(virtual: Virtual) -> None:
    jobs = running_jobs(virtual.cloud, 4, QUEUE)
    end(virtual.cloud, jobs[0])
    scheduler = virtual.scheduler()
    await cancel_all(
        scheduler, [*(f"{QUEUE}:{job.id}" for job in jobs), f"{QUEUE}:{'0' * 8}-0000-0000-0000-{'0' * 12}"]
    )

    assert [False, True, True, True] == [job.terminated for job in jobs]
    assert {"DescribeJobs": 1, "TerminateJobs": 1} == dict(virtual.cloud.traffic.calls)


@in_bulk
async def test_where_jobs_cannot_be_ended_in_bulk_they_are_ended_one_by_one(virtual: Virtual) -> None:
    jobs = running_jobs(virtual.cloud, 8, QUEUE)
    virtual.cloud.traffic.fail("TerminateJobs", "denied", times=1000)
    scheduler = virtual.scheduler()
    await cancel_all(scheduler, [f"{QUEUE}:{job.id}" for job in jobs])

    assert all(job.terminated for job in jobs)
    assert {"DescribeJobs": 1, "TerminateJobs": 1, "TerminateJob": 8} == dict(virtual.cloud.traffic.calls)


async def test_one_who_is_cancelled_spares_the_others(virtual: Virtual) -> None:
    jobs = running_jobs(virtual.cloud, 3, QUEUE)
    scheduler = virtual.scheduler()
    calls = [asyncio.create_task(scheduler.cancel(f"{QUEUE}:{job.id}")) for job in jobs]
    await asyncio.sleep(0)
    calls[1].cancel()
    await asyncio.wait(calls)

    assert [False, True, False] == [call.cancelled() for call in calls]
    assert [True, True] == [jobs[0].terminated, jobs[2].terminated]


async def test_what_goes_wrong_is_told_to_each_of_them(virtual: Virtual) -> None:
    jobs = running_jobs(virtual.cloud, 3, QUEUE)
    virtual.cloud.traffic.fail("DescribeJobs", "unavailable", times=100_000)
    scheduler = virtual.scheduler()
    calls = [asyncio.create_task(scheduler.cancel(f"{QUEUE}:{job.id}")) for job in jobs]
    await virtual.clock.advance(70.0)
    answers = await asyncio.gather(*calls, return_exceptions=True)

    assert [UnavailableError] * 3 == [type(answer) for answer in answers]
    assert 3 == len({id(answer) for answer in answers})


async def test_closing_tells_those_who_wait(virtual: Virtual) -> None:
    jobs = running_jobs(virtual.cloud, 60, QUEUE)
    scheduler = virtual.scheduler(latency=100.0, retry_for=1000.0)
    calls = [asyncio.create_task(scheduler.cancel(f"{QUEUE}:{job.id}")) for job in jobs]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await scheduler.close()
    answers = await asyncio.gather(*calls, return_exceptions=True)

    assert all(isinstance(answer, SchedulerError) for answer in answers)
    assert not any(job.terminated for job in jobs)
