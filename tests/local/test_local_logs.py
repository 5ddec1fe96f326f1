"""A replica's log as a source of the engine, on both loops, followed by inotify and by polling."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from asyncsched.logs import LogLine, LogOrigin, LogStream
from asyncsched.logs.inotify import Follower
from asyncsched.schedulers.local.supervisor.formats import STDERR, STDOUT
from asyncsched.specs.state import AppState, ReplicaStatus
from asyncsched.specs.stream import Stream
from asyncsched.testing.clock import VirtualClock
from tests._support import WITHIN, eventually
from tests.local._log import ORIGIN, Log, elsewhere, replica_log
from tests.logs._fakes import drain, stream_of
from tests.logs._inotify import MAKERS, open_files


@pytest.fixture(params=MAKERS)
def follower(request: pytest.FixtureRequest) -> Follower:
    return Follower(inotify=MAKERS[request.param])


async def take(stream: LogStream, count: int) -> list[LogLine]:
    async with asyncio.timeout(WITHIN):
        return [await anext(stream) for _ in range(count)]


async def test_a_log_is_followed_to_its_last_record(follower: Follower, log: Log, place: Path) -> None:
    log.out(b"old\n")
    async with stream_of(replica_log(place, follower, tail=True), tail=True) as stream:
        assert ["old\n"] == await take(stream, 1)
        for number in range(3):
            log.out(b"new %d\n" % number)
            log.err(b"error %d\n" % number)
            assert [f"new {number}\n", f"error {number}\n"] == await take(stream, 2)
        log.out(b"last")
        log.end()

        assert ["last"] == await drain(stream)


async def test_it_is_followed_from_segment_to_segment(follower: Follower, log: Log, place: Path) -> None:
    async with stream_of(replica_log(place, follower, tail=True), tail=True) as stream:
        for number in range(5):
            log.out(b"line %d\n" % number)
            assert [f"line {number}\n"] == await take(stream, 1)
            log.rotate()
        log.end()

        assert [] == await drain(stream)


async def test_the_present_end_comes_at_once(follower: Follower, log: Log, place: Path) -> None:
    log.out(b"one\ntwo")

    assert ["one\n", "two"] == await drain(stream_of(replica_log(place, follower)))


async def test_finish_ends_a_log_without_a_last_record(follower: Follower, log: Log, place: Path) -> None:
    source = replica_log(place, follower, tail=True)
    async with stream_of(source, tail=True) as stream:
        log.out(b"one\nhalf")
        assert ["one\n"] == await take(stream, 1)
        source.finish()

        assert ["half"] == await drain(stream)


async def test_a_log_that_begins_later_is_waited_for(follower: Follower, place: Path) -> None:
    source = replica_log(place, follower, tail=True)
    async with stream_of(source, tail=True) as stream:
        step = asyncio.create_task(take(stream, 1))
        await eventually(lambda: stream.statistics().live == 1)
        log = Log(place)
        log.out(b"one\n")
        source.observe(ReplicaStatus(id=0, state=AppState.RUNNING, role="worker", hostname=""))
        assert ["one\n"] == await step
        log.close()
        source.finish()

        assert [] == await drain(stream)


async def test_an_index_that_appears_in_its_directory_is_found(follower: Follower, place: Path) -> None:
    place.mkdir()
    async with stream_of(replica_log(place, follower, tail=True), tail=True) as stream:
        step = asyncio.create_task(take(stream, 1))
        await eventually(lambda: stream.statistics().live == 1)
        log = Log(place)
        log.out(b"one\n")
        log.end()
        assert ["one\n"] == await step
        log.close()

        assert [] == await drain(stream)


async def test_a_log_that_never_begins_ends_at_finish(follower: Follower, place: Path) -> None:
    source = replica_log(place, follower, tail=True)
    async with stream_of(source, tail=True) as stream:
        step = asyncio.create_task(drain(stream))
        await eventually(lambda: stream.statistics().live == 1)
        source.finish()

        assert [] == await step


async def test_the_last_lines_come_first_and_then_all_that_follow(follower: Follower, log: Log, place: Path) -> None:
    log.out(*(b"old %d\n" % number for number in range(1000)))
    source = replica_log(place, follower, tail=True, tail_lines=2)
    async with stream_of(source, tail=True, tail_lines=2) as stream:
        assert ["old 998\n", "old 999\n"] == await take(stream, 2)
        log.out(*(b"new %d\n" % number for number in range(10)))
        log.end()

        assert [f"new {number}\n" for number in range(10)] == await drain(stream)


async def test_no_lines_of_the_past_are_wanted(follower: Follower, log: Log, place: Path) -> None:
    log.out(b"old\n" * 5000)
    source = replica_log(place, follower, tail=True, tail_lines=0)
    async with stream_of(source, tail=True, tail_lines=0) as stream:
        step = asyncio.create_task(take(stream, 1))
        await eventually(lambda: source._cursor.begun and not source.backlog)
        log.out(b"new\n")

        assert ["new\n"] == await step


async def test_since_and_until_select_exactly(follower: Follower, log: Log, place: Path) -> None:
    log.out(*(b"%d\n%d and a half\n" % (number, number) for number in range(20)))
    log.restamp([number * 100 for number in range(20)])
    got = await drain(stream_of(replica_log(place, follower, since_ns=300, until_ns=500), since_ns=300, until_ns=500))

    assert ["3\n", "3 and a half\n", "4\n", "4 and a half\n"] == got


async def test_a_progress_bar_is_seen_although_it_never_rests(log: Log, place: Path) -> None:
    clock = VirtualClock()
    follower = Follower(clock=clock)
    source = replica_log(place, follower, clock=clock, tail=True)
    async with stream_of(source, tail=True) as stream:
        got: list[str] = []
        reading = asyncio.create_task(drain(stream, got))  # type: ignore[arg-type]  # lines are strings
        for step in range(20):
            log.out(b"\r%d %%" % step)
            await eventually(lambda: source._reader.holds or got)
            await clock.advance(0.05)
        assert 9 <= len(got) <= 11
        assert "".join(f"\r{step} %" for step in range(18)) in "".join(got) + "\r18 %\r19 %"
        log.out(b" prompt> ")
        log.end()
        await reading

    assert "".join(f"\r{step} %" for step in range(20)) + " prompt> " == "".join(got)


async def test_a_prompt_is_held_until_its_newline(log: Log, place: Path) -> None:
    clock = VirtualClock()
    source = replica_log(place, Follower(clock=clock), clock=clock, tail=True)
    async with stream_of(source, tail=True) as stream:
        log.out(b"name: ")
        step = asyncio.create_task(take(stream, 1))
        await eventually(lambda: source._reader.holds)
        await clock.advance(5)
        assert not step.done()
        log.out(b"x\n")

        assert ["name: x\n"] == await step


async def test_lines_know_who_wrote_them_and_when(follower: Follower, log: Log, place: Path) -> None:
    before = time.time_ns()
    log.out(b"out\n")
    log.err(b"err\n")
    origin = LogOrigin(app_id="app", role="trainer", replica=7, attempt=2)
    got = await drain(stream_of(replica_log(place, follower, origin=origin)))

    assert [("trainer", 7, 2, "stdout"), ("trainer", 7, 2, "stderr")] == [
        (line.role, line.replica, line.attempt, line.stream.value) for line in got
    ]
    assert all(before <= line.ns <= time.time_ns() for line in got if line.ns is not None)
    assert all(isinstance(line.timestamp, datetime) and line.timestamp.tzinfo is UTC for line in got)


async def test_a_stalled_reader_of_a_dropped_log_is_told_of_the_hole(follower: Follower, log: Log, place: Path) -> None:
    source = replica_log(place, follower, tail=True)
    async with stream_of(source, tail=True) as stream:
        log.out(b"first\n")
        assert ["first\n"] == await take(stream, 1)
        source._cursor._files.release()  # as when others need the descriptors: nobody keeps a dropped file open
        for number in range(5):
            log.out(b"%d\n" % number)
            log.rotate()
            log.drop_oldest()
        log.out(b"last\n")
        log.end()
        gap, last = await drain(stream)
        assert stream.statistics().gaps == 1

    assert gap.gap is not None
    assert "last\n" == last


async def test_what_cannot_be_read_breaks_off_by_name(log: Log, place: Path) -> None:
    log.out(b"one\n")
    async with stream_of(replica_log(place, Follower(), tail=True), tail=True) as stream:
        await take(stream, 1)
        os.truncate(place / "index", 0)
        with pytest.raises(Exception, match="worker/0") as caught:
            await drain(stream)

    assert "shorter" in str(caught.value)


async def test_many_tails_hold_few_descriptors(follower: Follower, tmp_path: Path) -> None:
    follower.open_files.most = 5
    logs = [Log(tmp_path / str(number)) for number in range(30)]
    before = len(open_files())
    origins = [LogOrigin(app_id="app", role="worker", replica=number) for number in range(30)]
    sources = [replica_log(log.place, follower, origin=o, tail=True) for log, o in zip(logs, origins, strict=True)]
    async with stream_of(*sources, tail=True) as stream:
        for _ in range(3):
            elsewhere(lambda: [log.segments.add(kind, b"tick\n") for log in logs for kind in (STDOUT, STDERR)])
            got = await take(stream, 60)
            assert {(number, kind) for number in range(30) for kind in ("stdout", "stderr")} == {
                (line.replica, line.stream.value) for line in got
            }
            # The instance, or one for each that looks; and the files of those that have read last.
            assert len(open_files()) - before <= 1 + 5 + 3 * 5
    for log in logs:
        log.close()


async def test_a_flood_is_read_whole_and_in_order(follower: Follower, log: Log, place: Path) -> None:
    async def write() -> None:
        for start in range(0, 20_000, 100):
            log.out(b"".join(b"%d\n" % number for number in range(start, start + 100)))
            log.err(b"%d\n" % start)
            if start % 5000 == 4900:
                log.rotate()
            await asyncio.sleep(0)
        log.end()

    async with asyncio.TaskGroup() as group:
        group.create_task(write())
        got = await drain(stream_of(replica_log(place, follower, tail=True), tail=True))

    assert [f"{n}\n" for n in range(20_000)] == [line for line in got if line.stream.value == "stdout"]
    assert [f"{n}\n" for n in range(0, 20_000, 100)] == [line for line in got if line.stream.value == "stderr"]


async def test_closing_lets_go_of_everything(follower: Follower, log: Log, place: Path) -> None:
    log.out(b"one\nhalf\r")
    source = replica_log(place, follower, tail=True)
    stream = stream_of(source, tail=True)
    await take(stream, 1)
    await stream.aclose()
    log.out(b"two\n")

    assert source.ended
    assert "0 files" in repr(follower)
    assert ORIGIN.role == source.role


async def test_a_stream_that_nobody_wants_is_passed_in_short_steps(follower: Follower, log: Log, place: Path) -> None:
    log.out(*[b"out\n"] * 20_000)
    log.err(b"err\n")
    log.end()

    assert ["err\n"] == await drain(stream_of(replica_log(place, follower, tail=True, streams=Stream.STDERR)))


async def test_what_was_read_before_a_failure_is_delivered(follower: Follower, log: Log, place: Path) -> None:
    log.out(b"one\ntwo\n")
    log.err(b"error\n")
    log.output(STDERR).unlink()
    os.mkfifo(log.output(STDERR))
    got: list[LogLine] = []
    with pytest.raises(Exception, match="not a regular file"):
        await drain(stream_of(replica_log(place, follower)), got)

    assert ["one\n", "two\n"] == got
