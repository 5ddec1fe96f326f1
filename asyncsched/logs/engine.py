"""What works behind a `LogStream`: finds the sources, reads them in turns, and ends with the last of them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter

from asyncsched._streams import StreamCore
from asyncsched._tasks import close_all, outlast
from asyncsched._typing import override
from asyncsched.errors import LogStreamError, ReplicaFailure, UnknownAppError
from asyncsched.logs.line import LogLine
from asyncsched.logs.loop_time import BUDGET, LoopBudget, budget_of
from asyncsched.logs.merge import Merge
from asyncsched.logs.query import LogQuery
from asyncsched.logs.source import LogSource

__all__ = ["Closer", "LogCore", "LogSink", "OpenLogs", "open_nothing"]

_log = logging.getLogger("asyncsched.logs")

MAX_TURN = 256
"""Lines that are taken from one source at a time, at most."""

FIRST_TURN = 16
"""Lines that are handed on first, until it is seen how fast the consumer is."""


class LogSink:
    """What a backend gives the sources of one app to."""

    def __init__(self, merge: Merge, app_id: str) -> None:
        self._merge = merge
        self._app_id = app_id

    def add(self, source: LogSource) -> None:
        """Read `source` into the stream, from now on until it ends; the stream closes it."""
        self._merge.add(source, self._app_id)

    def beside(self, app_id: str) -> LogSink:
        """Return a sink of the same stream for another app."""
        return LogSink(self._merge, app_id)

    def found(self) -> None:
        """Note that there are no more sources of this app to come."""
        self._merge.found.add(self._app_id)

    def finish(self) -> None:
        """Let all sources of this app deliver what is there by now, and end."""
        for source in self._merge.sources_of(self._app_id):
            source.finish()


OpenLogs = Callable[[LogQuery, LogSink], Awaitable[None]]
"""Adds sources to the sink as replicas appear, and returns when no more can; raises if the app is unknown."""


async def open_nothing(query: LogQuery, sink: LogSink) -> None:
    """Add no source."""


class Closer:
    """Closes sources one after the other, and side by side those that have to wait.

    Most have nothing to wait for once they have ended. A task for each of them would cost a short log more than all
    of its lines.
    """

    def __init__(self) -> None:
        self._ended: deque[LogSource] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._next: asyncio.Handle | None = None

    def close(self, source: LogSource) -> None:
        """Close a source soon; what fails is logged."""
        self._ended.append(source)
        self._go_on_soon()

    def take(self) -> Sequence[Awaitable[object]]:
        """Return all that is not closed yet, for the caller to wait for."""
        ended, self._ended = self._ended, deque()
        return [*self._tasks, *(source.aclose() for source in ended)]

    def _go_on_soon(self) -> None:
        if self._next is None:
            self._next = asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._next = None
        if self._ended:
            task = asyncio.get_running_loop().create_task(self._close_some())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _close_some(self) -> None:
        began = perf_counter()
        while self._ended:
            self._go_on_soon()  # with the others, in a task of their own, if this one is not closed in this step
            if perf_counter() - began > BUDGET:
                return
            source = self._ended.popleft()
            try:
                await source.aclose()
            except Exception as error:  # noqa: BLE001 - a source is a backend's code: the others are closed all the same
                _log.warning("closing the log of %s/%s failed: %s", source.role, source.replica, error, exc_info=error)


class LogCore(StreamCore):
    """The task that opens the sources, and what they deliver."""

    WHAT = "this log stream"

    def __init__(self, query: LogQuery, open_logs: OpenLogs, cleanup_timeout: float) -> None:
        super().__init__()
        self.query = query
        self.merge = Merge(query)
        self.open_logs = open_logs
        self.cleanup_timeout = cleanup_timeout
        self.parts: list[object] = []  # streams whose place it has taken, which have to live as long as this
        self._budget: LoopBudget | None = None
        self._task: asyncio.Task[None] | None = None
        self._error: BaseException | None = None  # of finding the sources: raised when all has been read
        self._failure: BaseException | None = None  # from outside: raised at once
        self._refused = False  # what is asked for does not exist: raised although others' lines may be there
        self._drained: asyncio.Event = asyncio.Event()
        self._closer = Closer()
        self._opened = False
        self._turn = FIRST_TURN
        self._handed = 0.0
        self._handed_in = -1

    @property
    @override
    def state(self) -> str:
        """One word for a repr."""
        return "ended" if self._over() and not self.closed else super().state

    async def step(self) -> Sequence[LogLine]:
        """Wait for lines and return them, at least one; everything after the last await is one piece."""
        if self.closed:
            self._raise_failure()
            raise StopAsyncIteration
        budget = self._begin()
        now = perf_counter()
        self._pace(budget, now)
        if budget.spent(now):
            await budget.breathe()
        else:
            budget.begin()
        merge = self.merge
        while not self._ended():
            if self._refused:
                await self._end()
            lines = merge.turn(self._turn)
            if lines:
                self._handed, self._handed_in = perf_counter(), budget.iteration
                return lines
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
        """Note what has ended it from outside: its consumer gets this at once."""
        if not self.closed:
            self._failure = error

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _over(self) -> bool:
        return self._task is not None and self._task.done()

    def _begin(self) -> LoopBudget:
        if self._enter() or self._budget is None:
            loop = asyncio.get_running_loop()
            self._budget = budget_of(loop)
            self.merge.on_end = self._retire
            self._task = loop.create_task(self._conduct(), name=f"logs of {self.query.app_id}")
            self._task.add_done_callback(lambda _: self.merge.notify())
        return self._budget

    def _pace(self, budget: LoopBudget, now: float) -> None:
        """Hand out less at a time to a consumer whose own work keeps the loop, so that the loop gets its share."""
        if self._handed_in < 0:
            return
        # In another iteration it has waited for something: what it keeps then is not the loop.
        if self._handed_in == budget.iteration and now - self._handed > BUDGET:
            self._turn = max(self._turn // 2, 1)
        elif self._turn < MAX_TURN:
            self._turn = min(self._turn * 2, MAX_TURN)

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
            merge.found.add(self.query.app_id)
            merge.notify()
            while merge.live:
                self._drained.clear()
                await self._drained.wait()
        finally:
            closing = [*self._closer.take(), *(source.aclose() for source in merge.sources)]
            await close_all(closing, self.cleanup_timeout)

    def _retire(self, source: LogSource) -> None:
        """Close a source that has ended, however long the others go on."""
        self._closer.close(source)
        self._drained.set()

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
            self._enter()
        if not self.closed:
            self._detach()
            self.merge.notify()

    @override
    async def aclose(self) -> None:
        self.shut()
        if self._task is not None and not self._task.done():
            await outlast([self._task], 2 * self.cleanup_timeout)

    @override
    def _detach(self) -> None:
        self.closed = True
        if self._task is not None:
            self._task.cancel()


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
