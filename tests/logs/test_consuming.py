"""The ways to consume a log stream: each loses nothing, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from collections.abc import Callable, Sequence
from contextlib import aclosing

import anyio
import anyio.lowlevel
import pytest

from asyncsched.errors import ClosedError, LogStreamError, UnknownAppError, WrongLoopError
from asyncsched.logs import LogLine, LogQuery, LogSink, LogSource, LogStream, QueueSource
from tests._support import eventually
from tests.logs._fakes import drain, lines, numbered, origin, stream_of


class Guarded(QueueSource):
    """Says whether it was closed."""

    closed = 0

    async def aclose(self) -> None:
        self.closed += 1
        await super().aclose()


class Endless(Guarded):
    """Always has more."""

    number = 0

    def read(self, limit: int) -> Sequence[LogLine]:
        self.number += limit
        return numbered(limit, self.replica, self.number - limit)


def full(count: int, replica: int = 0) -> Guarded:
    source = Guarded(role="worker", replica=replica, room=10**9)
    source.put(numbered(count, replica))
    source.end()
    return source


async def test_plain_loop() -> None:
    sources = [full(1000, n) for n in range(5)]
    got = await drain(stream_of(*sources))
    for n in range(5):
        assert numbered(1000, n) == [line for line in got if line.replica == n]
    assert [1] * 5 == [source.closed for source in sources]


async def test_break_and_let_it_be_collected() -> None:
    source = Endless()
    async for _ in stream_of(source):
        break

    await eventually(lambda: source.closed)


async def test_aclosing_and_break() -> None:
    source = Endless()
    async with aclosing(stream_of(source)) as stream:
        async for _ in stream:
            break

    assert 1 == source.closed
    assert len(asyncio.all_tasks()) == 1


async def test_a_timeout_for_each_line_loses_nothing() -> None:
    """A thousand steps time out, at any moment, while lines come."""
    sources = [Guarded(role="worker", replica=n) for n in range(3)]
    stream = stream_of(*sources)
    random.seed(1)
    written = [0, 0, 0]
    got: list[LogLine] = []
    timeouts = 0

    timed_out = asyncio.Event()

    async def write() -> None:
        while timeouts < 1000:
            n = random.randrange(3)
            sources[n].put(numbered(2, n, written[n]))
            written[n] += 2
            for _ in range(random.randrange(6)):
                await timed_out.wait()
                timed_out.clear()
            for _ in range(random.randrange(6)):
                await asyncio.sleep(0)
        for source in sources:
            source.end()

    writer = asyncio.create_task(write())
    while True:
        try:
            got.append(await asyncio.wait_for(anext(stream), random.choice([0, 1e-5, 1e-4, 1e-3])))
        except TimeoutError:
            timeouts += 1
            timed_out.set()
        except StopAsyncIteration:
            break
    await writer

    assert timeouts >= 1000
    for n in range(3):
        assert numbered(written[n], n) == [line for line in got if line.replica == n]


async def test_steps_that_are_cancelled_lose_nothing() -> None:
    source = Guarded()
    stream = stream_of(source)
    random.seed(2)
    got: list[LogLine] = []
    for number in range(300):
        step = asyncio.ensure_future(anext(stream))
        for _ in range(random.randrange(4)):
            await asyncio.sleep(0)
        source.put(numbered(1, start=number))
        for _ in range(random.randrange(4)):
            await asyncio.sleep(0)
        step.cancel()
        try:
            got.append(await step)
        except asyncio.CancelledError:
            pass
    source.end()
    got += await drain(stream)

    assert numbered(300) == got


async def test_steps_from_different_tasks() -> None:
    stream = stream_of(full(100))
    got = [await asyncio.create_task(anext(stream)) for _ in range(100)]  # it is a coroutine

    assert numbered(100) == got
    await stream.aclose()


async def test_two_steps_at_the_same_time_are_refused() -> None:
    source = Guarded()
    stream = stream_of(source)
    first = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="another step"):
        await anext(stream)
    source.put(lines("a"))

    assert "a" == (await first).text
    await stream.aclose()


async def test_the_consumer_is_cancelled() -> None:
    source = Endless()

    async def consume() -> None:
        async with stream_of(source) as stream:
            async for _ in stream:
                await asyncio.sleep(0)

    task = asyncio.create_task(consume())
    await eventually(lambda: source.number > 100)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert 1 == source.closed


async def test_a_consumer_inside_move_on_after() -> None:
    source = Guarded()
    stream = stream_of(source)
    got: list[LogLine] = []
    for number in range(20):
        with anyio.move_on_after(0.001):
            await drain(stream, got)
        source.put(numbered(1, start=number))
    source.end()
    got += await drain(stream)

    assert numbered(20) == got


async def test_a_consumer_inside_a_task_group_that_is_cancelled_by_level() -> None:
    source = Endless()

    async def consume() -> None:
        async with stream_of(source) as stream:
            async for _ in stream:
                await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(consume)
        await eventually(lambda: source.number > 100)
        group.cancel_scope.cancel()

    assert 1 == source.closed


async def test_it_begins_anew_each_time_it_is_called() -> None:
    def stream() -> LogStream:
        return stream_of(full(10))

    assert await drain(stream()) == await drain(stream())


# Leaving, in every other way.


async def test_nothing_is_opened_before_the_first_step() -> None:
    source = Endless()
    stream = stream_of(source)
    await asyncio.sleep(0)

    assert 1 == len(asyncio.all_tasks())
    await stream.aclose()

    assert [] == await drain(stream)
    assert 0 == source.number


async def test_double_aclose_and_steps_behind_it() -> None:
    source = Endless()
    stream = stream_of(source)
    await anext(stream)
    await asyncio.gather(stream.aclose(), stream.aclose())
    await stream.aclose()

    assert 1 == source.closed
    assert [] == await drain(stream)


async def test_statistics_count_what_was_taken() -> None:
    stream = stream_of(full(100))
    for _ in range(3):
        await anext(stream)

    assert 3 == stream.statistics().lines
    await stream.aclose()

    assert (3, 0) == (stream.statistics().lines, stream.statistics().waiting)


async def test_aclose_during_a_step_ends_the_step() -> None:
    stream = stream_of(Guarded())
    step = asyncio.ensure_future(anext(stream, None))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await stream.aclose()

    assert await step is None


async def test_athrow_closes_and_raises() -> None:
    source = Endless()
    stream = stream_of(source)
    await anext(stream)
    with pytest.raises(KeyError, match="x"):
        await stream.athrow(KeyError("x"))

    assert 1 == source.closed


async def test_failing_it_from_outside_is_no_end() -> None:
    stream = stream_of(Guarded())
    step = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    await stream.fail(ClosedError("the scheduler was closed"))
    with pytest.raises(ClosedError):
        await step

    assert [] == await drain(stream)


async def test_its_task_is_cancelled_from_outside() -> None:
    source = Guarded()
    stream = stream_of(source)
    step = asyncio.ensure_future(anext(stream))
    await eventually(lambda: stream.statistics().live)
    (task,) = (task for task in asyncio.all_tasks() if task.get_name() == "logs of app")
    task.cancel()
    with pytest.raises(LogStreamError, match="from outside"):
        await step

    assert 1 == source.closed


async def test_collected_in_another_thread() -> None:
    source = Endless()
    stream = stream_of(source)
    await anext(stream)
    cycle: list[object] = [stream]
    cycle.append(cycle)
    del stream, cycle
    thread = threading.Thread(target=gc.collect)
    thread.start()
    thread.join()

    await eventually(lambda: source.closed)


@pytest.mark.parametrize("leave", ["kept", "dropped"])
def test_the_loop_is_closed_while_it_is_open(leave: str) -> None:
    source = Endless()
    kept: list[LogStream] = []

    async def main() -> None:
        stream = stream_of(source)
        await anext(stream)
        if leave == "kept":
            kept.append(stream)

    asyncio.run(main())

    assert 1 == source.closed
    kept.clear()


async def test_another_loop_is_refused_and_does_no_harm() -> None:
    source = full(1000)
    stream = stream_of(source)
    first = await anext(stream)

    async def elsewhere() -> None:
        with pytest.raises(WrongLoopError):
            await stream.aclose()

    await asyncio.to_thread(asyncio.run, elsewhere())

    assert numbered(1000) == [first, *await drain(stream)]


async def test_collecting_it_in_the_middle_of_a_step_does_not_happen() -> None:
    """The step holds its stream, although nobody else does."""
    source = Guarded()
    step = asyncio.ensure_future(anext(stream_of(source)))
    await asyncio.sleep(0)
    gc.collect()
    source.put(lines("a"))

    assert "a" == (await step).text
    await eventually(lambda: source.closed)


# Errors.


async def test_an_error_while_opening_comes_behind_the_lines() -> None:
    async def fail(_: LogSink) -> None:
        raise ConnectionError("no service")

    source = Guarded()
    source.put(lines("a"))
    source.finish = source.end  # type: ignore[method-assign]  # as a source that follows does
    stream = stream_of(source, then=fail)

    assert "a" == (await anext(stream)).text
    with pytest.raises(ConnectionError, match="no service"):
        await anext(stream)
    assert [] == await drain(stream)


async def test_an_unknown_app_is_told_at_the_first_step() -> None:
    async def fail(_: LogSink) -> None:
        raise UnknownAppError("no app x")

    with pytest.raises(UnknownAppError):
        await anext(stream_of(then=fail))


async def test_one_replica_that_breaks_off_does_not_end_the_others() -> None:
    broken = QueueSource(role="worker", replica=1)
    broken.put(numbered(5, 1))
    broken.end(OSError("disk"))
    got: list[LogLine] = []
    with pytest.raises(LogStreamError, match="worker/1") as caught:
        await drain(stream_of(broken, full(3000)), got)

    assert 3005 == len(got)
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("place", ["start", "aclose"])
async def test_a_source_that_cannot_be_started_or_closed(place: str) -> None:
    class Bad(Guarded):
        def start(self, wake: Callable[[], None]) -> None:
            if place == "start":
                raise OSError(place)
            super().start(wake)
            self.end()

        async def aclose(self) -> None:
            await super().aclose()
            if place == "aclose":
                raise OSError(place)

    bad, good = Bad(role="worker", replica=1), full(100)
    got: list[LogLine] = []
    try:
        await drain(stream_of(bad, good), got)
    except LogStreamError:
        assert place == "start"

    assert 100 == len(got)
    assert 1 == bad.closed


async def test_a_source_that_does_not_close_is_left_after_a_time(caplog: pytest.LogCaptureFixture) -> None:
    class Stuck(Endless):
        async def aclose(self) -> None:
            await asyncio.Event().wait()

    async def open_logs(_: LogQuery, sink: LogSink) -> None:
        sink.add(Stuck())

    stream = LogStream(LogQuery(app_id="app"), open_logs, cleanup_timeout=0.05)
    await anext(stream)
    await stream.aclose()

    assert "did not close" in caplog.text


async def test_sources_that_have_ended_are_closed_while_others_go_on() -> None:
    over, going = full(10, 1), Guarded()
    stream = stream_of(over, going)
    for _ in range(10):
        await anext(stream)
    step = asyncio.ensure_future(anext(stream, None))
    await eventually(lambda: over.closed)

    assert 0 == going.closed
    assert (2, 1) == (stream.statistics().sources, stream.statistics().live)
    going.end()
    assert await step is None


# Bounds.


async def test_a_consumer_that_stalls_beside_64_floods_is_bounded_and_gets_everything() -> None:
    room, floods = 500, 64
    sources = [Guarded(role="worker", replica=n, room=room) for n in range(floods)]
    written = [0] * floods
    stream = stream_of(*sources)
    other_sources = [Guarded(role="worker", replica=n, room=room) for n in range(floods)]
    others: list[LogLine] = []
    other = asyncio.create_task(drain(stream_of(*other_sources), others))
    first = asyncio.ensure_future(anext(stream))
    for _ in range(40):
        for n in range(floods):
            other_sources[n].put(numbered(50, n))
            if sources[n].put(numbered(50, n, written[n])):
                written[n] += 50
        for _ in range(20):
            await asyncio.sleep(0)
    got = [await first]
    held = sum(source.held for source in sources) + stream.statistics().waiting

    assert held <= floods * room + 256
    await eventually(lambda: len(others) == 40 * 50 * floods)
    for source in (*sources, *other_sources):
        source.end()
    got += await drain(stream)
    await other
    for n in range(0, floods, 9):
        await asyncio.sleep(0)  # what a test itself does is judged as well
        assert numbered(written[n], n) == [line for line in got if line.replica == n]


async def test_a_consumer_that_is_slow_by_its_own_work_gives_the_loop_its_share() -> None:
    import time

    stream = stream_of(Endless())
    beats = 0

    async def heart() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0)
            beats += 1

    beating = asyncio.create_task(heart())
    taken = 0
    async for _ in stream:
        end = time.thread_time() + 0.001
        while time.thread_time() < end:
            pass
        taken += 1
        if taken == 300:
            break
    beating.cancel()
    await stream.aclose()

    assert beats >= 25


async def test_ten_thousand_sources_that_wake_for_nothing_do_not_hold_the_loop() -> None:
    """The guard judges the length of each step."""
    sources: list[LogSource] = []

    class Idle(QueueSource):
        def read(self, limit: int) -> Sequence[LogLine]:
            return super().read(limit)

    async def add(sink: LogSink) -> None:
        for number in range(10_000):
            sources.append(Idle(replica=number))
            sink.add(sources[-1])
            if number % 100 == 0:
                await asyncio.sleep(0)

    stream = stream_of(then=add)
    step = asyncio.ensure_future(anext(stream))
    await eventually(lambda: len(sources) == 10_000)
    sources[5000].put(lines("found", source=origin(5000)))  # type: ignore[attr-defined]  # a QueueSource

    assert "found" == (await step).text
    for start in range(0, 10_000, 200):
        for source in sources[start : start + 200]:
            source.end()  # type: ignore[attr-defined]  # as above
        await asyncio.sleep(0)

    assert [] == await drain(stream)
