"""A source over connections that break."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsched._typing import override
from asyncsched.errors import AuthError, LogStreamError, UnavailableError
from asyncsched.logs import LogLine, Resume
from asyncsched.specs.state import AppState, ReplicaStatus
from asyncsched.testing import VirtualClock
from tests._support import eventually
from tests.logs._fakes import SECOND, T0, StampedLog, StampedSource, drain, label, origin, stream_of


def texts(lines: Sequence[LogLine]) -> list[str]:
    return [line.text for line in lines]


async def test_a_log_is_read_to_its_present_end(clock: VirtualClock) -> None:
    log = StampedLog()
    for number in range(1000):
        log.write(f"{number}")
    got = await drain(stream_of(StampedSource(log, clock)))

    assert [str(number) for number in range(1000)] == texts(got)
    assert [(None, False)] == log.asked


@pytest.mark.parametrize("cut", range(0, 90, 7))
async def test_a_connection_cut_at_any_byte_is_resumed(clock: VirtualClock, cut: int) -> None:
    log = StampedLog()
    log.chunk = 16
    for number in range(40):
        log.write(f"{number}", T0 + number * SECOND // 3)
    log.cuts = [cut, cut + 1, None]
    got = await drain(stream_of(StampedSource(log, clock)))

    assert [str(number) for number in range(40)] == texts(got)
    assert 3 == len(log.asked)


async def test_a_reader_that_is_cancelled_as_its_connection_fails_leaves_no_error_behind(clock: VirtualClock) -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    log = StampedLog()
    log.exists = False
    source = StampedSource(log, clock)
    reader = asyncio.create_task(source._read_in_child(None))
    await asyncio.sleep(0)
    assert source._reading is not None
    source._reading.add_done_callback(lambda _: reader.cancel())
    with pytest.raises(asyncio.CancelledError):
        await reader
    gc.collect()
    assert [] == told


async def test_rates_above_the_ring_and_many_cuts(clock: VirtualClock) -> None:
    log = StampedLog()
    for number in range(3000):
        log.write("same" if number % 3 else f"{number}", T0 + number * 1000)
    log.cuts = [7_000 * n for n in range(1, 20)]
    got = await drain(stream_of(StampedSource(log, clock, resume=Resume(size=16), buffer_bytes=4096)))

    assert [text for _, _, text in log.records] == texts(got)


async def test_it_follows_until_the_service_says_that_it_is_over(clock: VirtualClock) -> None:
    log = StampedLog()
    source = StampedSource(log, clock, follow=True)
    stream = stream_of(source)
    for number in range(5):
        log.write(f"{number}", T0 + number * SECOND)

        assert f"{number}" == (await anext(stream)).text
        log.cut()
    log.write("last", T0 + 9 * SECOND)
    log.end()
    source.finish()

    assert ["last"] == texts(await drain(stream))


async def test_finish_ends_a_connection_that_stays_open(clock: VirtualClock) -> None:
    log = StampedLog()
    log.write("a")
    source = StampedSource(log, clock, follow=True)
    stream = stream_of(source)

    assert "a" == (await anext(stream)).text
    log.write("b")
    source.finish()

    assert ["b"] == texts(await drain(stream))
    assert not log.asked[-1][1]
    assert 0 == log.open


async def test_finish_loses_nothing_while_the_service_is_away(clock: VirtualClock) -> None:
    log = StampedLog()
    log.write("a")
    source = StampedSource(log, clock, follow=True)
    stream = stream_of(source)

    assert "a" == (await anext(stream)).text
    log.cuts = [0, 0, 0, None]
    log.cut()
    log.write("b")
    source.finish()

    assert ["b"] == texts(await drain(stream))


async def test_a_replica_that_has_not_started_is_waited_for(clock: VirtualClock) -> None:
    log = StampedLog()
    log.exists = False
    source = StampedSource(log, clock, follow=True)
    stream = stream_of(source)
    step = asyncio.ensure_future(anext(stream))
    for _ in range(3):
        source.observe(ReplicaStatus(id=0, state=AppState.PENDING, role="worker", hostname=""))
        await clock.sleep(1)

    assert not step.done()
    log.exists = True
    log.write("hello")
    source.observe(ReplicaStatus(id=0, state=AppState.RUNNING, role="worker", hostname=""))

    assert "hello" == (await step).text
    log.end()
    source.finish()

    assert [] == await drain(stream)


async def test_a_replica_that_never_starts_ends(clock: VirtualClock) -> None:
    log = StampedLog()
    log.exists = False
    source = StampedSource(log, clock, follow=True)
    source.finish()

    assert [] == await drain(stream_of(source))


async def test_a_service_that_stays_away_fails_the_source_after_its_time(clock: VirtualClock) -> None:
    log = StampedLog()
    log.write("a")
    source = StampedSource(log, clock, follow=True, retry_for=30)
    stream = stream_of(source)

    assert "a" == (await anext(stream)).text
    log.cuts = [0] * 1000
    log.cut()
    began = clock.monotonic()
    with pytest.raises(LogStreamError) as caught:
        await anext(stream)

    assert isinstance(caught.value.failures[0].cause, UnavailableError)
    assert 30 <= clock.monotonic() - began <= 45
    assert len(log.asked) <= 15


async def test_quiet_connections_that_are_cut_now_and_then_do_not_fail(clock: VirtualClock) -> None:
    log = StampedLog()
    source = StampedSource(log, clock, follow=True, retry_for=30)
    stream = stream_of(source)
    step = asyncio.ensure_future(anext(stream))
    for _ in range(20):
        await clock.sleep(20)
        log.cut()
    await clock.sleep(20)
    log.write("at last")

    assert "at last" == (await step).text
    await stream.aclose()


async def test_an_error_that_will_not_pass_fails_it_at_once_but_behind_its_lines(clock: VirtualClock) -> None:
    class Refused(StampedSource):
        async def connect(self, since_ns: int | None) -> AsyncGenerator[bytes]:
            yield b"1 stdout a\n"
            raise AuthError("no")

    stream = stream_of(Refused(StampedLog(), clock, follow=True))

    assert "a" == (await anext(stream)).text
    with pytest.raises(LogStreamError, match="no") as caught:
        await anext(stream)
    assert isinstance(caught.value.__cause__, AuthError)


async def test_what_the_service_has_dropped_is_told_where_it_stood(clock: VirtualClock) -> None:
    log = StampedLog()
    log.write("a", T0)
    log.write("b", T0 + SECOND)
    stream = stream_of(StampedSource(log, clock, follow=True))

    assert ["a", "b"] == [(await anext(stream)).text for _ in range(2)]
    log.purged = 3
    log.write("lost", T0 + 2 * SECOND)
    log.write("c", T0 + 60 * SECOND)
    log.cut()
    gap = await anext(stream)

    assert gap.gap is not None
    assert "" == gap.text
    assert gap.gap.after is not None
    assert gap.gap.before is not None
    assert 59 == (gap.gap.before - gap.gap.after).total_seconds()
    assert "c" == (await anext(stream)).text
    assert 1 == stream.statistics().gaps
    await stream.aclose()


async def test_a_log_that_is_gone_at_its_end_is_told(clock: VirtualClock) -> None:
    log = StampedLog()
    log.write("a")
    source = StampedSource(log, clock, follow=True)
    stream = stream_of(source)
    await anext(stream)
    log.purged = 1
    log.cut()
    log.end()
    source.finish()
    rest = await drain(stream)

    assert 1 == len(rest)
    assert rest[0].gap is not None


async def test_a_reader_that_stalls_stops_the_service(clock: VirtualClock) -> None:
    log = StampedLog()
    for number in range(20_000):
        log.write(f"{number} {'x' * 40}")
    source = StampedSource(log, clock, buffer_bytes=10_000)
    stream = stream_of(source)
    await anext(stream)
    for _ in range(100):
        await asyncio.sleep(0)

    assert source._held <= 10_000 + log.chunk
    rest = await drain(stream)

    assert 19_999 == len(rest)
    assert rest[-1].startswith("19999 ")


async def test_a_connection_that_always_has_more_gives_the_loop_its_turns(clock: VirtualClock) -> None:
    taken: Counter[int] = Counter()  # chunks, by the iteration of the loop
    iteration = 0

    async def count() -> None:
        nonlocal iteration
        while True:
            iteration += 1
            await asyncio.sleep(0)

    class Tiny(StampedSource):
        @override
        async def connect(self, since_ns: int | None) -> AsyncGenerator[bytes]:
            for _ in range(5_000):
                taken[iteration] += 1
                yield b"."

    counting = asyncio.create_task(count())
    await drain(stream_of(Tiny(StampedLog(), clock)))
    counting.cancel()

    assert 5_000 == taken.total()
    assert max(taken.values()) <= 64


class Raw(StampedSource):
    """Sends chunks as they stand, with pauses between them."""

    def __init__(self, clock: VirtualClock, *chunks: bytes, pause: float) -> None:
        super().__init__(StampedLog(), clock)
        self._sent, self._pause_between = chunks, pause

    def parse(self, data: bytes) -> Sequence[LogLine]:
        return label(self._splitter.feed(data), origin(), None)

    @property
    def holding(self) -> bool:
        return self._splitter.held > 0

    def progress(self) -> Sequence[LogLine]:
        return label(self._splitter.progress(), origin(), None)

    def flush(self) -> Sequence[LogLine]:
        return label(self._splitter.flush(), origin(), None)

    async def connect(self, since_ns: int | None) -> AsyncGenerator[bytes]:
        for chunk in self._sent:
            yield chunk
            await self._clock.sleep(self._pause_between)


async def test_progress_is_handed_on_after_a_tenth_of_a_second(clock: VirtualClock) -> None:
    stream = stream_of(Raw(clock, b"10 %\r20 %\r", b"done\nno newline", pause=0.15))
    began = clock.monotonic()

    assert "10 %\r20 %\r" == await anext(stream)
    assert 0.1 == pytest.approx(clock.monotonic() - began)
    assert ["done\n", "no newline"] == await drain(stream)


async def test_progress_is_seen_although_it_never_rests(clock: VirtualClock) -> None:
    bar = [b"%d %%\r" % step for step in range(40)]
    got = await drain(stream_of(Raw(clock, *bar, b"done\n", pause=0.03)))

    assert b"".join(bar) + b"done\n" == "".join(got).encode()
    assert 9 <= len(got) <= 14


async def test_a_line_that_begins_after_another_is_held_for_its_own_tenth_of_a_second(clock: VirtualClock) -> None:
    got = await drain(stream_of(Raw(clock, b"1 %\r", b"2 %\nnext\r", b"\n", pause=0.08)))

    assert ["1 %\r2 %\n", "next\r\n"] == got


async def test_a_backend_that_fails_in_parse_fails_its_source_only(clock: VirtualClock) -> None:
    class Broken(StampedSource):
        def parse(self, data: bytes) -> Sequence[LogLine]:
            raise KeyError("what")

    good, bad = StampedLog(), StampedLog()
    for number in range(10):
        good.write(f"{number}")
        bad.write(f"{number}")
    stream = stream_of(Broken(bad, clock, replica=1), StampedSource(good, clock))
    got: list[LogLine] = []
    with pytest.raises(LogStreamError) as caught:
        await drain(stream, got)

    assert 10 == len(got)
    assert [1] == [failure.replica for failure in caught.value.failures]


async def test_leaving_closes_the_connection() -> None:
    log = StampedLog()
    log.write("a")
    async with VirtualClock() as clock:
        stream = stream_of(StampedSource(log, clock, follow=True))
        await anext(stream)

        assert 1 == log.open
        del stream
        await eventually(lambda: log.open == 0)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([0, 1, SECOND // 3, 3 * SECOND]), st.text("ab\r", max_size=6)), max_size=60),
    st.lists(st.integers(0, 900), max_size=10),
    st.integers(1, 100),
    st.integers(1, 32),
)
def test_any_cuts_any_chunks_any_ring(written: list[tuple[int, str]], cuts: list[int], chunk: int, ring: int) -> None:
    async def run() -> list[LogLine]:
        log, now = StampedLog(), T0
        for step, text in written:
            now += step
            log.write(text, now)
        log.cuts, log.chunk = [*cuts], chunk
        async with VirtualClock() as clock:
            return await drain(stream_of(StampedSource(log, clock, resume=Resume(ring), retry_for=1e6)))

    assert [f"{text}\n" for _, text in written] == asyncio.run(run())
