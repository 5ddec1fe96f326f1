"""Nodes that write nothing, or late: they cost hardly a call, hold nobody up, and hide nothing."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from asyncsched.logs.line import LogLine
from asyncsched.schedulers.aws_batch import AWSBatchScheduler
from asyncsched.specs import AppDef
from tests.aws_batch.conftest import QUEUE, Virtual, script

CFG = {"queue": QUEUE}


def app(lines: int, silent: int) -> AppDef:
    """An app whose first node writes a line each second, while the others run and are silent."""
    quiet = script(["sleep", lines + 60], name="silent", num_replicas=silent)
    return AppDef("app", [script(["lines", lines, 1, "$i"], name="busy"), quiet])


async def read(scheduler: AWSBatchScheduler, app_id: str, *, should_tail: bool = False) -> list[LogLine]:
    return [line async for line in scheduler.log_iter(app_id, should_tail=should_tail)]


@pytest.mark.parametrize("silent", [1, 15, 250])
async def test_they_cost_as_good_as_no_calls_and_hold_nobody_up(virtual: Virtual, silent: int) -> None:
    scheduler, clock = virtual.scheduler(), virtual.clock
    app_id = await scheduler.submit(app(20, silent), CFG)
    delays: list[float] = []

    async for line in scheduler.log_iter(app_id, should_tail=True):
        assert line.ns is not None
        delays.append((clock.time_ns() - line.ns) / 1e9)
        last = clock.monotonic()

    assert 20 == len(delays)
    assert max(delays) < 3
    assert virtual.cloud.traffic.calls["FilterLogEvents"] <= 60
    assert clock.monotonic() - last < 12


@pytest.mark.parametrize("silent", [1, 11, 120])
@pytest.mark.parametrize("readers", [1, 3])
@pytest.mark.parametrize(("when", "least"), [(20, 18), (60, 40), (300, 40)])
async def test_what_the_others_have_written_is_read_while_they_run_and_after(
    virtual: Virtual, silent: int, readers: int, when: float, least: int
) -> None:
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(app(40, silent), CFG)
    await virtual.clock.sleep(when)

    found = await asyncio.gather(*(read(scheduler, app_id) for _ in range(readers)))

    for lines in found:
        assert [str(number) for number in range(len(lines))] == [line.text for line in lines]
        assert least <= len(lines) <= 40


async def test_several_may_tail_what_is_partly_silent(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(app(40, 11), CFG)

    async def late() -> list[LogLine]:
        await virtual.clock.sleep(25)
        return await read(scheduler, app_id, should_tail=True)

    found = await asyncio.gather(late(), *(read(scheduler, app_id, should_tail=True) for _ in range(3)))

    assert [[str(number) for number in range(40)]] * 4 == [[line.text for line in lines] for lines in found]


@pytest.mark.slow
@pytest.mark.guard(loop_step=False, reason="the emulator searches tens of thousands of lines in the same thread")
@pytest.mark.parametrize("tails", [True, False])
async def test_a_folder_with_too_much_to_search_is_asked_by_names(virtual: Virtual, *, tails: bool) -> None:
    """The streams of all runs of an app stand in one folder, and another run may write more than can be looked at."""
    scheduler, cloud = virtual.scheduler(), virtual.cloud
    steps = [["if_node", 5, [["sleep", 15], ["line", "late"]]], ["sleep", 60]]
    quiet = script(*steps, name="silent", num_replicas=9)
    app_id = await scheduler.submit(AppDef("app", [script(["lines", 40, 1, "$i"], name="busy"), quiet]), CFG)
    folder = f"{cloud.jobs[0].definition['jobDefinitionName']}/default"

    def flood() -> None:
        for _ in range(400):
            cloud.events.put("/aws/batch/job", f"{folder}/another", cloud.timeline.now_ms, "x", cloud.timeline.now_ms)

    for second in range(60):
        cloud.timeline.after(second, flood)
    if not tails:
        await virtual.clock.sleep(35)

    lines = await read(scheduler, app_id, should_tail=tails)

    count = Counter(line.role for line in lines)
    assert 1 == count["silent"]
    assert [str(number) for number in range(count["busy"])] == [line.text for line in lines if line.role == "busy"]
    assert (40 if tails else 33) <= count["busy"]


async def test_a_line_that_one_reader_finds_first_reaches_the_others(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    steps = [["if_node", 3, [["sleep", 20], ["line", "first"], ["sleep", 30], ["line", "second"]]], ["sleep", 60]]
    quiet = script(*steps, name="quiet", num_replicas=5)
    app_id = await scheduler.submit(AppDef("app", [script(["lines", 60, 1, "$i"], name="busy"), quiet]), CFG)
    tail = asyncio.create_task(read(scheduler, app_id, should_tail=True))
    for _ in range(30):
        await virtual.clock.sleep(1.7)
        await read(scheduler, app_id)

    assert ["first", "second"] == [line.text for line in await tail if line.role == "quiet"]


async def test_a_search_begins_anew_when_its_page_token_has_expired(virtual: Virtual) -> None:
    scheduler, events = virtual.scheduler(), virtual.cloud.events
    app_id = await scheduler.submit(app(20, 7), CFG)
    events.sparse = True  # each search has a second page
    for tenth in range(200):
        virtual.cloud.timeline.after(tenth / 10, events.expire_tokens)

    lines = await read(scheduler, app_id, should_tail=True)

    assert [str(number) for number in range(20)] == [line.text for line in lines]
