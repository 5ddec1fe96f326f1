"""One query for many streams: nothing lost, nothing repeated, whoever comes, stalls, and goes."""

from __future__ import annotations

import asyncio
import contextvars
from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsched.errors import AuthError, LogStreamError, ThrottledError, UnavailableError
from asyncsched.logs import HubEvent, LogLine
from asyncsched.testing import VirtualClock
from tests._support import eventually
from tests.logs._fakes import SECOND, EventHub, EventService, drain, stream_of


@pytest.fixture
def service(clock: VirtualClock) -> EventService:
    return EventService(clock)


def texts(lines: Sequence[LogLine]) -> list[str]:
    return [line.text for line in lines]


async def test_without_tail_it_ends_at_the_present_end(service: EventService) -> None:
    for number in range(120):
        service.write("0", f"{number}")
    service.write("1", "not mine")
    hub = EventHub(service)
    got = await drain(stream_of(hub.source(["0"])))

    assert [str(number) for number in range(120)] == texts(got)
    assert 0 == hub.statistics().rounds


async def test_since_is_where_it_begins(service: EventService) -> None:
    begin = service.clock.time_ns()
    for number in range(10):
        service.write("0", f"{number}", ns=begin + number)
    got = await drain(stream_of(EventHub(service).source(["0"], since_ns=begin + 7)))

    assert ["7", "8", "9"] == texts(got)
    assert {begin + 7} <= {since for _, since in service.calls if since is not None}


async def test_many_tails_share_one_query(service: EventService, clock: VirtualClock) -> None:
    hub = EventHub(service)
    sources = [hub.source([f"{key}"], tail=True, replica=key) for key in range(50)]
    streams = [stream_of(source) for source in sources]
    readers = [asyncio.create_task(drain(stream)) for stream in streams]
    await clock.sleep(1)
    before = len(service.calls)
    for turn in range(20):
        for key in range(50):
            service.write(f"{key}", f"{turn}", delay=key % 3)
        await clock.sleep(1)
    calls = len(service.calls) - before
    for source in sources:
        source.finish()
    got = await asyncio.gather(*readers)

    assert [[str(turn) for turn in range(20)]] * 50 == [texts(lines) for lines in got]
    assert calls <= 45
    assert 0 == hub.statistics().sources


async def test_lines_that_become_visible_late_come_once(service: EventService, clock: VirtualClock) -> None:
    hub = EventHub(service)
    source = hub.source(["0", "1"], tail=True)
    reader = asyncio.create_task(drain(stream_of(source)))
    for number in range(60):
        service.write(f"{number % 2}", f"{number}", delay=(number * 7) % 15)
        await clock.sleep(1)
    await clock.sleep(20)
    source.finish()

    assert sorted(map(str, range(60))) == sorted(texts(await reader))


@pytest.mark.slow
async def test_a_reader_that_stalls_is_parked_and_gets_everything(service: EventService, clock: VirtualClock) -> None:
    hub = EventHub(service)
    slow, fast = hub.source(["0"], tail=True, room=100), hub.source(["0"], tail=True, room=100)
    stalled = stream_of(slow)
    other = asyncio.create_task(drain(stream_of(fast)))
    service.write("0", "first")
    await anext(stalled)
    for number in range(3000):
        service.write("0", f"{number}")
        if number % 30 == 0:
            await clock.sleep(1)

            assert slow.held <= 100
    assert 1 == hub.statistics().sources
    assert slow._task is None
    rest = asyncio.create_task(drain(stalled))
    await clock.sleep(60)
    slow.finish()
    fast.finish()

    assert [str(number) for number in range(3000)] == texts(await rest)
    assert ["first", *map(str, range(3000))] == texts(await other)


async def test_streams_of_the_service_can_be_added(service: EventService, clock: VirtualClock) -> None:
    hub = EventHub(service)
    source = hub.source([], tail=True)
    reader = asyncio.create_task(drain(stream_of(source)))
    await clock.sleep(2)

    assert [] == service.calls
    for key in range(20):
        service.write(f"{key}", f"{key} before")
        source.add_keys([f"{key}"])
        await clock.sleep(3)
        service.write(f"{key}", f"{key} after")
    await clock.sleep(10)
    source.finish()
    got = texts(await reader)

    assert sorted(f"{key} {when}" for key in range(20) for when in ("before", "after")) == sorted(got)


