"""The part of `Runner` that streams the states and the logs of apps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Collection, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Literal, Unpack

from asyncsched.logs.loop_time import budget_of
from asyncsched.logs.query import LogArguments, LogQuery, check_stream, make_query
from asyncsched.logs.stream import LogStream
from asyncsched.runner.convert import AppEvent
from asyncsched.runner.runner_base import _RunnerBase
from asyncsched.runner.watch import AppEventStream
from asyncsched.schedulers.state_stream import StateStream
from asyncsched.specs.given import as_several
from asyncsched.specs.handle import parse_app_handle, schedulers_of
from asyncsched.specs.stream import Stream


class _StreamingRunner(_RunnerBase):
    """The streams of logs, and of states, on which other operations are built."""

    def _watch(self, handles: str | Iterable[str], *, follow: bool = False) -> AppEventStream:
        several = as_several("handles", handles, "a handle")
        stream = AppEventStream(several, self._states, check=self._backends.check, follow=follow, on_event=self._saw)
        self._watches.add(stream)
        return stream

    async def _states(self, scheduler: str) -> StateStream:
        return (await self._backends.open(scheduler)).watch(follow=True)

    def _saw(self, event: AppEvent) -> None:
        if event.current is not None:
            self._seen.note(event.handle, event.current)

    # Reading logs

    def log_lines(
        self,
        handles: str | Iterable[str],
        role_name: str | Collection[str] = "",
        k: int | Iterable[int] | None = None,
        regex: str | None = None,
        since: datetime | timedelta | None = None,
        until: datetime | timedelta | None = None,
        should_tail: bool = False,
        streams: Stream | None = None,
        *,
        tail_lines: int | None = None,
        attempts: int | Iterable[int] | None = None,
        gaps: Literal["tell", "raise"] = "tell",
    ) -> LogStream:
        """Return the log lines of one app or many, merged in order of arrival.

        Each line knows its app. The other arguments are those of `Scheduler.log_iter` and apply to every app. Invalid
        arguments raise here; an app that does not exist raises `UnknownAppError` at the first step. If a service fails,
        the logs of the other services' apps are read to their end before the error is raised.
        """
        self._check_open()
        several = as_several("handles", handles, "a handle")
        with self._calls.call("log_lines"):
            schedulers = schedulers_of(several)
            self._backends.check(schedulers)
            query = make_query(
                several[0] if len(several) == 1 else f"{len(several)} apps",
                role_name,
                k,
                regex,
                since,
                until,
                should_tail,
                streams,
                tail_lines=tail_lines,
                attempts=attempts,
                gaps=gaps,
                clock=self.clock,
            )
            check_stream(query, self._backends.log_streams(schedulers), schedulers)
            stream = LogStream.gathered(query, partial(self._log_parts, _one_by_one(several), query))
        self._log_streams.add(stream)
        return stream

    async def _log_parts(self, handles: AsyncIterable[str], query: LogQuery) -> AsyncGenerator[LogStream]:
        budget = budget_of(asyncio.get_running_loop())
        async for handle in handles:
            scheduler, _, app_id = parse_app_handle(handle)
            yield (await self._backends.open(scheduler))._read_log(query._replace(app_id=app_id))
            await budget.breathe()

    def _lines_of(
        self, handles: AsyncIterable[str], schedulers: Collection[str], what: str, **arguments: Unpack[LogArguments]
    ) -> LogStream:
        """Do the same as `log_lines` for apps whose handles arrive over time."""
        self._check_open()
        with self._calls.call("log_lines"):
            query = make_query(what, **arguments, clock=self.clock)
            check_stream(query, self._backends.log_streams(schedulers), schedulers)
            stream = LogStream.growing(query, partial(self._log_parts, handles, query))
        self._log_streams.add(stream)
        return stream


async def _one_by_one(handles: Sequence[str]) -> AsyncGenerator[str]:
    for handle in handles:
        yield handle
