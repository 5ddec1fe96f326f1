"""Logs on virtual time: what calls they cost, and what may go wrong without a line being lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from asyncsched.errors import LogStreamError, PermissionDeniedError
from asyncsched.logs.line import LogLine
from asyncsched.schedulers.aws_batch import AWSBatchScheduler
from asyncsched.specs import AppDef
from tests.aws_batch.conftest import QUEUE, Virtual, script

CFG = {"queue": QUEUE}


def nodes(count: int, *steps: list[Any]) -> AppDef:
    """An app whose main node waits long enough for the others."""
    return AppDef("app", [script(*steps, num_replicas=count)])


async def tail(scheduler: AWSBatchScheduler, app_id: str, **query: object) -> list[LogLine]:
    return [line async for line in scheduler.log_iter(app_id, should_tail=True, **query)]  # type: ignore[arg-type] # any


@pytest.mark.parametrize(("count", "most"), [(8, 45), (16, 50)])
async def test_the_lines_of_many_nodes_cost_calls_by_the_hundred_streams(
    virtual: Virtual, count: int, most: int
) -> None:
    virtual.cloud.pace.ingest = 0.3
    virtual.cloud.pace.stop_children = 2.0
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(nodes(count, ["lines", 20, 0.5, "$AWS_BATCH_JOB_NODE_INDEX $i"]), CFG)
    before = virtual.calls

    lines = await tail(scheduler, app_id)

    assert {k: [f"{k} {i}" for i in range(20)] for k in range(count)} == {
        k: [line.text for line in lines if line.replica == k] for k in range(count)
    }
    filtered = virtual.cloud.traffic.calls["FilterLogEvents"]
    assert filtered <= most
    print(f"{count} nodes: {filtered} FilterLogEvents, {virtual.calls - before} calls in all")


async def test_sixteen_throttled_nodes_lose_no_line(virtual: Virtual) -> None:
    virtual.cloud.pace.ingest = 0.3
    virtual.cloud.pace.stop_children = 2.0
    virtual.cloud.traffic.throttle(
        GetLogEvents=(10, 10), FilterLogEvents=(5, 5), ListJobs=(10, 10), DescribeJobs=(10, 10)
    )
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(nodes(16, ["lines", 20, 0.5, "$i"]), CFG)

    lines = await tail(scheduler, app_id)

    assert dict.fromkeys(range(16), 20) == Counter(line.replica for line in lines)
    assert 0 == virtual.cloud.traffic.throttled.total()


async def test_a_throttled_half_minute_delays_lines_and_loses_none(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(nodes(3, ["lines", 60, 1, "$i"]), CFG)
    fault = virtual.cloud.traffic.fail("*", "throttle", times=0)
    virtual.cloud.timeline.after(10, lambda: setattr(fault, "times", 1_000_000))
    virtual.cloud.timeline.after(40, lambda: setattr(fault, "times", 0))

    lines = await tail(scheduler, app_id)

    assert [[str(i) for i in range(60)]] * 3 == [[x.text for x in lines if x.replica == k] for k in range(3)]


@pytest.mark.parametrize("kind", ["error", "unavailable", "cut", "garbage"])
async def test_a_service_that_fails_now_and_then_loses_no_line(virtual: Virtual, kind: str) -> None:
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(nodes(2, ["lines", 30, 1, "$i"]), CFG)
    fault = virtual.cloud.traffic.fail("*", kind, times=0)
    for second in range(3, 30, 3):
        virtual.cloud.timeline.after(second, lambda: setattr(fault, "times", 1_000_000))
        virtual.cloud.timeline.after(second + 1, lambda: setattr(fault, "times", 0))

    lines = await tail(scheduler, app_id)

    assert [[str(i) for i in range(30)]] * 2 == [[x.text for x in lines if x.replica == k] for k in range(2)]


async def test_a_stream_that_appears_late_holds_nobody_up(virtual: Virtual) -> None:
    """CloudWatch refuses a query for many streams because of one that has no line yet."""
    quiet = script(["sleep", 40], ["line", "at last"], ["sleep", 5], name="quiet")
    busy = script(["lines", 30, 1, "$i"], ["sleep", 60], name="busy", num_replicas=7)
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(AppDef("app", [quiet, busy]), CFG)
    arrived: dict[str, float] = {}

    async for line in scheduler.log_iter(app_id, should_tail=True):
        arrived[f"{line.role}/{line.replica} {line.text}"] = virtual.clock.time_ns() / 1e9 - (line.ns or 0) / 1e9

    assert 7 * 30 + 1 == len(arrived)
    assert max(delay for key, delay in arrived.items() if key.startswith("busy")) < 6
    assert arrived["quiet/0 at last"] < 8


@pytest.mark.slow
async def test_a_first_line_is_found_however_many_nodes_are_silent(virtual: Virtual) -> None:
    """Silent nodes are asked for a few at a time: when one is found, its first lines may be old."""
    busy = script(["lines", 150, 1, "$i"], name="busy")
    silent = script(["sleep", 20], *_if_node(77, ["line", "first"]), ["sleep", 120], name="silent", num_replicas=90)
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(AppDef("app", [busy, silent]), CFG)

    lines = await tail(scheduler, app_id)

    assert {"busy": 150, "silent": 1} == Counter(line.role for line in lines)
    assert [str(i) for i in range(150)] == [line.text for line in lines if line.role == "busy"]


def _if_node(index: int, *steps: list[Any]) -> list[list[object]]:
    return [["if_node", index, list(steps)]]


@pytest.mark.parametrize("stopped_after", [0.05, 0.5, 3.0])
async def test_what_a_node_wrote_before_the_end_of_the_main_node_stopped_it_is_shown(
    virtual: Virtual, stopped_after: float
) -> None:
    virtual.cloud.pace.stop_children = stopped_after
    scheduler = virtual.scheduler()
    counting = ["lines", 100, 0.01, "$AWS_BATCH_JOB_NODE_INDEX $i"]
    app_id = await scheduler.submit(nodes(2, *_if_node(1, counting, ["sleep", 60]), ["line", "end"]), CFG)

    shown = Counter((line.replica, line.text) for line in await tail(scheduler, app_id))

    (job,) = virtual.cloud.jobs
    streams = virtual.cloud.events.groups["/aws/batch/job"]
    stored = Counter(
        (node.index, event.message)
        for node in job.nodes.values()
        for attempt in node.attempts
        for event in streams.get(attempt.stream, ())
    )
    assert [0, 143] == [node.attempts[-1].exit_code for node in job.nodes.values()]
    assert stored == shown


async def test_lines_that_arrive_late_and_out_of_order_are_delivered_once(virtual: Virtual) -> None:
    steps = [step for i in range(40) for step in (["line", str(i), (i * 7) % 12], ["sleep", 0.5])]
    virtual.cloud.pace.stop_children = 14.0
    scheduler = virtual.scheduler(log_settle_polls=12)
    app_id = await scheduler.submit(nodes(6, *steps, ["sleep", 14]), CFG)

    lines = await tail(scheduler, app_id)

    assert [sorted(map(str, range(40)))] * 6 == [sorted(x.text for x in lines if x.replica == k) for k in range(6)]


async def test_equal_lines_of_one_moment_are_all_delivered(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(nodes(1, *[["line", "same"]] * 5, ["sleep", 3], ["line", "same"]), CFG)

    assert ["same"] * 6 == [line.text for line in await tail(scheduler, app_id)]


@pytest.mark.guard(loop_step=False, reason="the emulator writes thousands of lines in the same thread")
async def test_pages_may_be_empty_and_tokens_may_expire(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(nodes(2, ["lines", 3500, 0, "$i"]), CFG)
    await virtual.clock.sleep(5)
    virtual.cloud.events.sparse = True
    calls = virtual.cloud.traffic.calls
    stream = scheduler.log_iter(app_id)
    lines = [await anext(stream)]
    virtual.cloud.events.expire_tokens()
    lines += [line async for line in stream]

    assert [[str(i) for i in range(3500)]] * 2 == [[x.text for x in lines if x.replica == k] for k in range(2)]
    assert calls["FilterLogEvents"] >= 14


async def test_every_attempt_can_be_read(virtual: Virtual) -> None:
    app = nodes(2, ["line", "attempt $AWS_BATCH_JOB_ATTEMPT"], ["sleep", 2], ["exit", [1, 1, 0]])
    app.roles[0].max_retries = 2
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(app, CFG)

    followed = await tail(scheduler, app_id)
    read = [line async for line in scheduler.log_iter(app_id)]
    second = [line async for line in scheduler.log_iter(app_id, attempts=1, k=1)]

    expected = Counter({(k, n, f"attempt {n + 1}"): 1 for k in range(2) for n in range(3)})
    assert expected == Counter((line.replica, line.attempt, line.text) for line in followed)
    assert expected == Counter((line.replica, line.attempt, line.text) for line in read)
    assert [(1, 1, "attempt 2")] == [(line.replica, line.attempt, line.text) for line in second]


@pytest.mark.slow
@pytest.mark.guard(loop_step=False, reason="the emulator writes thousands of lines in the same thread")
async def test_a_slow_reader_stops_nobody_and_loses_nothing(virtual: Virtual) -> None:
    virtual.cloud.pace.stop_children = 30.0
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(nodes(2, ["lines", 6000, 0, "$i"], ["sleep", 20]), CFG)
    slow, fast = (scheduler.log_iter(app_id, should_tail=True) for _ in range(2))
    first = await anext(slow)

    quick = [line async for line in fast]
    rest = [line async for line in slow]

    assert 12_000 == len(quick) == len([first, *rest])
    assert [str(i) for i in range(6000)] == [line.text for line in (first, *rest) if line.replica == 0]


async def test_what_is_not_allowed_is_told_to_the_reader(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(nodes(1, ["line", "x"], ["sleep", 10]), CFG)
    virtual.cloud.traffic.fail("FilterLogEvents", "denied", times=1000)

    with pytest.raises(LogStreamError) as caught:
        await tail(scheduler, app_id)

    assert isinstance(caught.value.__cause__, PermissionDeniedError)
    assert "logs:FilterLogEvents" in str(caught.value)


async def test_another_driver_is_named(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    info = await scheduler.submit_dryrun(nodes(1, ["line", "x"], ["sleep", 10]), CFG)
    container = info.request.job_def["containerProperties"]
    assert isinstance(container, dict)
    container["logConfiguration"] = {"logDriver": "syslog"}
    app_id = await scheduler.schedule(info)

    with pytest.raises(NotImplementedError, match="syslog"):
        await tail(scheduler, app_id)


async def test_an_app_that_never_starts_ends_its_tail(virtual: Virtual) -> None:
    virtual.cloud.life.stuck[QUEUE] = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(nodes(4, ["line", "x"]), CFG)
    reading = asyncio.create_task(tail(scheduler, app_id))
    await virtual.clock.sleep(60)
    await scheduler.cancel(app_id)

    assert [] == await reading


async def test_lines_that_come_after_the_end_are_waited_for(virtual: Virtual) -> None:
    virtual.cloud.pace.ingest = 5.0
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(nodes(1, ["line", "early"], ["sleep", 6], ["line", "last words"]), CFG)

    assert ["early", "last words"] == [line.text for line in await tail(scheduler, app_id)]
    again = await scheduler.submit(nodes(1, ["line", "last words"]), CFG)
    async for event in scheduler.watch([again]):
        if event.is_terminal():
            break
    assert ["last words"] == [line.text async for line in scheduler.log_iter(again)]


@pytest.mark.slow
async def test_the_first_line_of_a_node_that_was_silent_until_the_end_is_found(virtual: Virtual) -> None:
    """Silent nodes are asked for a few at a time, and so most of them not in the last seconds."""
    busy = script(["lines", 60, 1, "$i"], name="busy")
    silent = script(["sleep", 59], *_if_node(77, ["line", "last words"]), ["sleep", 60], name="silent", num_replicas=90)
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(AppDef("app", [busy, silent]), CFG)

    lines = await tail(scheduler, app_id)

    assert {"busy": 60, "silent": 1} == Counter(line.role for line in lines)


@pytest.mark.parametrize("count", [1, 5])
async def test_a_stream_that_is_deleted_under_a_tail_is_a_gap_in_it(virtual: Virtual, count: int) -> None:
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(
        nodes(count, ["lines", 30, 1, "$i"], ["sleep", 30], ["lines", 20, 1, "$i"], ["sleep", 10]), CFG
    )
    gone: list[str] = []

    def delete() -> None:
        (job,) = virtual.cloud.batch.jobs.values()
        node = job.nodes[count - 1]
        assert node.current is not None
        gone.append(node.current.stream)
        virtual.cloud.events.delete("/aws/batch/job", gone[0])

    virtual.cloud.timeline.after(40.3, delete)
    readers = [asyncio.create_task(tail(scheduler, app_id)) for _ in range(2)]

    before, after = [str(i) for i in range(30)], [str(i) for i in range(20)]
    for lines in await asyncio.gather(*readers):
        (gap,) = [line.gap for line in lines if line.gap is not None]

        assert gone[0] in gap.reason
        assert gap.after is not None
        assert [[*before, *after]] * (count - 1) == [
            [x.text for x in lines if x.replica == k] for k in range(count - 1)
        ]
        # The driver makes it anew with the next line.
        assert [*before, "", *after] == [line.text for line in lines if line.replica == count - 1]


async def test_where_gaps_are_to_be_raised_a_deleted_stream_raises(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(nodes(1, ["lines", 10, 1, "$i"], ["sleep", 60]), CFG)
    virtual.cloud.timeline.after(30, virtual.cloud.events.groups["/aws/batch/job"].clear)

    with pytest.raises(LogStreamError, match="lines are missing"):
        await tail(scheduler, app_id, gaps="raise")


async def put_lines(virtual: Virtual, app_id: str, count: int) -> None:
    """Let a log be as long as that, without a program that takes its time to write it."""
    virtual.cloud.timeline.catch_up()
    (job,) = (job for job in virtual.cloud.jobs if app_id == f"{QUEUE}:{job.name}")
    for node in job.nodes.values():
        attempt = node.current or node.attempts[-1]
        for number in range(count):
            virtual.cloud.events.put("/aws/batch/job", attempt.stream, attempt.started + 100 * number, str(number), 0)
            if number % 200 == 0:
                await asyncio.sleep(0)


@pytest.mark.guard(loop_step=False, reason="the emulator searches tens of thousands of lines in the same thread")
@pytest.mark.parametrize(("count", "should_tail"), [(1, False), (1, True), (3, False)])
async def test_the_last_lines_of_a_long_log_cost_a_few_calls(virtual: Virtual, count: int, should_tail: bool) -> None:
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(nodes(count, ["sleep", 3000]), CFG)
    await virtual.clock.sleep(2500)
    await put_lines(virtual, app_id, 20_000)
    calls = virtual.cloud.traffic.calls
    stream = scheduler.log_iter(app_id, tail_lines=100, should_tail=should_tail)

    got = [await anext(stream) for _ in range(100 * count)]

    last = [str(number) for number in range(19_900, 20_000)]
    assert [last] * count == [[line.text for line in got if line.replica == k] for k in range(count)]
    assert calls["GetLogEvents"] == count
    assert calls["FilterLogEvents"] <= count + 2 * should_tail
    await stream.aclose()


@pytest.mark.parametrize("wanted", [0, 1, 7, 25, 1000])
async def test_the_last_lines_are_those_before_until_and_as_many_as_there_are(virtual: Virtual, wanted: int) -> None:
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(nodes(1, ["sleep", 100]), CFG)
    await virtual.clock.sleep(60)
    await put_lines(virtual, app_id, 50)
    virtual.cloud.events.sparse = True
    (events,) = virtual.cloud.events.groups["/aws/batch/job"].values()
    until = datetime.fromtimestamp(events[30].timestamp / 1000, UTC)

    lines = [line.text async for line in scheduler.log_iter(app_id, tail_lines=wanted, until=until)]

    assert [str(number) for number in range(max(0, 30 - wanted), 30)] == lines
