"""One budget for a loop, shared by everyone who handles lines on it."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref

from asyncsched.logs.budget import BUDGET, LoopBudget, budget_of
from tests._support import eventually


def spin(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


async def iterations(seen: list[float]) -> None:
    """Note, in each iteration of the loop, how long it took."""
    began = time.thread_time()
    while True:
        await asyncio.sleep(0)
        now = time.thread_time()
        seen.append(now - began)
        began = now


async def test_many_greedy_ones_share_one_budget_and_nobody_starves() -> None:
    budget = budget_of(asyncio.get_running_loop())
    turns = [0] * 32
    seen: list[float] = []

    async def greedy(number: int) -> None:
        while True:
            await budget.breathe()
            spin(0.001)
            turns[number] += 1

    tasks = [asyncio.create_task(greedy(number)) for number in range(32)]
    watching = asyncio.create_task(iterations(seen))
    await eventually(lambda: min(turns) >= 4)
    for task in (*tasks, watching):
        task.cancel()
    await asyncio.gather(*tasks, watching, return_exceptions=True)

    # The first iteration starts them all; after it each lasts about one budget, and a turn.
    seen.sort()
    assert seen[len(seen) * 9 // 10] < 3 * BUDGET
    assert max(turns) <= 6 * min(turns) + 6


async def test_one_who_is_cancelled_in_the_line_holds_up_nobody() -> None:
    budget = LoopBudget()

    async def wait_in_line() -> None:
        budget.begin()
        spin(2 * BUDGET)
        await budget.breathe()

    tasks = [asyncio.create_task(wait_in_line()) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[0].cancel()

    await asyncio.wait_for(asyncio.gather(*tasks[1:]), 5)


def test_a_loop_that_is_gone_is_forgotten() -> None:
    async def main() -> weakref.ref[asyncio.AbstractEventLoop]:
        loop = asyncio.get_running_loop()
        budget_of(loop).begin()
        await asyncio.sleep(0)
        return weakref.ref(loop)

    gone = asyncio.run(main())
    gc.collect()

    assert gone() is None
