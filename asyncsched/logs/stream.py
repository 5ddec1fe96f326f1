"""`LogStream`: what `log_iter` returns."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator, Sequence
from functools import partial
from operator import length_hint
from typing import TYPE_CHECKING

from asyncsched._streams import SteppedStream
from asyncsched._typing import NamedTuple, override
from asyncsched.logs.line import LogLine
from asyncsched.logs.query import LogQuery

if TYPE_CHECKING:
    from asyncsched.logs.engine import LogCore, LogSink, OpenLogs
    from asyncsched.logs.many_apps import Opening

__all__ = ["LogStatistics", "LogStream"]


class LogStatistics(NamedTuple):
    """The statistics of a log stream.

    Attributes:
        lines: Lines that were returned.
        gaps: Gaps that were reported.
        sources: Sources that were opened.
        live: Sources that have not ended.
        failures: Sources that failed.
        waiting: Lines that were read and wait for the consumer.
    """

    lines: int
    gaps: int
    sources: int
    live: int
    failures: int
    waiting: int


class LogStream(SteppedStream[LogLine, "LogCore"]):
    """The lines of an app, as an async generator that survives a cancelled step.

    Nothing is opened before the first step. A step that is cancelled or times out loses no line; the next one
    continues. To end the stream with all its tasks and connections, call `aclose` (or use ``async with``), break out of
    the loop and drop it, or read to its end. Different tasks of one loop may take steps, but not two at the same time
    (RuntimeError).
    """

    def __init__(self, query: LogQuery, open_logs: OpenLogs, *, cleanup_timeout: float = 10.0) -> None:
        from asyncsched.logs.engine import LogCore  # imported late: only reading logs needs it

        super().__init__(LogCore(query, open_logs, cleanup_timeout))
        self._ready: Iterator[LogLine] = iter(())  # over the last batch; a copy would cost a tenth of the whole time
        self._dropped = 0  # lines that were read, but not taken before the stream closed

    @classmethod
    def merged(cls, streams: Sequence[LogStream]) -> LogStream:
        """Return one stream of the lines of several apps, from any schedulers, with the same guarantees.

        Args:
            streams: The streams that `log_iter` returned for the apps, with the same selection of lines. They must not
                have begun, and cannot be used afterwards. Closing one of them, as its scheduler does, closes the
                merged stream.
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
        """Return one stream of the lines of several streams that are created at its first step.

        Args:
            query: The query of all of them.
            parts: Creates them, in steps that do not hold the loop. Its errors are raised by the merged stream.
        """
        from asyncsched.logs.engine import open_nothing
        from asyncsched.logs.many_apps import open_all

        whole = cls(query, open_nothing)
        core = whole._core  # not the stream, to which only its user may hold a reference

        async def open_parts(query: LogQuery, sink: LogSink) -> None:
            await open_all([part._join(core) async for part in parts()], query, sink)

        core.open_logs = open_parts
        return whole

    @classmethod
    def growing(cls, query: LogQuery, parts: Callable[[], AsyncIterable[LogStream]]) -> LogStream:
        """Return one stream of the lines of several streams, each read as soon as `parts` yields it."""
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
        """Let `core` read this stream's lines; from now on, closing this closes the merged stream."""
        opening = self._core.query, self._core.open_logs
        core.cleanup_timeout = max(core.cleanup_timeout, self._core.cleanup_timeout)
        core.parts.append(self)
        self._core = core
        return opening

    async def __anext__(self) -> LogLine:
        for line in self._ready:  # no await per line
            return line
        self._ready = iter(await self._alone(self._core.step))
        return next(self._ready)

    @override
    async def aclose(self) -> None:
        """End the stream; when this returns, its tasks and connections have ended. Idempotent."""
        self._core.shut()
        self._dropped += self._waiting
        self._ready = iter(())
        await self._core.aclose()

    async def fail(self, error: BaseException) -> None:
        """End the stream as `aclose` does; its consumer gets `error` instead of a normal end."""
        self._core.fail(error)
        await self.aclose()

    @property
    def _waiting(self) -> int:
        return length_hint(self._ready)  # exact for the iterator of a sequence

    def is_terminal(self, app_id: str) -> bool:
        """Return whether all lines of one of its apps have been taken; others may still write."""
        return not self._waiting and self._core.merge.is_over(app_id)

    def statistics(self) -> LogStatistics:
        """Return the stream's statistics."""
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
