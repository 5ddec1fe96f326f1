"""One budget for a loop, shared by everyone who handles lines on it."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref

from asyncsched.logs.loop_time import BUDGET, LoopBudget, budget_of
from tests._support import WITHIN, eventually


def spin(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


async def iterations(turns: list[int], seen: list[int]) -> None:
    """Note, in each iteration of the loop, how many turns were taken in it."""
    before = 0
    while True:
        await asyncio.sleep(0)
        now = sum(turns)
        seen.append(now - before)
        before = now


async def test_many_greedy_ones_share_one_budget_and_nobody_starves() -> None:
    budget = budget_of(asyncio.get_running_loop())
    turns = [0] * 32
    seen: list[int] = []

    async def greedy(number: int) -> None:
        while True:
            await budget.breathe()
            spin(0.001)
            turns[number] += 1

    tasks = [asyncio.create_task(greedy(number)) for number in range(32)]
    watching = asyncio.create_task(iterations(turns, seen))
    await eventually(lambda: min(turns) >= 4)
    for task in (*tasks, watching):
        task.cancel()
    await asyncio.gather(*tasks, watching, return_exceptions=True)

    # The first iteration starts them all; after it each has room for a budget's turns of a millisecond, and one more.
    seen.sort()
    assert seen[len(seen) * 9 // 10] <= 3 * BUDGET * 1000
    assert max(turns) <= 6 * min(turns) + 6


async def test_what_has_begun_does_not_wait_for_all_others_again() -> None:
    budget = budget_of(asyncio.get_running_loop())
    taken = 0

    async def greedy() -> None:
        nonlocal taken
        while True:
            await budget.breathe()
            spin(1.1 * BUDGET)
            taken += 1

    tasks = [asyncio.create_task(greedy()) for _ in range(32)]
    await eventually(lambda: taken >= 32)
    before = taken
    for _ in range(3):
        spin(1.1 * BUDGET)
        await budget.breathe(begun=True)
    others = taken - before
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert others < 32


async def test_one_who_is_cancelled_in_the_line_holds_up_nobody() -> None:
    budget = LoopBudget()

    async def wait_in_line() -> None:
        budget.begin()
        spin(2 * BUDGET)
        await budget.breathe()

    tasks = [asyncio.create_task(wait_in_line()) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[0].cancel()

    await asyncio.wait_for(asyncio.gather(*tasks[1:]), WITHIN)


def test_a_loop_that_is_gone_is_forgotten() -> None:
    async def main() -> weakref.ref[asyncio.AbstractEventLoop]:
        loop = asyncio.get_running_loop()
        budget_of(loop).begin()
        await asyncio.sleep(0)
        return weakref.ref(loop)

    gone = asyncio.run(main())
    gc.collect()

    assert gone() is None
