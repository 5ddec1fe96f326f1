"""`LogStream`: what `log_iter` returns."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator, Sequence
from functools import partial
from operator import length_hint
from typing import TYPE_CHECKING, NamedTuple

from asyncsched._streams import SteppedStream
from asyncsched._typing import override
from asyncsched.logs.line import LogLine
from asyncsched.logs.query import LogQuery

if TYPE_CHECKING:
    from asyncsched.logs.engine import LogCore, LogSink, OpenLogs
    from asyncsched.logs.many_apps import Opening

__all__ = ["LogStatistics", "LogStream"]


class LogStatistics(NamedTuple):
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


class LogStream(SteppedStream[LogLine, "LogCore"]):
    """The lines of an app, as an async generator that a cancelled step does not end.

    Nothing is opened before the first step. A step that is cancelled or times out loses nothing: the next one goes
    on. Leave it by `aclose` (or ``async with``), by breaking out of the loop and dropping it, or by reading to its
    end: each ends every task and connection of it. Steps may come from different tasks of one loop, but not two at
    the same time (RuntimeError).
    """

    def __init__(self, query: LogQuery, open_logs: OpenLogs, *, cleanup_timeout: float = 10.0) -> None:
        from asyncsched.logs.engine import LogCore  # half of the engine: loaded with the first log

        super().__init__(LogCore(query, open_logs, cleanup_timeout))
        self._ready: Iterator[LogLine] = iter(())  # over what was handed on last: to copy it would cost a tenth of all
        self._dropped = 0  # lines that were read, but not taken before it was closed

    @classmethod
    def merged(cls, streams: Sequence[LogStream]) -> LogStream:
        """Return one stream of the lines of several apps, of whatever schedulers, with the same guarantees.

        Args:
            streams: What `log_iter` returned for each of them, with the same selection of lines. They must not have
                begun, and are used up. To close one of them, as its scheduler does, is to close the whole.
        """
        if len(streams) == 1:
            return streams[0]
        from asyncsched.logs.engine import open_nothing
        from asyncsched.logs.many_apps import open_all

        first = streams[0]._core.query if streams else LogQuery(app_id="")
        whole = cls(first._replace(app_id=f"{len(streams)} apps"), open_nothing, cleanup_timeout=0.0)
        openings = [stream._join(whole._core) for stream in streams]
        whole._core.open_logs = partial(open_all, openings)
        return whole

    @classmethod
    def gathered(cls, query: LogQuery, parts: Callable[[], AsyncIterable[LogStream]]) -> LogStream:
        """Return the same of streams that are made by its first step: of thousands, or by what is not there yet.

        Args:
            query: What is asked of all of them.
            parts: Makes them, in steps that do not hold the loop. What it raises is raised by the whole.
        """
        from asyncsched.logs.engine import open_nothing
        from asyncsched.logs.many_apps import open_all

        whole = cls(query, open_nothing)
        core = whole._core  # and not the stream, which nothing but its user may hold

        async def open_parts(query: LogQuery, sink: LogSink) -> None:
            await open_all([part._join(core) async for part in parts()], query, sink)

        core.open_logs = open_parts
        return whole

    @classmethod
    def growing(cls, query: LogQuery, parts: Callable[[], AsyncIterable[LogStream]]) -> LogStream:
        """Return the same of streams each of which is read as soon as it is there, while others are still to come."""
        from asyncsched.logs.engine import open_nothing
        from asyncsched.logs.many_apps import open_growing

        whole = cls(query, open_nothing)
        core = whole._core

        async def openings() -> AsyncGenerator[Opening]:
            async for part in parts():
                yield part._join(core)

        async def open_parts(query: LogQuery, sink: LogSink) -> None:
            await open_growing(openings(), sink)

        core.open_logs = open_parts
        return whole

    def _join(self, core: LogCore) -> Opening:
        """Leave to `core` what this stream would have read; to close this is to close the whole from now on."""
        opening = self._core.query, self._core.open_logs
        core.cleanup_timeout = max(core.cleanup_timeout, self._core.cleanup_timeout)
        core.parts.append(self)
        self._core = core
        return opening

    async def __anext__(self) -> LogLine:
        for line in self._ready:  # nothing awaits per line
            return line
        self._ready = iter(await self._alone(self._core.step))
        return next(self._ready)

    @override
    async def aclose(self) -> None:
        """End the stream: its tasks and connections are gone when this returns. Idempotent."""
        self._core.shut()
        self._dropped += self._waiting
        self._ready = iter(())
        await self._core.aclose()

    async def fail(self, error: BaseException) -> None:
        """End the stream as `aclose` does; its consumer gets `error` and not an end that looks like the logs' own."""
        self._core.fail(error)
        await self.aclose()

    @property
    def _waiting(self) -> int:
        return length_hint(self._ready)  # exact for the iterator of a sequence

    def is_terminal(self, app_id: str) -> bool:
        """Tell whether the log of one of its apps has ended and all its lines were taken; others may still write."""
        return not self._waiting and self._core.merge.is_over(app_id)

    def statistics(self) -> LogStatistics:
        """Return what the stream has done so far."""
        merge = self._core.merge
        return LogStatistics(
            lines=merge.lines - self._waiting - self._dropped,
            gaps=merge.gaps,
            sources=merge.opened,
            live=merge.live,
            failures=len(merge.failures),
            waiting=self._waiting,
        )

    def __repr__(self) -> str:
        return f"<LogStream {self._core.query.app_id} {self._core.state} {self.statistics().lines} lines>"
