"""Several log streams as one: the same guarantees, each line knows its app, one app's failure spares the others."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence

import pytest

from asyncsched.clock import Clock
from asyncsched.errors import ClosedError, LogStreamError, UnavailableError, UnknownAppError
from asyncsched.logs.engine import LogSink
from asyncsched.logs.line import LogLine, LogOrigin, label
from asyncsched.logs.query import LogQuery, make_query
from asyncsched.logs.source import QueueSource
from asyncsched.logs.stream import LogStream
from tests._support import eventually


def lines(app_id: str, *texts: str) -> list[LogLine]:
    return label([f"{text}\n" for text in texts], LogOrigin(app_id=app_id, role="main"), None)


class App:
    """One app's log with one source, in the test's hand."""

    def __init__(self, app_id: str, *, tail: bool = True, error: Exception | None = None) -> None:
        self.source = QueueSource(role="main", replica=0)
        self.error = error
        self.fails = asyncio.Event()
        self.over = asyncio.Event()
        self.opened = False
        self.closed = False
        self.stream = LogStream(make_query(app_id, should_tail=tail, clock=Clock()), self._open)
        self.app_id = app_id

    def write(self, *texts: str) -> None:
        self.source.put(lines(self.app_id, *texts))

    def end(self) -> None:
        self.source.end()
        self.over.set()

    async def _open(self, query: LogQuery, sink: LogSink) -> None:
        sink.add(self.source)
        self.opened = True
        try:
            if self.error is not None:
                await self.fails.wait()
                raise self.error
            await self.over.wait()
        finally:
            self.closed = True


async def read(stream: LogStream) -> list[tuple[str, str]]:
    return [(line.app_id, line.text) async for line in stream]


async def test_lines_of_all_apps_come_and_know_their_app() -> None:
    apps = [App("a"), App("b"), App("c")]
    for app in apps:
        app.write("one", "two")
        app.end()

    got = await read(LogStream.merged([app.stream for app in apps]))

    assert sorted((app.app_id, text) for app in apps for text in ("one", "two")) == sorted(got)


async def test_one_stream_is_passed_through() -> None:
    app = App("a")

    assert LogStream.merged([app.stream]) is app.stream


async def test_a_cancelled_step_loses_nothing() -> None:
    apps = [App("a"), App("b")]
    stream = LogStream.merged([app.stream for app in apps])
    got: list[str] = []
    for number in range(20):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await anext(stream)
        apps[number % 2].write(str(number))
        got.append((await anext(stream)).text)
    for app in apps:
        app.end()

    assert [str(number) for number in range(20)] == got
    assert [] == await read(stream)


async def test_an_unknown_app_ends_the_others_at_once() -> None:
    good, bad = App("a"), App("b", error=UnknownAppError("no app b"))
    good.write("one")
    bad.fails.set()
    stream = LogStream.merged([good.stream, bad.stream])
    with pytest.raises(UnknownAppError, match="no app b"):
        await read(stream)

    assert good.closed


async def test_a_service_that_fails_spares_the_apps_of_others() -> None:
    good, bad = App("a"), App("b", error=UnavailableError("the service is down"))
    bad.source.finish = bad.source.end  # type: ignore[method-assign]  # a queue does not end by itself
    bad.fails.set()
    stream = LogStream.merged([good.stream, bad.stream])
    good.write("one")

    assert ("a", "one") == ((line := await anext(stream)).app_id, line.text)
    await eventually(lambda: bad.closed)
    good.write("two")

    assert "two" == (await anext(stream)).text
    good.end()
    with pytest.raises(UnavailableError) as caught:
        await anext(stream)
    assert ["The log of b could not be followed any further."] == caught.value.__notes__


async def test_a_source_that_breaks_off_is_told_with_its_app() -> None:
    good, bad = App("a"), App("b")
    stream = LogStream.merged([good.stream, bad.stream])
    bad.source.end(OSError("cut"))
    bad.over.set()
    good.write("one")
    good.end()

    assert "one" == (await anext(stream)).text
    with pytest.raises(LogStreamError, match="b/main/0 broke off") as caught:
        await anext(stream)
    assert ["b"] == [failure.app_id for failure in caught.value.failures]


async def test_closing_a_part_closes_the_whole() -> None:
    apps = [App("a"), App("b")]
    stream = LogStream.merged([app.stream for app in apps])
    apps[0].write("one")
    await anext(stream)
    await apps[1].stream.fail(ClosedError("the scheduler was closed"))
    with pytest.raises(ClosedError):
        await anext(stream)

    assert [True, True] == [app.closed for app in apps]


async def test_a_dropped_stream_ends_every_part() -> None:
    apps = [App("a"), App("b")]

    async def leave() -> None:
        parts: Sequence[LogStream] = [app.__dict__.pop("stream") for app in apps]
        async for _ in LogStream.merged(parts):
            break

    apps[0].write("one")
    await leave()
    gc.collect()
    await eventually(lambda: all(app.closed for app in apps))


async def test_it_tells_when_one_app_has_been_read_to_its_end() -> None:
    first, second = App("a-1"), App("a-2")
    async with LogStream.merged([first.stream, second.stream]) as stream:
        first.write("one", "two")
        first.end()
        assert ["one", "two"] == [(await anext(stream)).text for _ in range(2)]
        reading = asyncio.ensure_future(anext(stream))
        await eventually(lambda: stream.is_terminal("a-1"))
        assert not stream.is_terminal("a-2")
        second.write("three", "four")
        second.end()
        await reading
        assert not stream.is_terminal("a-2"), "a line of it has not been taken"
        await anext(stream)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        assert stream.is_terminal("a-2")
