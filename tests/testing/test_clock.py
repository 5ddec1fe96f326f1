"""The clock that does not wait: what moves it, and what holds it back."""

from __future__ import annotations

import asyncio
import time

import pytest

from asyncsched.clock import wait_for_event
from asyncsched.testing import FakeScheduler, FakeService, VirtualClock


async def worked(milliseconds: int) -> str:
    """Do work that the loop knows nothing of until it is done."""
    await asyncio.to_thread(time.sleep, milliseconds / 1000)
    return "done"


async def for_ever(clock: VirtualClock) -> None:
    while True:
        await clock.sleep(0.5)


async def test_sleeps_pass_in_their_order(clock: VirtualClock) -> None:
    woken: list[int] = []

    async def sleeper(seconds: int) -> None:
        await clock.sleep(seconds)
        woken.append(seconds)

    began = clock.monotonic()
    await asyncio.gather(*(sleeper(seconds) for seconds in (3000, 10, 200)))

    assert [10, 200, 3000] == woken
    assert 3000.0 == clock.monotonic() - began


async def test_a_limit_to_waiting_passes(clock: VirtualClock) -> None:
    with pytest.raises(TimeoutError, match="no answer within 5 s"):
        async with clock.timeout(5):
            await asyncio.Event().wait()

    assert 5.0 == clock.monotonic()


async def test_work_under_a_deadline_is_given_the_time_that_it_takes(clock: VirtualClock) -> None:
    async with clock.deadline(60):
        assert "done" == await worked(200)

    assert 0.0 == clock.monotonic()


async def test_whoever_sleeps_beside_it_does_not_outrun_it(clock: VirtualClock) -> None:
    polling = asyncio.create_task(for_ever(clock))
    async with clock.deadline(60):
        assert "done" == await worked(300)

    assert clock.monotonic() <= 60.0
    polling.cancel()
    await asyncio.wait([polling])


async def test_a_deadline_expires_when_nothing_but_time_can_help(clock: VirtualClock) -> None:
    with pytest.raises(TimeoutError):
        async with clock.deadline(60):
            await clock.sleep(100)

    assert 60.0 == clock.monotonic()


async def test_a_deadline_can_be_made_to_expire(clock: VirtualClock) -> None:
    async def hang() -> None:
        async with clock.deadline(60):
            await asyncio.Event().wait()

    hanging = asyncio.create_task(hang())
    await clock.advance(61)

    assert isinstance(hanging.exception(), TimeoutError)


async def test_time_stands_while_work_takes_turn_after_turn(clock: VirtualClock) -> None:
    polling = asyncio.create_task(for_ever(clock))
    for _ in range(500):  # as a thousand watchers do that go on one by one
        await asyncio.sleep(0)

    assert 0.0 == clock.monotonic()
    polling.cancel()
    await asyncio.wait([polling])


async def test_time_passes_beside_a_task_that_never_waits(clock: VirtualClock) -> None:
    sleeping = asyncio.create_task(clock.sleep(5))
    while not sleeping.done():  # noqa: ASYNC110 - a loop that waits for nothing is what this is about
        await asyncio.sleep(0)

    assert 5.0 == clock.monotonic()


@pytest.mark.parametrize("iterations", range(0, 120, 7))
async def test_an_operation_is_not_outrun_whenever_it_begins(clock: VirtualClock, iterations: int) -> None:
    scheduler = FakeScheduler("mine", FakeService(clock))
    for _ in range(iterations):
        await asyncio.sleep(0)
    for _ in range(5):
        await scheduler.cancel("job-x1")
    await scheduler.close()

    assert 0.0 == clock.monotonic()


async def test_a_wait_for_an_event_ends_with_it_or_with_its_time(clock: VirtualClock) -> None:
    event = asyncio.Event()
    waiting = asyncio.create_task(wait_for_event(event, clock, 100))
    await clock.sleep(5)
    event.set()
    await waiting

    assert 5.0 == clock.monotonic()

    event.clear()
    await wait_for_event(event, clock, 100)

    assert event.is_set()
    assert 105.0 == clock.monotonic()


async def test_a_wait_for_an_event_leaves_no_timer_behind(clock: VirtualClock) -> None:
    event = asyncio.Event()
    event.set()
    await wait_for_event(event, clock, 10)
    event.clear()
    with pytest.raises(TimeoutError):
        async with clock.timeout(1):
            await wait_for_event(event, clock, 10)
    await clock.sleep(60)

    assert not event.is_set()


async def test_a_wait_without_a_limit_outlasts_any_time(clock: VirtualClock) -> None:
    event = asyncio.Event()
    waiting = asyncio.create_task(wait_for_event(event, clock, None))
    await clock.sleep(1_000_000)

    assert not waiting.done()

    event.set()
    await waiting
