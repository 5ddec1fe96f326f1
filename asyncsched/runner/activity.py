"""A stream of both the state changes and the log lines of apps."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TypeAlias

from asyncsched._streams import AsyncStream, SteppedStream, StreamCore, Waiter
from asyncsched._tasks import close_all, outlast
from asyncsched._typing import override
from asyncsched.logs.line import LogLine
from asyncsched.logs.stream import LogStream
from asyncsched.runner.convert import AppEvent

__all__ = ["Activity", "ActivityStream"]

Activity: TypeAlias = AppEvent | LogLine
"""A change of an app's state, or a line of one of its replicas."""

ROOM = 100
"""How many states, and how many lines, are buffered for a slow consumer."""
CLEANUP_TIMEOUT = 10.0


class _Reader:
    """Reads one of the two streams ahead, up to the bound."""

    def __init__(self, core: _Core, source: AsyncStream[Activity]) -> None:
        self.source = source
        self.waiting = 0  # items of this source in the queue
        self._core = core
        self._room = Waiter()

    async def read(self) -> None:
        """Pass on every item until the source ends; an error is passed on in its place and does not end the reader."""
        while True:
            while self.waiting >= ROOM:
                await self._room.wait()
            item: Activity | Exception
            try:
                item = await anext(self.source)
            except StopAsyncIteration:
                return
            except Exception as error:  # noqa: BLE001 - it is raised where the next item is asked for
                item = error
            self.waiting += 1
            self._core.put(item, self)

    def taken(self) -> None:
        """Record that one of its items has left the queue."""
        self.waiting -= 1
        self._room.wake()


class _Core(StreamCore):
    """The two streams, the tasks that read them, and the queue for the consumer."""

    WHAT = "this stream of activity"

    def __init__(self, states: AsyncStream[AppEvent], lines: LogStream) -> None:
        super().__init__()
        self._readers = [_Reader(self, states), _Reader(self, lines)]
        self._tasks: list[asyncio.Task[None]] = []
        self._queue: deque[tuple[Activity | Exception, _Reader]] = deque()
        self._waiter = Waiter()

    def put(self, item: Activity | Exception, reader: _Reader) -> None:
        """Add an item for the consumer."""
        self._queue.append((item, reader))
        self._waiter.wake()

    async def step(self) -> Activity:
        """Wait for an item and return it. Nothing is taken before the last await, so cancellation loses nothing."""
        if self._enter() and not self.closed:
            self._tasks = [asyncio.create_task(reader.read(), name=self.WHAT) for reader in self._readers]
            for task in self._tasks:
                task.add_done_callback(lambda _: self._waiter.wake())
        while not self._queue:
            if self.closed or all(task.done() for task in self._tasks):
                await self.aclose()
                raise StopAsyncIteration
            await self._waiter.wait()
        item, reader = self._queue.popleft()
        reader.taken()
        if isinstance(item, Exception):
            raise item
        return item

    @override
    def _detach(self) -> None:
        self.closed = True
        self._queue.clear()
        self._waiter.wake()
        for task in self._tasks:
            task.cancel()

    @override
    async def aclose(self) -> None:
        """End the tasks and both streams."""
        self._detach()
        try:
            await outlast(self._tasks, CLEANUP_TIMEOUT)
        finally:
            await close_all([reader.source.aclose() for reader in self._readers], CLEANUP_TIMEOUT)


class ActivityStream(SteppedStream[Activity, _Core]):
    """The states and the log lines of apps, each an `AppEvent` or a `LogLine`, in order of arrival.

    Each app's current state comes before its changes; its last lines may come after its end. The stream ends when all
    apps have ended and their logs were read to the end. A step that is cancelled or times out loses nothing. If a
    scheduler fails, one step raises its error, and later steps continue with the other schedulers.

    End it with `aclose` (or ``async with``), by breaking out of the loop and dropping it, or by reading to its end.
    """

    def __init__(self, states: AsyncStream[AppEvent], lines: LogStream) -> None:
        super().__init__(_Core(states, lines))

    async def __anext__(self) -> Activity:
        return await self._alone(self._core.step)

    def __repr__(self) -> str:
        return f"<ActivityStream {self._core.state}>"
