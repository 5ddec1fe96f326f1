"""Pacing and retries, on virtual time."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from asyncsched.errors import InvalidRequestError, ThrottledError, UnavailableError
from asyncsched.schedulers._common.rate_limit import Pacer, RateLimits
from asyncsched.schedulers._common.retry import retry
from asyncsched.testing import VirtualClock


async def test_turns_come_at_the_rate_and_in_order() -> None:
    clock = VirtualClock()
    async with clock:
        pacer = Pacer(10, clock)
        taken: list[tuple[int, float]] = []

        async def take(number: int) -> None:
            await pacer.turn()
            taken.append((number, round(clock.monotonic(), 3)))

        await asyncio.gather(*(take(number) for number in range(21)))

    assert [(number, number / 10) for number in range(21)] == taken


async def test_a_cancelled_turn_is_nobodys_loss() -> None:
    clock = VirtualClock()
    pacer = Pacer(1, clock)
    await pacer.turn()
    first, second = asyncio.create_task(pacer.turn()), asyncio.create_task(pacer.turn())
    await asyncio.sleep(0)
    first.cancel()
    await clock.advance(1.0)

    assert second.done()


async def test_throttling_halves_the_rate_once_for_all_calls_on_their_way() -> None:
    clock = VirtualClock()
    pacer = Pacer(8, clock)
    for _ in range(5):
        pacer.throttled()
    assert 4 == pacer.rate

    await clock.advance(1.5)
    pacer.throttled(retry_after=3)
    assert 2 == pacer.rate
    began = clock.monotonic()
    async with clock:
        await pacer.turn()
    assert 3 == round(clock.monotonic() - began, 3)


async def test_turns_that_were_not_taken_may_be_taken_at_once() -> None:
    clock = VirtualClock()
    async with clock:
        pacer = Pacer(2, clock, burst=3)
        taken: list[float] = []
        for rest in (0, 60):
            await clock.sleep(rest)
            began = clock.monotonic()
            for _ in range(6):
                await pacer.turn()
                taken.append(round(clock.monotonic() - began, 3))

        assert [0, 0, 0, 0.5, 1, 1.5] * 2 == taken

        await clock.sleep(60)
        pacer.throttled()
        began = clock.monotonic()
        for after in (1, 2, 3):
            await pacer.turn()
            assert after == round(clock.monotonic() - began, 3)


async def test_the_rate_comes_back_slowly_and_not_beyond_where_it_began() -> None:
    clock = VirtualClock()
    pacer = Pacer(2, clock)
    pacer.throttled()
    rates = [pacer.rate]
    for _ in range(5):
        await clock.advance(10.0)
        await pacer.turn()
        rates.append(pacer.rate)

    assert [1, 1.5, 2, 2, 2, 2] == rates


async def test_whoever_shares_limits_shares_a_pacer() -> None:
    clock, limits = VirtualClock(), RateLimits()

    assert limits.pacer("a", 1, clock) is limits.pacer("a", 5, clock)
    assert limits.pacer("a", 1, clock) is not limits.pacer("b", 1, clock)


async def test_limits_are_a_part_of_the_usual_rates_or_more_than_those() -> None:
    clock = VirtualClock()

    assert [5, 40] == [RateLimits(scale=scale).pacer("a", 10, clock).rate for scale in (0.5, 4)]


async def test_a_retry_waits_longer_each_time_and_gives_up_in_time() -> None:
    clock = VirtualClock()
    tries: list[float] = []

    async def call() -> None:
        tries.append(clock.monotonic())
        raise UnavailableError("away")

    async with clock:
        with pytest.raises(UnavailableError):
            await retry(call, clock=clock, retry_for=20)

    pauses = [after - before for before, after in itertools.pairwise(tries)]
    assert all(0.125 * 2**n <= pause <= 0.25 * 2**n for n, pause in enumerate(pauses[:6]))
    assert 20 < tries[-1] < 31


async def test_what_will_not_pass_is_not_tried_again_and_a_named_pause_is_kept() -> None:
    clock = VirtualClock()
    answers = iter([ThrottledError("slow", retry_after=5), InvalidRequestError("no")])
    tries: list[float] = []

    async def call() -> None:
        tries.append(clock.monotonic())
        raise next(answers)

    async with clock:
        with pytest.raises(InvalidRequestError):
            await retry(call, clock=clock, retry_for=60)

    assert [0, 5] == tries
