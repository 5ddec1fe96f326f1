"""The engine of a `LogStream`: it opens the sources, reads them in turns, and ends with the last one."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter

from asyncsched._streams import StreamCore
from asyncsched._tasks import close_all, outlast
from asyncsched._typing import override
from asyncsched.errors import LogStreamError, ReplicaFailure, SchedulerError, UnknownAppError
from asyncsched.logs.line import LogLine
from asyncsched.logs.loop_time import BUDGET, LoopBudget, budget_of
from asyncsched.logs.merge import Merge
from asyncsched.logs.query import LogQuery
from asyncsched.logs.source import LogSource

__all__ = ["Closer", "LogCore", "LogSink", "OpenLogs", "open_nothing"]

_log = logging.getLogger("asyncsched.logs")

MAX_TURN = 256
"""Most lines to take from one source at a time."""

FIRST_TURN = 16
"""Lines in the first turn, before the consumer's speed is known."""


class LogSink:
    """Receives the sources of one app from its backend."""

    def __init__(self, merge: Merge, app_id: str) -> None:
        self._merge = merge
        self._app_id = app_id

    def add(self, source: LogSource) -> None:
        """Read `source` into the stream until it ends; the stream closes it."""
        self._merge.add(source, self._app_id)

    def beside(self, app_id: str) -> LogSink:
        """Return a sink of the same stream for another app."""
        return LogSink(self._merge, app_id)

    def found(self) -> None:
        """Record that all sources of this app were added."""
        self._merge.found.add(self._app_id)

    def finish(self) -> None:
        """Let all sources of this app deliver what exists by now, and end."""
        for source in self._merge.sources_of(self._app_id):
            source.finish()


OpenLogs = Callable[[LogQuery, LogSink], Awaitable[None]]
"""Adds sources to the sink as replicas appear, and returns when no more can appear; raises for an unknown app."""


async def open_nothing(query: LogQuery, sink: LogSink) -> None:
    """Add no source."""


class Closer:
    """Closes sources, concurrently if they have to wait.

    Most sources close at once. A task for each would cost more than all lines of a short log.
    """

    def __init__(self) -> None:
        self._ended: deque[LogSource] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._next: asyncio.Handle | None = None

    def close(self, source: LogSource) -> None:
        """Close a source soon; failures are logged."""
        self._ended.append(source)
        self._go_on_soon()

    def take(self) -> Sequence[Awaitable[object]]:
        """Return everything that is not closed yet, for the caller to await."""
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
            self._go_on_soon()  # if this one does not close in this step, another task closes the rest
            if perf_counter() - began > BUDGET:
                return
            source = self._ended.popleft()
            try:
                await source.aclose()
            except Exception as error:  # noqa: BLE001 - an error in a backend must not keep the others open
                _log.warning("closing the log of %s/%s failed: %s", source.role, source.replica, error, exc_info=error)


class LogCore(StreamCore):
    """The task that opens the sources, and the lines they deliver."""

    WHAT = "this log stream"

    def __init__(self, query: LogQuery, open_logs: OpenLogs, cleanup_timeout: float) -> None:
        super().__init__()
        self.query = query
        self.merge = Merge(query)
        self.open_logs = open_logs
        self.cleanup_timeout = cleanup_timeout
        self.parts: list[object] = []  # streams that were merged into this one, which must live as long
        self._budget: LoopBudget | None = None
        self._task: asyncio.Task[None] | None = None
        self._error: BaseException | None = None  # while opening sources: raised when everything was read
        self._failure: BaseException | None = None  # set from outside: raised at once
        self._refused = False  # the app, role or replica does not exist: raised even if there are lines of others
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
        """Wait for lines and return at least one; nothing awaits after they are taken."""
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
        return self.closed  # checked after each await: another task may have closed the stream

    def fail(self, error: BaseException) -> None:
        """Store an error from outside; the consumer gets it at once."""
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
        """Return fewer lines at a time to a consumer that keeps the loop busy, so that other tasks run."""
        if self._handed_in < 0:
            return
        # In another iteration the consumer has awaited something, so it did not keep the loop.
        if self._handed_in == budget.iteration and now - self._handed > BUDGET:
            self._turn = max(self._turn // 2, 1)
        elif self._turn < MAX_TURN:
            self._turn = min(self._turn * 2, MAX_TURN)

    async def _conduct(self) -> None:
        """Own everything that the stream opens; run until all sources have ended, then close them."""
        merge = self.merge
        try:
            try:
                await self.open_logs(self.query, LogSink(merge, self.query.app_id))
            except UnknownAppError as error:
                self._error, self._refused = error, True
                return
            except Exception as error:  # noqa: BLE001 - the consumer gets it after the lines
                self._error = error
                for source in merge.sources:
                    source.finish()
            self._opened = True
            merge.found.add(self.query.app_id)
            merge.notify()
            while merge.live:
                self._drained.clear()
                await self._drained.wait()
        except asyncio.CancelledError:
            if not self.closed:
                raise
            # Cancelled by `_detach`. A task that ends by it would keep the error, and with it frames, for each stream.
        finally:
            closing = [*self._closer.take(), *(source.aclose() for source in merge.sources)]
            await close_all(closing, self.cleanup_timeout)

    def _retire(self, source: LogSource) -> None:
        """Close a source that has ended, while the others continue."""
        self._closer.close(source)
        self._drained.set()

    async def _end(self) -> None:
        task = self._task
        assert task is not None
        if not task.done():  # without this check, a step with a timeout of 0 could not end the stream
            await asyncio.wait([task])
        self.closed = True
        if task.cancelled():
            raise LogStreamError(f"the task that reads the log of {self.query.app_id} was cancelled from outside")
        if (broken := self._error or task.exception()) is not None:
            raise broken
        if self.merge.failures:
            raise _incomplete(self.query.app_id, self.merge.failures)

    def shut(self) -> None:
        """Return no more lines, and let the task end."""
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
        retryable=all(isinstance(each.cause, SchedulerError) and each.cause.retryable for each in failures),
        why=str(cause) or type(cause).__name__,
        fix="read it again; `failures` says where each stopped",
    )
    error.__cause__ = cause
    return error


def _where(failure: ReplicaFailure, app_id: str) -> str:
    where = f"{failure.role}/{failure.replica}" if failure.replica >= 0 else failure.role or "all replicas"
    return where if failure.app_id == app_id else f"{failure.app_id}/{where}"
