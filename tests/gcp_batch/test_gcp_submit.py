"""Submitting: once, however often an answer is lost; and nothing is left of what was broken off."""

from __future__ import annotations

import asyncio
import logging

import pytest

from asyncsched.errors import ConflictError, InvalidRequestError, PermissionDeniedError, UnavailableError
from asyncsched.schedulers.gcp_batch import GCPBatchScheduler
from asyncsched.specs import AppDef, AppState
from tests._support import WITHIN, eventually
from tests.gcp_batch.conftest import played, quick
from tests.gcp_double.control import running_job
from tests.gcp_double.server import Double, Fault

APP = AppDef("app", [played(["sleep", 60])])


@pytest.mark.parametrize("kind", ["reset", "503", "429"])
async def test_a_lost_answer_makes_no_second_job(double: Double, scheduler: GCPBatchScheduler, kind: str) -> None:
    double.faults.append(Fault(kind, times=2, path="/jobs"))
    app_id = await scheduler.submit(APP, {})

    assert 1 == double.jobs.created
    assert await scheduler.exists(app_id)
    assert 3 == double.calls["POST /v1/projects/*/locations/*/jobs"]


async def test_a_dry_run_of_another_process_is_submitted_once(double: Double, scheduler: GCPBatchScheduler) -> None:
    info = await scheduler.submit_dryrun(APP, {})
    async with quick("session") as other:
        await asyncio.gather(scheduler.schedule(info), other.schedule(info))

    assert 1 == double.jobs.created


@pytest.mark.parametrize("kind", ["reset", "503"])
async def test_every_try_of_every_scheduler_carries_the_request_id_of_the_dry_run(
    double: Double, scheduler: GCPBatchScheduler, kind: str
) -> None:
    info = await scheduler.submit_dryrun(APP, {})
    double.faults.append(Fault(kind, times=2, path="/jobs"))
    async with quick("session") as other:
        await other.schedule(info)
    await scheduler.schedule(info)  # it has not tried before, and therefore sends

    assert [info.request.request_id] * 4 == double.request_ids
    assert 1 == double.jobs.created


async def test_a_name_that_another_app_has_is_a_conflict(double: Double, scheduler: GCPBatchScheduler) -> None:
    await scheduler.submit(APP, {}, key="order-1")
    async with quick("session") as other:
        with pytest.raises(ConflictError, match="another app was submitted"):
            await other.submit(AppDef("app", [played(["sleep", 61])]), {}, key="order-1")

    assert 1 == double.jobs.created


def hold_create(double: Double) -> tuple[asyncio.Event, asyncio.Event]:
    """Have the double hold one create; returns what tells that it has come, and what lets it go on."""
    begun, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    async def gate() -> None:
        loop.call_soon_threadsafe(begun.set)
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(go_on.wait(), loop))

    double.faults.append(Fault("held", path="/jobs", gate=gate))
    return begun, go_on


async def test_a_slow_submit_that_is_cancelled_leaves_nothing(double: Double, scheduler: GCPBatchScheduler) -> None:
    begun, go_on = hold_create(double)
    info = await scheduler.submit_dryrun(APP, {})
    submitting = asyncio.create_task(scheduler.schedule(info))
    await begun.wait()
    submitting.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await submitting

    assert (1, {}) == (double.jobs.created, double.jobs.jobs)


async def test_a_cancelled_submit_whose_answer_never_ends_leaves_nothing(double: Double) -> None:
    double.faults.append(Fault("stall", path="/jobs", times=-1))
    async with asyncio.timeout(WITHIN), quick("session", cleanup_timeout=WITHIN) as made:
        info = await made.submit_dryrun(APP, {})
        submitting = asyncio.create_task(made.schedule(info))
        await eventually(lambda: double.jobs.created)
        submitting.cancel()
        with pytest.raises(asyncio.CancelledError) as told:
            await submitting

    assert (1, {}) == (double.jobs.created, double.jobs.jobs)
    assert [] == getattr(told.value, "__notes__", [])


async def test_a_cancelled_submit_never_deletes_the_job_of_somebody_else(
    double: Double, scheduler: GCPBatchScheduler
) -> None:
    info = await scheduler.submit_dryrun(APP, {})
    double.do(lambda: running_job(double, info.request.name, 1))
    begun, go_on = hold_create(double)
    async with asyncio.timeout(WITHIN):
        submitting = asyncio.create_task(scheduler.schedule(info))
        await begun.wait()
        submitting.cancel()
        await eventually(lambda: double.calls["GET /v1/projects/*/locations/*/jobs/*"])
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await submitting

    assert await scheduler.exists(info.app_id)
    assert 0 == double.calls["DELETE /v1/projects/*/locations/*/jobs/*"]


