"""The lines of a replica come in the order of its attempts, however late the stream of one of them is found."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from asyncsched.errors import LogStreamError
from asyncsched.logs.line import LogLine
from asyncsched.schedulers.aws_batch import AWSBatchScheduler
from asyncsched.specs import AppDef
from tests.aws_batch.conftest import QUEUE, Virtual, script

CFG = {"queue": QUEUE}


def app(*attempts: list[list[Any]], count: int = 1) -> AppDef:
    """An app whose attempts take these steps, one after the other, and of which only the last ends well."""
    steps = [["if_attempt", number, taken] for number, taken in enumerate(attempts, 1)]
    codes = [*[1] * (len(attempts) - 1), 0]
    role = script(*steps, ["exit", codes], num_replicas=count)
    role.max_retries = len(attempts) - 1
    return AppDef("app", [role])


async def read(scheduler: AWSBatchScheduler, app_id: str, **query: Any) -> list[LogLine]:
    return [line async for line in scheduler.log_iter(app_id, **query)]


def told(lines: list[LogLine], replica: int = 0) -> list[tuple[int | None, str]]:
    return [(line.attempt, "GAP" if line.gap else line.text) for line in lines if line.replica == replica]


def says(text: str, *, late: float = 0.0, then: float = 1.0) -> list[list[Any]]:
    return [["line", text, late], ["sleep", then]]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("late", [0.5, 1.5, 2.5])
@pytest.mark.parametrize("query", [{}, {"tail_lines": 5}])
async def test_a_stream_that_appears_after_that_of_the_next_attempt_is_read_before_it(
    virtual: Virtual, count: int, late: float, query: dict[str, Any]
) -> None:
    virtual.cloud.pace.stop_children = 0.5
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(
        app(says("a"), says("b", late=late, then=0.2), says("c", then=20), count=count), CFG
    )

    lines = await read(scheduler, app_id, should_tail=True, **query)

    assert [[(0, "a"), (1, "b"), (2, "c")]] * count == [told(lines, replica) for replica in range(count)]


@pytest.mark.parametrize("query", [{}, {"tail_lines": 5}])
async def test_what_one_reader_has_found_is_read_in_order_by_the_others(
    virtual: Virtual, query: dict[str, Any]
) -> None:
    """A tail that reads the last attempt alone finds its stream long before that of the others."""
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(app(says("a", late=6), says("b", late=6), says("c", then=60)), CFG)
    last = asyncio.create_task(read(scheduler, app_id, should_tail=True, attempts=2))
    await virtual.clock.sleep(20)

    assert [(0, "a"), (1, "b"), (2, "c")] == told(await read(scheduler, app_id, **query))
    assert [(2, "c")] == told(await last)


@pytest.mark.parametrize("silent", [0, 1])
async def test_an_attempt_that_never_writes_holds_up_the_next_ones_for_seconds_only(
    virtual: Virtual, silent: int
) -> None:
    scheduler, clock = virtual.scheduler(), virtual.clock
    attempts = [says("a"), says("b"), [["lines", 120, 1, "c$i"]]]
    attempts[silent] = [["sleep", 1]]
    app_id = await scheduler.submit(app(*attempts), CFG)
    delays: list[float] = []
    seen: list[tuple[int | None, str]] = []

    async for line in scheduler.log_iter(app_id, should_tail=True):
        delays.append((clock.time_ns() - (line.ns or 0)) / 1e9)
        seen += told([line])

    assert [(1 - silent, "ba"[silent]), *((2, f"c{number}") for number in range(120))] == seen
    assert max(delays) < 16
    assert max(delays[30:]) < 1.5


async def test_an_attempt_that_never_writes_costs_no_calls_for_long(virtual: Virtual) -> None:
    async def queries(first: list[list[Any]]) -> int:
        scheduler = virtual.scheduler()
        before = virtual.cloud.traffic.calls["FilterLogEvents"]
        app_id = await scheduler.submit(app(first, [["lines", 60, 20, "b$i"]], count=2), CFG)
        lines = await read(scheduler, app_id, should_tail=True)
        assert {0: 60, 1: 60} == Counter(line.replica for line in lines if line.attempt == 1)
        return virtual.cloud.traffic.calls["FilterLogEvents"] - before

    assert await queries([["sleep", 1]]) - await queries(says("a")) < 60


async def test_a_line_that_is_found_too_late_is_told_by_a_gap(virtual: Virtual) -> None:
    virtual.cloud.pace.stop_children = 0.5
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(
        app(says("a"), says("b", late=30, then=0.2), [["lines", 60, 1, "c$i"]], count=2), CFG
    )
    strict = asyncio.create_task(read(scheduler, app_id, should_tail=True, gaps="raise"))

    lines = await read(scheduler, app_id, should_tail=True)

    for replica in range(2):
        found = told(lines, replica)
        assert (0, "a") == found.pop(0)
        place = found.index((1, "GAP"))
        assert [(1, "GAP"), (1, "b")] == found[place : place + 2]
        assert [(2, f"c{number}") for number in range(60)] == found[:place] + found[place + 2 :]
    assert "attempt 1" in next(line.gap.reason for line in lines if line.gap)
    with pytest.raises(LogStreamError):
        await strict


@pytest.mark.parametrize("when", [8, 100])
@pytest.mark.parametrize("query", [{}, {"tail_lines": 3}])
async def test_a_tail_that_begins_late_has_all_attempts_in_order(
    virtual: Virtual, when: float, query: dict[str, Any]
) -> None:
    scheduler, clock = virtual.scheduler(), virtual.clock
    steps: list[list[Any]] = [["lines", 5, 0.1, "$i"]]
    app_id = await scheduler.submit(app(steps, [["sleep", 1]], steps, [*steps, ["sleep", 200], *steps]), CFG)
    await clock.sleep(when)
    begun = clock.monotonic()
    stream = scheduler.log_iter(app_id, should_tail=True, **query)

    past = [await anext(stream) for _ in range(3 if query else 15)]
    taken = clock.monotonic() - begun
    rest = [line async for line in stream]

    assert taken < (20 if when < 60 else 2)
    assert [(3, str(number)) for number in range(5)] == told(rest)
    expected = [(attempt, str(number)) for attempt in (0, 2, 3) for number in range(5)]
    assert expected[-len(past) :] == told(past)
