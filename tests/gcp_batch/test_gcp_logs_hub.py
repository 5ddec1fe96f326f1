"""Many logs through one query: nothing lost and nothing twice, within the quota, in time that does not pass."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsched.errors import SchedulerError, ThrottledError, UnavailableError
from asyncsched.logs.line import LogLine
from asyncsched.logs.query import LogQuery
from asyncsched.schedulers.gcp_batch.errors import read_failure, translate
from asyncsched.schedulers.gcp_batch.logs_budget import ReadBudget
from asyncsched.schedulers.gcp_batch.logs_entries import MAX_UIDS, EntryReader, query_of
from asyncsched.schedulers.gcp_batch.logs_hub import EntryHub, JobLog, LogTimes
from asyncsched.testing import VirtualClock
from tests.gcp_double.logs import LogStore
from tests.gcp_double.wire import Refusal

PROJECT = "proj-1"
Key = tuple[str, int, str]


class World:
    """A log store and a hub that reads it, on one clock."""

    def __init__(
        self,
        clock: VirtualClock,
        *,
        lag: Callable[[], float] = lambda: 0.0,
        quota: int | None = 60,
        times: LogTimes | None = None,
    ) -> None:
        self.clock = clock
        self.store = LogStore(PROJECT, now_ns=clock.time_ns, lag=lag, quota=quota)
        self.budget = ReadBudget(clock)
        self.failures: list[SchedulerError] = []
        self.hub = EntryHub(
            self.read, PROJECT, budget=self.budget, clock=clock, times=times or LogTimes(), retry_for=60.0
        )
        self.written: Counter[Key] = Counter()

    async def read(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        await self.clock.sleep(0.05)
        if self.failures:
            raise self.failures.pop()
        try:
            page = self.store.list_entries(dict(body))
        except Refusal as refusal:
            failure = read_failure(refusal.code, json.dumps(refusal.body).encode(), {})
            raise translate(failure, "entries.list") from failure
        await asyncio.sleep(0)  # the double's work is not done in a step of the hub's
        return page

    def write(self, uid: str, index: int, text: str, **more: Any) -> None:
        self.written[uid, index, text] += 1
        self.store.write(uid, index, text, **more)

    def source(self, uid: str, replicas: int = 1, *, settled: bool = False, **query: Any) -> JobLog:
        return JobLog(
            self.hub,
            uid,
            LogQuery(f"app {uid}", tail=not settled, **query),
            role="main",
            replicas=frozenset(range(replicas)),
            since_ns=0,
            settled=settled,
            settle=self.hub.times.settle,
            is_over=settled,
        )


async def drained(source: JobLog, clock: VirtualClock, *, pause: float = 0.0) -> list[LogLine]:
    """Read a source to its end."""
    wake = asyncio.Event()
    source.start(wake.set)
    lines: list[LogLine] = []
    while True:
        wake.clear()
        some = source.read(256)
        lines += some
        if len(some) < 256:
            if source.ended:
                break
            await wake.wait()
        if pause:
            await clock.sleep(pause)
    await source.aclose()
    return lines


def keys(uid: str, lines: list[LogLine]) -> Counter[Key]:
    return Counter((uid, line.replica, line.text) for line in lines)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    late=st.floats(0, 0.05),
    quota=st.sampled_from([None, 60, 30]),
    repeats=st.booleans(),
    jobs=st.integers(1, 4),
)
def test_nothing_is_lost_and_nothing_comes_twice(
    seed: int, late: float, quota: int | None, repeats: bool, jobs: int
) -> None:
    asyncio.run(_follow_all(seed, late, quota, jobs, repeats=repeats))


async def _follow_all(seed: int, late: float, quota: int | None, jobs: int, *, repeats: bool) -> None:
    """Follow jobs whose entries are read late and out of order, each within the window that is looked at again."""
    chance = random.Random(seed)

    def lag() -> float:
        return chance.uniform(2, 15) if chance.random() < late else min(chance.expovariate(1.0), 15.0)

    async with VirtualClock() as clock:
        world = World(clock, lag=lag, quota=quota)
        world.store.repeats_pages = repeats
        uids = [f"job-{number}" for number in range(jobs)]
        sources = [world.source(uid, 12) for uid in uids]
        reading = [asyncio.create_task(drained(source, clock)) for source in sources]
        for number in range(60):
            for uid in uids:
                for _ in range(chance.randrange(4)):
                    world.write(uid, chance.randrange(12), f"line {number} {chance.random()}")
            await clock.sleep(chance.uniform(0.1, 1.5))
        for source in sources:
            source.finish()
        read = sum(
            (keys(uid, lines) for uid, lines in zip(uids, await asyncio.gather(*reading), strict=True)), Counter()
        )

    assert world.written == read
    assert world.store.refusals <= jobs + 1  # those that were on their way when the quota was learned


async def test_three_jobs_of_a_thousand_tasks_are_followed_within_the_quota(clock: VirtualClock) -> None:
    chance = random.Random(7)
    world = World(clock, lag=lambda: min(chance.expovariate(1.0), 15.0), quota=60)
    uids = ["a", "b", "c"]
    sources = [world.source(uid, 1000) for uid in uids]
    reading = [asyncio.create_task(drained(source, clock)) for source in sources]
    for second in range(20):
        for uid in uids:
            for _ in range(70):
                world.write(uid, chance.randrange(1000), f"{second} {chance.random()}")
        await clock.sleep(1)
    for source in sources:
        source.finish()
    found = await asyncio.gather(*reading)

    assert world.written == sum((keys(uid, lines) for uid, lines in zip(uids, found, strict=True)), Counter())
    assert 0 == world.store.refusals


async def test_a_smaller_quota_is_learned_from_the_refusal(clock: VirtualClock) -> None:
    world = World(clock, quota=10)
    source = world.source("job")
    reading = asyncio.create_task(drained(source, clock))
    for number in range(240):
        world.write("job", 0, f"line {number}")
        await clock.sleep(1)
    source.finish()

    assert [f"line {number}" for number in range(240)] == [line.text for line in await reading]
    assert 10 == world.budget.limit
    assert 1 == world.store.refusals


async def test_a_replicas_lines_come_in_their_order_where_entries_are_late(clock: VirtualClock) -> None:
    chance = random.Random(3)
    world = World(clock, lag=lambda: chance.uniform(0, 2.9), quota=None)
    source = world.source("job")
    reading = asyncio.create_task(drained(source, clock))
    for number in range(300):
        world.write("job", 0, f"line {number}")
        await clock.sleep(0.1)
    source.finish()

    assert [f"line {number}" for number in range(300)] == [line.text for line in await reading]


async def test_a_line_that_is_later_than_the_window_is_found_by_the_last_look(clock: VirtualClock) -> None:
    lags = iter([0.0, 60.0, 0.0])
    world = World(clock, lag=lambda: next(lags))
    source = world.source("job")
    reading = asyncio.create_task(drained(source, clock))
    for text in ("first", "late", "last"):
        world.write("job", 0, text)
        await clock.sleep(15)
    await clock.sleep(30)
    source.finish()

    assert ["first", "last", "late"] == [line.text for line in await reading]


async def test_a_reader_that_stalls_is_parked_and_loses_nothing(clock: VirtualClock) -> None:
    world = World(clock, quota=None)
    slow, quick = world.source("job"), world.source("job")
    reading = [
        asyncio.create_task(drained(slow, clock, pause=3.0)),
        asyncio.create_task(drained(quick, clock)),
    ]
    for batch in range(12):
        for number in range(500):
            world.write("job", 0, f"line {batch} {number}")
        await clock.sleep(1)
    slow.finish()
    quick.finish()
    first, second = await asyncio.gather(*reading)

    assert world.written == keys("job", first) == keys("job", second)


async def test_failures_and_empty_pages_lose_nothing(clock: VirtualClock) -> None:
    world = World(clock)
    world.failures = [UnavailableError("gone"), ThrottledError("too many", retry_after=5.0)]
    world.store.empty_pages = 3
    source = world.source("job")
    reading = asyncio.create_task(drained(source, clock))
    for number in range(30):
        world.write("job", 0, f"line {number}")
        await clock.sleep(1)
    source.finish()

    assert world.written == keys("job", await reading)


async def test_a_hub_asks_for_nothing_when_nobody_reads(clock: VirtualClock) -> None:
    world = World(clock)
    source = world.source("job")
    source.start(lambda: None)
    await clock.sleep(5)
    await source.aclose()
    before = world.store.reads
    await clock.sleep(60)

    assert before == world.store.reads
    assert (0, 0) == (world.hub.statistics().keys, world.hub.statistics().sources)


async def test_one_replica_is_asked_for_by_its_whole_number(clock: VirtualClock) -> None:
    world = World(clock)
    for index in range(12):
        world.write("job", index, f"of {index}")
    source = JobLog(
        world.hub,
        "job",
        LogQuery("app"),
        role="main",
        replicas=frozenset({1}),
        since_ns=0,
        settled=True,
        settle=0.0,
        is_over=True,
    )

    assert ["of 1"] == [line.text for line in await drained(source, clock)]
    found = world.store.list_entries(query_of(PROJECT, ["job"], since_ns=0, replica=1))["entries"]
    assert ["of 1"] == [entry["textPayload"] for entry in found]  # what Google sends, and not what is left of it


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"message": "said", "severity": "ERROR"}', "said"),
        ('{"loss": 0.5, "step": 3}', '{"loss":0.5,"step":3.0}'),
        ("{not json", "{not json"),
        ("two\nlines", "two|lines"),
        ("", ""),
    ],
)
def test_an_entry_becomes_the_line_that_was_written(text: str, line: str) -> None:
    store = LogStore(PROJECT, now_ns=lambda: 1_700_000_000_123_456_789)
    store.write("job", 7, text, attempt=2)
    store.check_answers()
    reader = EntryReader()
    reader.jobs["job"] = "app", "main"
    events = reader.read(store.list_entries(query_of(PROJECT, ["job"], since_ns=0))["entries"])

    assert line.replace("3.0", "3") == "|".join(event.line.text for event in events).replace("3.0", "3")
    assert {("main", 7, 2)} == {(event.line.role, event.line.replica, event.line.attempt) for event in events}
    assert {1_700_000_000_123_456_789} == {event.line.ns for event in events}


def test_a_query_for_as_many_jobs_as_it_takes_is_not_too_long() -> None:
    uids = ["j" * 63 for _ in range(MAX_UIDS)]

    assert len(query_of("p" * 30, uids, since_ns=0, until_ns=10**18)["filter"]) < 20_000