async def test_a_submit_that_fails_never_deletes_the_job_of_somebody_else(double: Double) -> None:
    double.faults.append(Fault("503", path="/jobs", times=-1))
    async with quick("session", retry_for=0.2) as made:
        info = await made.submit_dryrun(APP, {})
        double.do(lambda: running_job(double, info.request.name, 1))
        with pytest.raises(UnavailableError):
            await made.schedule(info)
        made.retry_for = 30.0

        assert await made.exists(info.app_id)
    assert 0 == double.calls["DELETE /v1/projects/*/locations/*/jobs/*"]


async def test_of_two_submits_with_one_key_the_cancelled_one_leaves_the_job_of_the_other(
    double: Double, scheduler: GCPBatchScheduler
) -> None:
    begun, go_on = hold_create(double)
    async with asyncio.timeout(WITHIN), quick("session") as other:
        submitting = asyncio.create_task(scheduler.submit(APP, {}, key="order-1"))
        await begun.wait()
        app_id = await other.submit(APP, {}, key="order-1")
        submitting.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await submitting

        assert await other.exists(app_id)
    assert 0 == double.calls["DELETE /v1/projects/*/locations/*/jobs/*"]


async def test_many_submits_go_side_by_side(double: Double, scheduler: GCPBatchScheduler) -> None:
    ids = await asyncio.gather(*(scheduler.submit(APP, {}) for _ in range(40)))

    assert 40 == len(set(ids)) == double.jobs.created
    assert {AppState.SUBMITTED, AppState.PENDING, AppState.RUNNING} >= {
        found.state for found in (await scheduler.describe_many(ids)).values() if found is not None
    }


async def test_a_project_that_is_not_ours_is_told(scheduler: GCPBatchScheduler) -> None:
    with pytest.raises(PermissionDeniedError, match=r"does not allow batch\.jobs\.create"):
        await scheduler.submit(APP, {"project": "another"})


async def test_a_log_that_is_not_kept_is_told(scheduler: GCPBatchScheduler) -> None:
    app_id = await scheduler.submit(APP, {"log_destination": "none"})
    with pytest.raises(InvalidRequestError, match="its job has no log destination"):
        [line async for line in scheduler.log_iter(app_id)]


async def test_a_second_cancel_and_one_of_a_job_that_is_deleted_do_nothing(
    double: Double, scheduler: GCPBatchScheduler
) -> None:
    app_id = await scheduler.submit(APP, {})
    await scheduler.cancel(app_id)
    await scheduler.cancel(app_id)
    async with asyncio.timeout(60):
        assert AppState.CANCELLED == [event async for event in scheduler.watch([app_id])][-1].state
    await scheduler.cancel(app_id)
    await scheduler.delete(app_id)
    await scheduler.cancel(app_id)

    assert await scheduler.describe(app_id) is None


async def test_a_location_that_cannot_be_reached_is_named(
    double: Double, scheduler: GCPBatchScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    app_id = await scheduler.submit(APP, {})
    far = await scheduler.submit(APP, {"location": "europe-west1"})
    assert [far, app_id] == [row.app_id for row in await scheduler.list()]
    double.unreachable.append("europe-west1")
    with caplog.at_level(logging.WARNING):
        assert [app_id] == [row.app_id for row in await scheduler.list()]

    assert "europe-west1: their jobs are not listed" in caplog.text


async def test_where_all_cannot_be_listed_at_once_each_location_is(
    double: Double, scheduler: GCPBatchScheduler
) -> None:
    double.lists_everywhere = False
    ids = [await scheduler.submit(APP, {"location": place}) for place in ("us-central1", "europe-west1", "us-central1")]

    assert ids[::-1] == [row.app_id for row in await scheduler.list()]


async def test_many_jobs_are_watched_through_their_list(double: Double, scheduler: GCPBatchScheduler) -> None:
    app = AppDef("app", [played(["wait"])])
    ids = await asyncio.gather(*(scheduler.submit(app, {}) for _ in range(30)))
    double.calls.clear()
    ends: dict[str, AppState] = {}
    async with asyncio.timeout(60):
        async for event in scheduler.watch(ids):
            ends[event.app_id] = event.state
            if {*ends} == {*ids} and {AppState.RUNNING} == {*ends.values()}:
                double.do(double.played.go_on.set)  # all at once: a few that are left would be read one by one

    assert dict.fromkeys(ids, AppState.SUCCEEDED) == ends
    assert 0 == double.calls["GET /v1/projects/*/locations/*/jobs/*"]


async def test_a_job_that_is_deleted_while_it_is_watched_is_gone(double: Double, scheduler: GCPBatchScheduler) -> None:
    app_id = await scheduler.submit(APP, {})
    name = next(iter(double.jobs.jobs))
    async with scheduler.watch([app_id]) as watch, asyncio.timeout(60):
        assert not (await anext(watch)).gone
        double.do(lambda: double.jobs.delete(name))
        assert [event async for event in watch][-1].gone
