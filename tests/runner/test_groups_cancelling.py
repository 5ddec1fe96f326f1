"""Groups under anyio's cancellation by level, and with tasks that begin when they are made."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from asyncsched.specs import AppState
from tests.runner.groups_rig import GroupRig, work

EAGER = getattr(asyncio, "eager_task_factory", None)


@pytest.mark.parametrize("steps", range(8))
async def test_a_block_that_is_cancelled_by_level_ends_its_jobs(steps: int) -> None:
    async with GroupRig() as rig, rig.clock:
        rig.hold()
        rig.service.slow("cancel", 1.0)
        with anyio.CancelScope() as scope:
            async with rig.runner.group(limit=2) as group:
                jobs = [group.start(work()) for _ in range(3)]
                for _ in range(steps):
                    await asyncio.sleep(0)
                scope.cancel()
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        assert (0, 0) == (rig.running, len(group.left_running))
        assert {AppState.CANCELLED} == {job.state for job in jobs}


async def test_waits_that_are_cancelled_by_level_touch_no_job() -> None:
    async with GroupRig() as rig, rig.clock:
        rig.hold()
        async with rig.runner.group() as group:
            job = group.start(work())
            await rig.held()
            for wait in (job._wait, group.wait, group.as_completed().__anext__, group.events().__anext__):
                with anyio.move_on_after(0):
                    await wait()
                    await wait()
            assert not job.is_terminal()
            rig.let_go()
        assert AppState.SUCCEEDED is job.state


async def test_leaving_is_not_shortened_by_a_level_that_is_cancelled_meanwhile() -> None:
    async with GroupRig() as rig, rig.clock:
        rig.hold()
        with anyio.CancelScope() as scope:
            async with rig.runner.group() as group:
                group.start(work())
                await rig.held()
                asyncio.get_running_loop().call_soon(scope.cancel)
        assert 0 == rig.running
        assert scope.cancelled_caught


@pytest.mark.skipif(EAGER is None, reason="tasks that begin when they are made are new in Python 3.12")
@pytest.mark.parametrize("retries", [0, 1])
async def test_a_sweep_with_eager_tasks(retries: int) -> None:
    asyncio.get_running_loop().set_task_factory(EAGER)
    try:
        async with GroupRig() as rig, rig.clock:
            async with rig.runner.group(limit=3, retries=retries, on_failure="continue") as group:
                jobs = [group.start(work(f"exit {int(number % 3 == 0)}")) for number in range(12)]
                cancelled = group.start(work())
                await cancelled.cancel()
                told = [job async for job in group.as_completed()]
            assert {*jobs, cancelled} == {*told}
            assert 3 == rig.most
            assert (8, 4, 1) == (group.counts.done, group.counts.failed, group.counts.cancelled)
    finally:
        asyncio.get_running_loop().set_task_factory(None)
