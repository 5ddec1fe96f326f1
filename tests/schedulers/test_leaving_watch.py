"""Leaving a watch of many apps: the loop goes on while what the watch has told is let go of."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import time
from typing import ClassVar

import pytest

from asyncsched.logs.loop_time import BUDGET, budget_of
from asyncsched.schedulers.responses import DescribeAppResponse, fingerprint
from asyncsched.schedulers.state_stream import StateStream, Subscription
from asyncsched.specs import AppState, Role

pytestmark = pytest.mark.guard(loop_step=False, reason="a state that takes long to be freed is what is tested")

MANY = 40


class Heavy:
    """Something in an app's state whose end uses up what an iteration of the loop has."""

    alive = 0
    freed: ClassVar[collections.Counter[int]] = collections.Counter()  # by iteration of the loop

    def __init__(self) -> None:
        Heavy.alive += 1

    def __deepcopy__(self, memo: object) -> Heavy:
        return Heavy()

    def __del__(self) -> None:
        Heavy.alive -= 1
        with contextlib.suppress(RuntimeError):  # a test that fails holds it longer than its loop runs
            Heavy.freed[budget_of(asyncio.get_running_loop()).iteration] += 1
        end = time.perf_counter() + 1.1 * BUDGET
        while time.perf_counter() < end:
            pass


class Feed:
    """A feed that knows each app's state at once, and keeps none of them."""

    def opened(self, subscription: Subscription) -> None: ...

    def subscribe(self, app_id: str, subscription: Subscription) -> None:
        role = Role("main", "image", metadata={"heavy": Heavy()})
        response = DescribeAppResponse(app_id, AppState.RUNNING, roles=[role])
        subscription.put(app_id, response, fingerprint(response), gone=False)

    def unsubscribe(self, app_id: str, subscription: Subscription) -> None: ...

    def released(self, subscription: Subscription) -> None: ...

    async def settle(self) -> None: ...


@pytest.mark.parametrize("taken", [0, MANY // 2, MANY])
async def test_an_iteration_frees_no_more_than_its_budget(taken: int) -> None:
    watch = StateStream(Feed(), [f"app-{number}" for number in range(MANY)])
    await watch.ready()
    for _ in range(taken):
        await anext(watch)
    assert MANY == Heavy.alive == watch.statistics().pending + taken
    Heavy.freed.clear()
    await watch.aclose()

    assert 0 == Heavy.alive
    assert [1] * MANY == [*Heavy.freed.values()]


async def test_a_step_that_waits_ends_when_the_watch_is_closed_and_takes_nothing_more() -> None:
    watch = StateStream(Feed(), ["app-0"], follow=True)
    await anext(watch)
    step = asyncio.create_task(anext(watch, None))
    await asyncio.sleep(0)
    await watch.aclose()

    assert await step is None
    assert not await watch.ready()
    assert 0 == watch.statistics().pending
    assert 0 == Heavy.alive
