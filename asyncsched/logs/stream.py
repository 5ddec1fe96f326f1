"""`LogStream`: what `log_iter` returns."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

from asyncsched._streams import AsyncStream
from asyncsched._tasks import close_all, gather_bounded, outlast
from asyncsched.errors import LogStreamError, ReplicaFailure, SchedulerError, UnknownAppError, WrongLoopError
from asyncsched.logs.budget import BUDGET, LoopBudget, budget_of
from asyncsched.logs.line import LogLine
from asyncsched.logs.merge import Merge
from asyncsched.logs.select import LogQuery
from asyncsched.logs.source import LogSource

__all__ = ["LogSink", "LogStatistics", "LogStream", "OpenLogs"]

MAX_TURN = 256
"""Lines that are taken from one source at a time, at most."""

FIRST_TURN = 16
"""Lines that are handed on first, until it is seen how fast the consumer is."""

OPENED_AT_ONCE = 16
"""Apps that are looked up at the same time, when the logs of many are read to their present end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStatistics:
    """What a log stream has done so far.

    Attributes:
        lines: Lines that were handed on.
        gaps: Holes that were told.
        sources: Sources that were opened.
        live: Sources that have not ended.
        failures: Sources that broke off.
        waiting: Lines that have been read and wait for the consumer.
    """

    lines: int
    gaps: int
    sources: int
    live: int
    failures: int
    waiting: int


class LogSink:
    """What a backend gives the sources of one app to."""

    def __init__(self, merge: Merge, app_id: str) -> None:
        self._merge = merge
        self._app_id = app_id
        # Weakly: a source that has ended is nobody's any more, however long the stream goes on.
        self._sources: weakref.WeakSet[LogSource] = weakref.WeakSet()

    def add(self, source: LogSource) -> None:
        """Read `source` into the stream, from now on until it ends; the stream closes it."""
        self._sources.add(source)
        self._merge.add(source, self._app_id)

    def beside(self, app_id: str) -> LogSink:
        """Return a sink of the same stream for another app."""
        return LogSink(self._merge, app_id)

    def finish(self) -> None:
        """Let all sources of this app deliver what is there by now, and end."""
        for source in list(self._sources):
            source.finish()


OpenLogs = Callable[[LogQuery, LogSink], Awaitable[None]]
"""Adds sources to the sink as replicas appear, and returns when no more can; raises if the app is unknown."""


class LogStream(AsyncStream[LogLine]):
    """The lines of an app, as an async generator that a cancelled step does not end.

    Nothing is opened before the first step. A step that is cancelled or times out loses nothing: the next one goes
    on. Leave it by `aclose` (or ``async with``), by breaking out of the loop and dropping it, or by reading to its
    end: each ends every task and connection of it. Steps may come from different tasks of one loop, but not two at
    the same time (RuntimeError).
    """

    def __init__(self, query: LogQuery, open_logs: OpenLogs, *, cleanup_timeout: float = 10.0) -> None:
        self._core = _Core(query, open_logs, cleanup_timeout)
        self._ready: deque[LogLine] = deque()
        self._dropped = 0  # lines that were read, but not taken before it was closed
        self._stepping = False
        self._parts: Sequence[LogStream] = ()

    @classmethod
    def merged(cls, streams: Sequence[LogStream]) -> LogStream:
        """Return one stream of the lines of several apps, of whatever schedulers, with the same guarantees.

        Args:
            streams: What `log_iter` returned for each of them, with the same selection of lines. They must not have
                begun, and are used up. To close one of them, as its scheduler does, is to close the whole.
        """
        if len(streams) == 1:
            return streams[0]
        openings = [(stream._core.query, stream._core.open_logs) for stream in streams]
        first = openings[0][0] if openings else LogQuery(app_id="")
        cleanup_timeout = max((stream._core.cleanup_timeout for stream in streams), default=0.0)
        query = replace(first, app_id=f"{len(streams)} apps")
        whole = cls(query, partial(_open_all, openings), cleanup_timeout=cleanup_timeout)
        whole._parts = streams
        for stream in streams:
            stream._core = whole._core
        return whole

    async def __anext__(self) -> LogLine:
        if self._ready:  # nothing awaits per line
            return self._ready.popleft()
        if self._stepping:
            raise RuntimeError("another step of this log stream has not ended yet")
        self._stepping = True
        try:
            return await self._core.step(self._ready)
        finally:
            self._stepping = False

    async def aclose(self) -> None:
        """End the stream: its tasks and connections are gone when this returns. Idempotent."""
        self._core.shut()
        self._dropped += len(self._ready)
        self._ready.clear()
        await self._core.settle()

    async def fail(self, error: BaseException) -> None:
        """End the stream as `aclose` does; its consumer gets `error` and not an end that looks like the logs' own."""
        self._core.fail(error)
        await self.aclose()

    def __del__(self) -> None:
        core: _Core | None = getattr(self, "_core", None)  # missing if __init__ was given wrong arguments
        if core is not None:
            core.abandon()

    @property
    def closed(self) -> bool:
        """Whether it has ended or was closed."""
        return self._core.closed

    def statistics(self) -> LogStatistics:
        """Return what the stream has done so far."""
        merge = self._core.merge
        return LogStatistics(
            lines=merge.lines - len(self._ready) - self._dropped,
            gaps=merge.gaps,
            sources=merge.opened,
            live=merge.live,
            failures=len(merge.failures),
            waiting=len(self._ready),
        )

    def __repr__(self) -> str:
        return f"<LogStream {self._core.query.app_id} {self._core.state} {self.statistics().lines} lines>"


