"""The scheduler interface: what every backend offers and supplies.

**Cancellation.** ``describe, exists, list, watch, log_iter`` stop at once and do not affect the job. ``submit,
schedule``: before the request that creates the job, nothing exists; after it, everything that was created is removed,
shielded from further cancellation, within `Scheduler.cleanup_timeout` seconds, and then the cancellation continues. A
warning and a note on the exception name what could not be removed. ``cancel, delete`` may already have taken effect.

**Identity.** The dry-run fixes the app id. Scheduling one dry-run twice submits once, on every backend and from any
process. `AppDryRunInfo.renew` gives a new id. With a `key` the id is derived from session and key: submitting again
returns the same app, or raises `ConflictError` if another app was submitted with it.

**Loops.** A scheduler does no I/O before its first await, and belongs to the loop of that await; on another loop it
raises `WrongLoopError`. ``close`` never raises and may be called twice.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Awaitable, Collection, Iterable, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, Unpack

from asyncsched._parts import whole
from asyncsched._streams import for_one
from asyncsched._tasks import close_all
from asyncsched.errors import AsyncSchedError, ClosedError
from asyncsched.logs.query import LogQuery, check_stream, make_query, to_ns
from asyncsched.logs.stream import LogStream
from asyncsched.schedulers.arguments import check_app_id, check_app_ids, check_rows
from asyncsched.schedulers.hooks import OptsT, RequestT
from asyncsched.schedulers.lifetime import SchedulerBounds, Tunables
from asyncsched.schedulers.lines import filter_regex, split_lines, split_lines_iterator
from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse
from asyncsched.schedulers.state_stream import FeedStatistics, StateStream
from asyncsched.schedulers.submitting import Submitting
from asyncsched.specs.run_options import runopts
from asyncsched.specs.state import AppState
from asyncsched.specs.stream import Stream

if TYPE_CHECKING:
    from asyncsched.logs.engine import LogSink
    from asyncsched.schedulers.feed import StateFeed

__all__ = ["Scheduler", "filter_regex", "split_lines", "split_lines_iterator"]


@whole(SchedulerBounds)
class Scheduler(Submitting[OptsT, RequestT]):
    """A place where apps run. Operations are coroutines; logs and states are async generators.

    A backend declares `options`, implements the hooks of `SchedulerHooks`, and never overrides a public method:
    public methods do what is the same everywhere (checks, timeouts, idempotency, merging of logs, sharing of states).

    Args:
        backend: The registered name of the scheduler.
        session_name: The session of submitted apps.
        request_timeout: Timeout in seconds of one request to the service.
        retry_for: Timeout in seconds of a whole operation, including retries.
        cleanup_timeout: Timeout in seconds for closing, and for removing a submit that failed half-way.
        clock: The time source for all waits; a test may pass a `VirtualClock`.

    Raises:
        MalformedHandleError: The session's name is not valid in a handle.
    """

    def __init__(self, backend: str, session_name: str, **tunables: Unpack[Tunables]) -> None:
        super().__init__(backend, session_name, **tunables)
        self._feed: StateFeed | None = None
        self._log_streams: weakref.WeakSet[LogStream] = weakref.WeakSet()

    # Reading states

    async def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Describe an app, whichever process submitted it; return None if it does not exist."""
        self._on(app_id)
        return await self._within("describe", self._describe(app_id))

    async def describe_many(self, app_ids: Iterable[str]) -> dict[str, DescribeAppResponse | None]:
        """Describe many apps in as few calls as the service allows; the result is in the order of `app_ids`."""
        self._enter()
        return await self._within("describe_many", self._gather(check_app_ids(app_ids)))

    async def _gather(self, app_ids: Sequence[str]) -> dict[str, DescribeAppResponse | None]:
        found: dict[str, DescribeAppResponse | None] = dict.fromkeys(app_ids)
        async with aclosing(self._sweep(app_ids)) as sweep:
            async for answers in sweep:
                for app_id, answer in answers.items():
                    if isinstance(answer, AsyncSchedError):
                        raise answer
                    found[app_id] = answer
        return found

    async def exists(self, app_id: str) -> bool:
        """Return whether the scheduler knows the app."""
        return await self.describe(app_id) is not None

    def watch(self, app_ids: Iterable[str] = (), *, follow: bool = False) -> StateStream:
        """Return a stream of the apps' states: first the present state of each, then each change.

        The stream ends when all apps have ended or are gone; with `follow` it stays open for apps that are added later.
        All streams of a scheduler share one feed. Use the stream on the scheduler's loop.
        """
        self._check_open()
        return self._states().stream(check_app_ids(app_ids), follow=follow)

    def watch_statistics(self) -> FeedStatistics | None:
        """Return the statistics of the feed that all watches share; None before the first watch."""
        return self._feed.statistics() if self._feed is not None else None

    def _states(self) -> StateFeed:
        if self._feed is None:
            from asyncsched.schedulers.feed import StateFeed  # loaded with the first watch

            self._feed = StateFeed(
                self.backend,
                self._sweep,
                clock=self.clock,
                push=self._push_states if self.pushes_states else None,
                calls_per_second=self.calls_per_second,
                shortest=self.poll_interval,
            )
        return self._feed

    # Closing

    async def close(self) -> None:
        """End every task, connection and watcher of this scheduler. Never raises; idempotent."""
        if self._closed:
            return
        self._closed = True
        closed = ClosedError(f"{self.backend} was closed while its logs were read")
        closing: list[Awaitable[object]] = [stream.fail(for_one(closed)) for stream in list(self._log_streams)]
        if self._feed is not None:
            closing.append(self._feed.close())
        try:
            await close_all(closing, self.cleanup_timeout)
        finally:  # a cancelled close closes everything too
            await close_all([self._close()], self.cleanup_timeout)

    async def __aenter__(self) -> Self:
        self._enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Reading logs

    def log_iter(
        self,
        app_id: str,
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
        """Return the lines of an app's replicas, merged in order of arrival.

        Each line comes once and whole, and the lines of a replica's stream come in the order of writing. Wrong
        arguments raise here; an app, role or replica that does not exist raises `UnknownAppError` at the first step.

        Args:
            app_id: The app.
            role_name: One role or several; all by default.
            k: One replica number or several; all by default.
            regex: Only lines that match (`re.search` on the line without its newline).
            since: Only lines from this time on. A naive datetime is local time; a timedelta is a time before now.
            until: Only lines before this time.
            should_tail: Wait for new lines, and for replicas that start late or restart, until the app has ended;
                without it the stream ends at the logs' present end.
            streams: stdout, stderr, or both (the default). Backends that cannot separate them raise ValueError.
            tail_lines: Begin with this many last lines of each replica; `regex` then filters them.
            attempts: Only these runs of a replica, counted from 0.
            gaps: ``tell`` returns a line with `gap` set where lines are missing; ``raise`` raises `LogStreamError`
                at the end.
        """
        check_app_id(app_id)
        query = make_query(
            app_id,
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
        return self._read_log(query)

    def _read_log(self, query: LogQuery) -> LogStream:
        """Do what `log_iter` does, with checked arguments."""
        self._check_open()
        check_stream(query, self.log_streams, [self.backend])
        stream = LogStream(query, self._open_logs, cleanup_timeout=self.cleanup_timeout)
        self._log_streams.add(stream)
        return stream

    async def _open_logs(self, query: LogQuery, sink: LogSink) -> None:
        from asyncsched.schedulers.log_opener import LogOpener  # imported late: only reading logs needs it

        opener = LogOpener(
            describe=self.describe,
            watch=lambda app_id: self.watch([app_id]),
            sources=self._log_sources,
            clock=self.clock,
            place=lambda: self.place,
        )
        await opener(query, sink)

    # Options and lists

    async def run_opts(self) -> runopts:
        """Return the run options that `submit` accepts: names, types, defaults and help."""
        return runopts.of(self.options)

    async def list_iter(
        self, *, states: Collection[AppState] | None = None, since: datetime | timedelta | None = None
    ) -> AsyncGenerator[ListAppResponse]:
        """Yield one row for each app that asyncsched submitted, newest first, page by page."""
        self._enter()
        check_rows(states, since, None)
        since_ns = to_ns(since, self.clock)
        async with aclosing(self._list()) as rows:
            # Each step fetches at most one page, so the timeout applies to a page, not to the whole list.
            while (row := await self._within("list", anext(rows, None))) is not None:
                if since_ns is not None and row.created_at and (to_ns(row.created_at, self.clock) or 0) < since_ns:
                    return  # newest first, so all others are older
                if states is None or row.state in states:
                    yield row

    async def _rows(
        self, states: Collection[AppState] | None, since: datetime | timedelta | None, limit: int | None
    ) -> Sequence[ListAppResponse]:
        check_rows(states, since, limit)
        rows: list[ListAppResponse] = []
        if limit is not None and limit <= 0:
            return rows
        async with aclosing(self.list_iter(states=states, since=since)) as found:
            async for row in found:
                rows.append(row)
                if limit is not None and len(rows) >= limit:
                    break
        return rows

    # `list` is last: as a method it would hide the builtin in the annotations below it.

    async def list(
        self,
        *,
        states: Collection[AppState] | None = None,
        since: datetime | timedelta | None = None,
        limit: int | None = None,
    ) -> Sequence[ListAppResponse]:
        """Return the rows of `list_iter`, at most `limit`."""
        return await self._rows(states, since, limit)