async def test_finish_waits_for_the_last_lines(service: EventService, clock: VirtualClock) -> None:
    hub = EventHub(service)
    source = hub.source(["0"], tail=True)
    reader = asyncio.create_task(drain(stream_of(source)))
    await clock.sleep(30)
    service.write("0", "soon", delay=0.7)
    service.write("0", "later", delay=1.4)
    began = clock.monotonic()
    source.finish()

    assert ["soon", "later"] == texts(await reader)
    assert clock.monotonic() - began <= 10


async def test_finish_without_any_stream_ends(service: EventService) -> None:
    source = EventHub(service).source([], tail=True)
    source.finish()

    assert [] == await drain(stream_of(source))


async def test_failures_that_pass_lose_nothing(service: EventService, clock: VirtualClock) -> None:
    service.page = 10
    hub = EventHub(service)
    source = hub.source(["0"], tail=True)
    for number in range(100):
        service.write("0", f"{number}", ns=service.clock.time_ns() + number * SECOND)
    service.failures = [UnavailableError("away"), ThrottledError("slowly", retry_after=5)]
    reader = asyncio.create_task(drain(stream_of(source)))
    await clock.sleep(200)
    for number in range(100, 200):
        service.write("0", f"{number}")
        if number % 10 == 0:
            service.failures = [UnavailableError("away"), ThrottledError("slowly", retry_after=2)]
            await clock.sleep(4)
    await clock.sleep(60)
    source.finish()

    assert [str(number) for number in range(200)] == texts(await reader)


class NotingHub(EventHub):
    """Notes when it asks."""

    asked: list[float]

    def pages(self, keys: Sequence[str], since_ns: int | None) -> AsyncGenerator[Sequence[HubEvent]]:
        self.asked.append(self.clock.monotonic())
        return super().pages(keys, since_ns)


@pytest.mark.parametrize("longest", [0.5, 5.0, 50.0])
async def test_a_round_that_failed_is_made_again_after_its_pause_alone(
    service: EventService, clock: VirtualClock, longest: float
) -> None:
    hub = NotingHub(service, longest=longest)
    hub.asked = []
    reader = asyncio.create_task(drain(stream_of(source := hub.source(["0"], tail=True))))
    await clock.sleep(20 * longest)  # quiet for so long that the rounds are as rare as they get
    before = len(hub.asked)
    service.failures = [UnavailableError("away"), UnavailableError("away")]
    await clock.sleep(3 * longest + 3)
    source.finish()
    await reader
    first, second, third = hub.asked[before : before + 3]

    # The back-off's own pauses, of up to 0.5 s and 1 s, whatever the interval between rounds that work.
    assert 0 < second - first <= 0.5
    assert 0 < third - second <= 1.0


async def test_a_service_that_stays_away_fails_its_sources(service: EventService, clock: VirtualClock) -> None:
    hub = EventHub(service, retry_for=30)
    stream = stream_of(hub.source(["0"], tail=True))
    service.write("0", "a")
    await anext(stream)
    await clock.sleep(5)
    service.failures = [UnavailableError("away") for _ in range(1000)]
    with pytest.raises(LogStreamError, match="away"):
        await anext(stream)


async def test_an_error_that_will_not_pass_fails_at_once(service: EventService) -> None:
    service.failures = [AuthError("no")]
    with pytest.raises(LogStreamError, match="no"):
        await drain(stream_of(EventHub(service).source(["0"], tail=True)))


async def test_tail_lines_cut_the_past_and_nothing_else(service: EventService, clock: VirtualClock) -> None:
    for number in range(1000):
        service.write("0", f"{number}")
    hub = EventHub(service)
    source = hub.source(["0"], tail=True, room=60)
    reader = asyncio.create_task(drain(stream_of(source, tail_lines=3)))
    await eventually(lambda: hub.statistics().sources == 1 and source.held == 0)
    for number in range(1000, 1100):
        service.write("0", f"{number}")
    await clock.sleep(30)
    source.finish()

    assert [str(number) for number in range(997, 1100)] == texts(await reader)


async def test_a_machine_with_a_clock_ahead_hides_nothing(service: EventService, clock: VirtualClock) -> None:
    hub = EventHub(service)
    source = hub.source(["0", "1"], tail=True)
    reader = asyncio.create_task(drain(stream_of(source)))
    await clock.sleep(2)
    for number in range(50):
        now = clock.time_ns()
        service.write("0", f"0:{number}", ns=now + 3600 * SECOND)
        service.write("1", f"1:{number}", ns=now)
        await clock.sleep(1)
    source.finish()

    assert sorted(f"{key}:{number}" for key in (0, 1) for number in range(50)) == sorted(texts(await reader))