class _Core:
    """What a stream's task holds, so that nothing but its user holds the stream itself."""

    def __init__(self, query: LogQuery, open_logs: OpenLogs, cleanup_timeout: float) -> None:
        self.query = query
        self.merge = Merge(query)
        self.open_logs = open_logs
        self.cleanup_timeout = cleanup_timeout
        self._loop: asyncio.AbstractEventLoop | None = None
        self._budget: LoopBudget | None = None
        self._task: asyncio.Task[None] | None = None
        self._error: BaseException | None = None  # of finding the sources: raised when all has been read
        self._failure: BaseException | None = None  # from outside: raised at once
        self._refused = False  # what is asked for does not exist: raised although others' lines may be there
        self._drained: asyncio.Event = asyncio.Event()
        self._retired: list[LogSource] = []  # sources that have ended, to be closed
        self._closing: asyncio.Task[None] | None = None
        self._opened = False
        self.closed = False
        self._turn = FIRST_TURN
        self._handed = 0.0
        self._handed_in = -1

    @property
    def state(self) -> str:
        """One word for a repr."""
        if self.closed:
            return "closed"
        return "new" if self._task is None else "ended" if self._task.done() else "open"

    async def step(self, ready: deque[LogLine]) -> LogLine:
        """Wait for lines, put them into `ready` and return the first; everything after the last await is one piece."""
        if self.closed:
            self._raise_failure()
            raise StopAsyncIteration
        budget = self._begin()
        self._pace(budget)
        await budget.breathe()
        merge = self.merge
        while not self._ended():
            if self._refused:
                await self._end()
            lines = merge.turn(self._turn)
            if lines:
                ready.extend(lines)
                self._handed, self._handed_in = perf_counter(), budget.iteration
                return ready.popleft()
            if merge.ready:
                await budget.breathe()
            elif (self._opened and not merge.live) or self._over():
                await self._end()
            else:
                await merge.wait()
                budget.begin()
        self._raise_failure()
        raise StopAsyncIteration

    def _ended(self) -> bool:
        return self.closed  # asked anew after each await: another task may have closed the stream

    def fail(self, error: BaseException) -> None:
        if not self.closed:
            self._failure = error

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _over(self) -> bool:
        return self._task is not None and self._task.done()

    def _begin(self) -> LoopBudget:
        loop = asyncio.get_running_loop()
        if self._budget is None or self._loop is None:
            self._loop = loop
            self._budget = budget_of(loop)
            self.merge.on_end = self._retire
            self._task = loop.create_task(self._conduct(), name=f"logs of {self.query.app_id}")
            self._task.add_done_callback(lambda _: self.merge.notify())
        elif loop is not self._loop:
            raise _wrong_loop()
        return self._budget

    def _pace(self, budget: LoopBudget) -> None:
        """Hand out less at a time to a consumer whose own work keeps the loop, so that the loop gets its share."""
        if self._handed_in < 0:
            return
        # In another iteration it has waited for something: what it keeps then is not the loop.
        slow = self._handed_in == budget.iteration and perf_counter() - self._handed > BUDGET
        self._turn = max(self._turn // 2, 1) if slow else min(self._turn * 2, MAX_TURN)

    async def _conduct(self) -> None:
        """Own everything that the stream opens: run until all sources have ended, then close them."""
        merge = self.merge
        try:
            try:
                await self.open_logs(self.query, LogSink(merge, self.query.app_id))
            except UnknownAppError as error:
                self._error, self._refused = error, True
                return
            except Exception as error:  # noqa: BLE001 - told to the consumer once it has read what there is
                self._error = error
                for source in merge.sources:
                    source.finish()
            self._opened = True
            merge.notify()
            while merge.live:
                self._drained.clear()
                await self._drained.wait()
        finally:
            closing: list[Awaitable[object]] = [source.aclose() for source in (*self._retired, *merge.sources)]
            self._retired = []
            if self._closing is not None:
                closing.append(self._closing)
            await close_all(closing, self.cleanup_timeout)

    def _retire(self, source: LogSource) -> None:
        """Close a source that has ended, however long the others go on."""
        self._retired.append(source)
        if self._closing is None or self._closing.done():
            self._closing = asyncio.get_running_loop().create_task(self._close_retired())
        self._drained.set()

    async def _close_retired(self) -> None:
        while self._retired:
            retired, self._retired = self._retired, []
            await close_all([source.aclose() for source in retired], self.cleanup_timeout)

    async def _end(self) -> None:
        task = self._task
        assert task is not None
        if not task.done():  # else a step that is given no time at all could not end the stream
            await asyncio.wait([task])
        self.closed = True
        if task.cancelled():
            raise LogStreamError(f"the task that reads the log of {self.query.app_id} was cancelled from outside")
        if (broken := self._error or task.exception()) is not None:
            raise broken
        if self.merge.failures:
            raise _incomplete(self.query.app_id, self.merge.failures)

    def shut(self) -> None:
        """Hand on nothing more, and let the task end."""
        if self._task is not None and not self._task.done():
            if asyncio.get_running_loop() is not self._loop:
                raise _wrong_loop()
            self._task.cancel()
            self.merge.notify()
        self.closed = True

    async def settle(self) -> None:
        """Wait until nothing runs any more."""
        if self._task is not None and not self._task.done():
            await outlast([self._task], 2 * self.cleanup_timeout)

    def abandon(self) -> None:
        """End the stream from outside: its user has dropped it, in whatever thread it was collected."""
        if self.closed or self._task is None or self._loop is None or self._task.done():
            return
        self.closed = True
        with contextlib.suppress(RuntimeError):  # the loop has been closed, and the task with it
            self._loop.call_soon_threadsafe(self._task.cancel)


async def _open_all(openings: Sequence[tuple[LogQuery, OpenLogs]], query: LogQuery, sink: LogSink) -> None:
    """Open several apps' logs at once; when a service fails, the other apps' logs are read to their end first."""
    failed: list[SchedulerError] = []

    async def open_one(opening: tuple[LogQuery, OpenLogs]) -> None:
        own, open_logs = opening
        beside = sink.beside(own.app_id)
        try:
            await open_logs(own, beside)
        except SchedulerError as error:
            beside.finish()
            error.add_note(f"The log of {own.app_id} could not be followed any further.")
            failed.append(error)

    await gather_bounded(open_one, openings, len(openings) if query.tail else OPENED_AT_ONCE)
    if failed:
        raise failed[0]


def _wrong_loop() -> WrongLoopError:
    return WrongLoopError(
        "this log stream belongs to another event loop",
        fix="use it where its first line was read; from several loops or threads, use asyncsched.sync",
    )


def _incomplete(app_id: str, failures: Sequence[ReplicaFailure]) -> LogStreamError:
    which = ", ".join(_where(failure, app_id) for failure in failures[:5])
    more = f" and {len(failures) - 5} more" if len(failures) > 5 else ""
    cause = failures[0].cause
    error = LogStreamError(
        f"the log of {app_id} is incomplete: {which}{more} broke off",
        failures=failures,
        why=str(cause) or type(cause).__name__,
        fix="read it again; `failures` tells where each broke off",
    )
    error.__cause__ = cause
    return error


def _where(failure: ReplicaFailure, app_id: str) -> str:
    where = f"{failure.role}/{failure.replica}" if failure.replica >= 0 else failure.role or "all replicas"
    return where if failure.app_id == app_id else f"{failure.app_id}/{where}"
