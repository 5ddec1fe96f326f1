"""Watching many jobs: what it costs, and how soon an end is seen; on virtual time."""

from __future__ import annotations

import asyncio
import random
from functools import partial

import pytest

from asyncsched.schedulers.aws_batch.changes import AWSSweeper
from asyncsched.schedulers.aws_batch.lookup_names import MAX_ROWS
from asyncsched.specs import AppDef, AppState
from tests.aws_batch.conftest import QUEUE, Virtual, script
from tests.aws_emulator.many import end, running_jobs

MANY = 10_000


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.one_loop  # virtual time is the same on every loop
@pytest.mark.guard(loop_step=False, reason="the emulator's own work is done in the same thread")
@pytest.mark.parametrize(
    "quiet", [300, pytest.param(3600, marks=[pytest.mark.heavy("aws"), pytest.mark.timeout(1800)])]
)
async def test_ten_thousand_jobs_cost_ten_calls_a_second_and_ends_are_seen_soon(virtual: Virtual, quiet: int) -> None:
    cloud, clock = virtual.cloud, virtual.clock
    jobs = running_jobs(cloud, MANY, QUEUE)
    scheduler = virtual.scheduler()
    delays: list[float] = []
    chance = random.Random(0)
    ends = {job.name: chance.uniform(30, 90) for job in jobs[: MANY // 2]}
    for job in jobs[: MANY // 2]:
        cloud.timeline.after(ends[job.name], partial(end, cloud, job))
    began = clock.monotonic()

    async with scheduler.watch([f"{QUEUE}:{job.name}" for job in jobs]) as watch:
        while len(delays) < MANY // 2:
            event = await anext(watch)
            if event.is_terminal():
                assert AppState.SUCCEEDED == event.state
                delays.append(clock.monotonic() - began - ends[event.app_id.rpartition(":")[2]])
        seconds = clock.monotonic() - began
        calls = virtual.calls
        delays.sort()

        assert calls / seconds <= 10
        assert delays[int(len(delays) * 0.95)] <= 2.5

        await clock.sleep(quiet)  # hundreds of sweeps that find nothing new
        cloud.traffic.calls.clear()
        last = clock.monotonic()
        end(cloud, jobs[-1])
        event = await anext(watch)

        assert (f"{QUEUE}:{jobs[-1].name}", AppState.SUCCEEDED) == (event.app_id, event.state)
        assert clock.monotonic() - last <= 2.5


async def test_a_thousand_waiters_share_one_feed(virtual: Virtual) -> None:
    cloud = virtual.cloud
    job = running_jobs(cloud, 1, QUEUE)[0]
    scheduler = virtual.scheduler()
    cloud.timeline.after(20, lambda: end(cloud, job))

    async def wait() -> AppState:
        return [event async for event in scheduler.watch([f"{QUEUE}:{job.id}"])][-1].state

    states = await asyncio.gather(*(wait() for _ in range(1000)))

    assert {AppState.SUCCEEDED} == set(states)
    assert virtual.calls <= 45


async def test_a_job_that_is_purged_while_it_is_watched_is_gone(virtual: Virtual) -> None:
    cloud = virtual.cloud
    job = running_jobs(cloud, 1, QUEUE)[0]
    async with virtual.scheduler().watch([f"{QUEUE}:{job.id}"]) as watch:
        assert AppState.RUNNING == (await anext(watch)).state
        cloud.purge(job.id)
        gone = await anext(watch)

    assert gone.gone
    assert AppState.RUNNING == getattr(gone.current, "state", None)


async def test_statuses_that_no_watched_job_is_in_are_not_listed(virtual: Virtual) -> None:
    cloud = virtual.cloud
    jobs = running_jobs(cloud, 1200, QUEUE)
    async with virtual.scheduler().watch([f"{QUEUE}:{job.id}" for job in jobs]) as watch:
        for job in jobs[:2]:
            cloud.batch.listed.clear()
            cloud.timeline.after(20, partial(end, cloud, job))
            await anext(event async for event in watch if event.is_terminal())

    assert {"RUNNING"} == cloud.batch.listed.keys()


async def test_a_watch_compares_one_page_in_a_step(virtual: Virtual, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many jobs there are, a step of the loop compares those of one page."""
    compared = [0]  # in each step
    is_new, soon = AWSSweeper._is_new, asyncio.get_running_loop().call_soon

    def counted(self: AWSSweeper, job_id: str, now: tuple[object, ...]) -> bool:
        if not compared[-1]:
            soon(compared.append, 0)
        compared[-1] += 1
        return is_new(self, job_id, now)

    monkeypatch.setattr(AWSSweeper, "_is_new", counted)
    jobs = running_jobs(virtual.cloud, 4 * MAX_ROWS, QUEUE)
    virtual.cloud.timeline.after(20, lambda: end(virtual.cloud, jobs[0]))

    async with virtual.scheduler().watch([f"{QUEUE}:{job.id}" for job in jobs]) as watch:
        await anext(event async for event in watch if event.is_terminal())

    assert MAX_ROWS == max(compared)


async def test_a_page_token_that_expires_costs_a_watch_nothing(virtual: Virtual) -> None:
    cloud, clock = virtual.cloud, virtual.clock
    jobs = running_jobs(cloud, 1200, QUEUE)  # a list of two pages
    await asyncio.sleep(0)  # What the emulator has done is not counted with what the scheduler does.
    scheduler = virtual.scheduler()
    for second in range(30):
        clock.call_later(second, cloud.batch.expire_tokens)
    cloud.timeline.after(20, lambda: end(cloud, jobs[0]))
    async with scheduler.watch([f"{QUEUE}:{job.id}" for job in jobs]) as watch:
        async for event in watch:
            if event.is_terminal():
                break

    assert (f"{QUEUE}:{jobs[0].id}", AppState.SUCCEEDED) == (event.app_id, event.state)


async def test_a_watch_survives_half_a_minute_without_a_single_answer(virtual: Virtual) -> None:
    cloud, clock = virtual.cloud, virtual.clock
    job = running_jobs(cloud, 1, QUEUE)[0]
    scheduler = virtual.scheduler()
    async with scheduler.watch([f"{QUEUE}:{job.id}"]) as watch:
        await anext(watch)
        fault = cloud.traffic.fail("*", "throttle", times=1_000_000)
        cloud.timeline.after(10, lambda: end(cloud, job))
        cloud.timeline.after(30, lambda: setattr(fault, "times", 0))
        began = clock.monotonic()
        event = await anext(watch)

    assert AppState.SUCCEEDED == event.state
    assert 30 <= clock.monotonic() - began <= 75


async def test_nodes_are_seen_also_while_the_lists_are_used(virtual: Virtual) -> None:
    """A queue's list shows the job; what its nodes do is asked for in turn."""
    cloud = virtual.cloud
    jobs = running_jobs(cloud, 1500, QUEUE)
    scheduler = virtual.scheduler()
    app = AppDef("nodes", [script(["sleep", 500], name="main"), script(["sleep", 60], ["exit", 3], name="child")])
    app_id = await scheduler.submit(app, {"queue": QUEUE})
    async with scheduler.watch([app_id, *(f"{QUEUE}:{job.id}" for job in jobs)]) as watch:
        async for event in watch:
            replicas = event.current.replicas if event.app_id == app_id and event.current else []
            if any(replica.state is AppState.FAILED for replica in replicas):
                break

    assert AppState.RUNNING == event.state
    assert 3 == replicas[1].exit_code
    assert cloud.traffic.calls["ListJobs"] > 5