async def test_the_shared_query_has_no_context_and_ends_with_its_last_reader(
    service: EventService, clock: VirtualClock
) -> None:
    mark: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="none")
    seen: list[str] = []

    class Marked(EventHub):
        def pages(self, keys: Sequence[str], since_ns: int | None) -> AsyncGenerator[Sequence[HubEvent]]:
            seen.append(mark.get())
            return super().pages(keys, since_ns)

    mark.set("mine")
    hub = Marked(service)
    stream = stream_of(hub.source(["0"], tail=True))
    service.write("0", "a")
    await anext(stream)
    await clock.sleep(3)
    await stream.aclose()
    calls = len(service.calls)
    await clock.sleep(60)

    assert ["mine", "none"] == list(dict.fromkeys(seen))
    assert calls == len(service.calls)


async def test_polling_slows_down_while_nothing_comes(service: EventService, clock: VirtualClock) -> None:
    hub = EventHub(service, shortest=0.5, longest=5)
    stream = stream_of(hub.source(["0"], tail=True))
    service.write("0", "a")
    await anext(stream)
    await clock.sleep(10)
    before = len(service.calls)
    await clock.sleep(100)

    assert 19 <= len(service.calls) - before <= 21
    await stream.aclose()


async def test_ids_are_kept_for_two_windows_only(service: EventService, clock: VirtualClock) -> None:
    hub = EventHub(service)
    source = hub.source(["0"], tail=True)
    reader = asyncio.create_task(drain(stream_of(source)))
    for number in range(200):
        service.write("0", f"{number}")
        await clock.sleep(1)
    source.finish()

    assert 200 == len(await reader)
    assert len(source._positions["0"].seen) <= 31


OPERATIONS = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 3), st.integers(1, 60), st.sampled_from([0.0, 0.0, 0.4, 3.0, 14.0])),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.1, 0.7, 4.0, 40.0])),
    st.tuples(st.just("fail"), st.integers(1, 2)),
    st.tuples(st.just("stall"), st.integers(0, 2)),
    st.tuples(st.just("read"), st.integers(0, 2)),
    st.tuples(st.just("join"), st.integers(0, 2)),
    st.tuples(st.just("add"), st.integers(0, 2), st.integers(0, 3)),
)


@settings(max_examples=80, deadline=None)
@given(st.lists(OPERATIONS, max_size=30), st.integers(1, 40), st.integers(1, 40), st.sampled_from([0.0, 0.3, 2.0]))
def test_any_order_of_things_loses_nothing_and_repeats_nothing(
    operations: list[tuple[object, ...]], room: int, page: int, latency: float
) -> None:
    async def run() -> None:
        async with VirtualClock() as clock:
            service = EventService(clock, page=page)
            service.latency = latency
            hub = EventHub(service)
            wanted: dict[int, set[str]] = {}
            got: dict[int, list[LogLine]] = defaultdict(list)
            gates = [asyncio.Event() for _ in range(3)]
            sources = [hub.source([f"{n}"], tail=True, room=room) for n in range(3)]
            readers: list[asyncio.Task[None]] = []

            async def reader(n: int) -> None:
                async for line in stream_of(sources[n]):
                    got[n].append(line)
                    await gates[n].wait()

            def join(n: int) -> None:
                if n not in wanted:
                    wanted[n] = {f"{n}"}
                    gates[n].set()
                    readers.append(asyncio.create_task(reader(n)))

            join(0)
            for name, *arguments in operations:
                match name, arguments:
                    case "write", [int(key), int(count), float(delay)]:
                        for number in range(count):
                            service.write(f"{key}", f"{number}", delay=delay)
                    case "wait", [float(seconds)]:
                        await clock.sleep(seconds)
                    case "fail", [int(count)]:
                        service.failures = [UnavailableError("away")] * count
                    case "stall", [int(n)]:
                        gates[n].clear()
                    case "read", [int(n)]:
                        gates[n].set()
                    case "join", [int(n)]:
                        join(n)
                    case "add", [int(n), int(key)]:
                        if n in wanted:
                            wanted[n].add(f"{key}")
                            sources[n].add_keys([f"{key}"])
            service.failures = []
            await clock.sleep(20)
            for n in wanted:
                gates[n].set()
            await clock.sleep(20)
            for n in wanted:
                sources[n].finish()
            await asyncio.gather(*readers)
            for n, keys in wanted.items():
                expected = sorted(id(event.line) for _, event in service.events if event.key in keys)

                assert expected == sorted(map(id, got[n]))
            assert 0 == hub.statistics().sources

    asyncio.run(run())
