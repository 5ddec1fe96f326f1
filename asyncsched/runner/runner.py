"""`Runner`: every operation, on apps of any mix of schedulers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Literal

from asyncsched._tasks import gather_bounded
from asyncsched.logs.budget import budget_of
from asyncsched.logs.select import LogQuery, check_stream, make_query
from asyncsched.logs.stream import LogStream
from asyncsched.runner.answers import AppEvent, app_def_of, status_of
from asyncsched.runner.launch import _LaunchingRunner
from asyncsched.runner.monitor import AppEventStream, CompletionStream
from asyncsched.runner.report import AppList
from asyncsched.runner.waiting import Ends, apps_of
from asyncsched.schedulers.responses import ListAppResponse
from asyncsched.schedulers.watch import StateStream
from asyncsched.specs.app import AppDef
from asyncsched.specs.handle import AppHandle, make_app_handle, parse_app_handle, scheduler_of
from asyncsched.specs.state import AppState, AppStatus
from asyncsched.specs.stream import Stream

__all__ = ["Runner", "get_runner"]


class Runner(_LaunchingRunner):
    """Launches, watches, reads and stops apps on any of several schedulers.

    Use it as ``async with Runner("me") as runner`` or keep it and call `close`; no task, scope or connection is open
    between two calls that nobody waits for. It belongs to the loop of its first await. Apps are named by their
    handles, whichever runner, session or process submitted them.

    Args:
        name: The session that submitted apps are marked with.
        schedulers: What it may use, by name: factories, or schedulers of the caller's, which it does not close. All
            that are installed by default.
        component_defaults: Arguments of components that are used where a call gives none, by component.
        scheduler_params: Parameters of schedulers by their names, such as ``mine={"region": "eu-west-1"}``. Their
            names are checked at once, and those of a plugin's parameters when its scheduler is first used.

    Attributes:
        clock: What tells the time to `wait` and `wait_all`.
    """

    # Looking

    async def status(self, handle: str) -> AppStatus | None:
        """Return how an app is doing; None if its scheduler does not know it."""
        handle = self._on(handle)
        with self._calls.call("status", handle.scheduler, handle.app_id):
            response = await (await self._backends.open(handle.scheduler)).describe(handle.app_id)
        if response is None:
            return None
        status = status_of(response, handle)
        self._seen.note(handle, status)
        return status

    async def describe(self, handle: str) -> AppDef | None:
        """Return the app as far as its scheduler can tell it; None if it does not know it."""
        handle = self._on(handle)
        with self._calls.call("describe", handle.scheduler, handle.app_id):
            response = await (await self._backends.open(handle.scheduler)).describe(handle.app_id)
        return None if response is None else app_def_of(response)

    async def wait(self, handle: str, timeout: float | None = None) -> AppStatus | None:
        """Wait until an app has ended and return its last status.

        Returns:
            None if the app is unknown from the start; its last status with the state UNKNOWN, and why, if it goes
            away while it is waited for.

        Raises:
            TimeoutError: It has not ended within `timeout` seconds; a note tells its last status. It runs on.
        """
        handle = self._on(handle)
        with self._calls.call("wait", handle.scheduler, handle.app_id):
            return (await self._ended([handle], timeout))[handle]

    async def wait_all(
        self, handles: str | Iterable[str], timeout: float | None = None
    ) -> dict[AppHandle, AppStatus | None]:
        """Wait until all apps have ended and return their last statuses, in the order of `handles`.

        Raises:
            TimeoutError: Some have not ended within `timeout` seconds; notes tell which. They run on.
        """
        self._enter()
        with self._calls.call("wait_all"):
            return await self._ended(handles, timeout)

    def as_completed(self, handles: str | Iterable[str]) -> CompletionStream:
        """Return a stream of (handle, last status) pairs, in the order in which the apps end."""
        self._check_open()
        with self._calls.call("as_completed"):
            return CompletionStream(self._watch(handles))

    def watch(self, handles: str | Iterable[str] = (), *, follow: bool = False) -> AppEventStream:
        """Return a stream of the apps' states: the present one of each first, then each change.

        It ends when all have ended or are gone; with `follow` it stays open for apps that are added later. A handle
        that is none, and a scheduler that is not known, are told here; one that cannot be used, by the first step.
        """
        self._check_open()
        with self._calls.call("watch"):
            return self._watch(handles, follow=follow)

    def _watch(self, handles: str | Iterable[str], *, follow: bool = False) -> AppEventStream:
        several = [handles] if isinstance(handles, str) else handles
        stream = AppEventStream(several, self._states, check=self._backends.check, follow=follow, on_event=self._saw)
        self._watches.add(stream)
        return stream

    async def _states(self, scheduler: str) -> StateStream:
        return (await self._backends.open(scheduler)).watch(follow=True)

    def _saw(self, event: AppEvent) -> None:
        if event.current is not None:
            self._seen.note(event.handle, event.current)

    async def monitor(self, *handles: str) -> None:
        """Show a table of apps in a notebook's cell that updates itself until all have ended.

        Stopping the cell detaches: the apps run on, and the table stays as it was.

        Raises:
            MissingExtraError: This is no notebook.
        """
        self._enter()
        apps = await apps_of(handles)
        from asyncsched.runner.notebook import show_events  # only notebooks pay for it

        with self._calls.call("monitor"):
            for scheduler in {scheduler for scheduler, _ in apps.values()}:
                await self._backends.open(scheduler)  # what cannot be used is told before a table is shown
            await show_events([*apps], self._watch(apps), self.clock)

    async def _ended(self, handles: str | Iterable[str], timeout: float | None) -> dict[AppHandle, AppStatus | None]:
        apps = await apps_of(handles)
        ends = Ends(self._seen)
        limit = self.clock.timeout(timeout)
        async with self._watch(apps) as events:
            try:
                async with limit:
                    async for event in events:
                        ends.note(event)
            except TimeoutError:
                if not limit.expired:
                    raise
        return await ends.of(apps, timeout)

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
        """Return the lines of the replicas of one app or of many, merged in the order of their arrival.

        Each line knows its app. The other arguments are those of `Scheduler.log_iter`, and hold for every app. Wrong
        arguments raise here; an app that does not exist raises `UnknownAppError` at the first step. If a service
        fails, the logs of the apps of others are read to their end first.
        """
        self._check_open()
        several = [handles] if isinstance(handles, str) else list(handles)
        with self._calls.call("log_lines"):
            schedulers = set(map(scheduler_of, several))
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
            check_stream(query, self._backends.log_streams(schedulers))
            stream = LogStream.gathered(query, partial(self._log_parts, several, query))
        self._log_streams.add(stream)
        return stream

    async def _log_parts(self, handles: Sequence[str], query: LogQuery) -> AsyncGenerator[LogStream]:
        budget = budget_of(asyncio.get_running_loop())
        for handle in handles:
            scheduler, _, app_id = parse_app_handle(handle)
            yield (await self._backends.open(scheduler))._read_log(query._replace(app_id=app_id))
            await budget.breathe()

    # Ending

    async def cancel(self, handle: str) -> None:
        """Ask for an app's end and return without waiting for it; nothing happens to an unknown or finished one."""
        handle = self._on(handle)
        with self._calls.call("cancel", handle.scheduler, handle.app_id):
            await (await self._backends.open(handle.scheduler)).cancel(handle.app_id)

    async def delete(self, handle: str) -> None:
        """Remove an app that has ended, with its logs and state; an unknown one is gone already.

        Raises:
            ConflictError: The app still runs.
        """
        handle = self._on(handle)
        with self._calls.call("delete", handle.scheduler, handle.app_id):
            await (await self._backends.open(handle.scheduler)).delete(handle.app_id)

    # `list` stands last: as a method it would hide the builtin for the annotations below it.

    async def list(
        self,
        scheduler: str | None = None,
        *,
        states: Collection[AppState] | None = None,
        since: datetime | timedelta | None = None,
        limit: int | None = None,
    ) -> AppList:
        """Return one row for each app that was submitted through asyncsched, newest first.

        Args:
            scheduler: The scheduler to ask, whose failure is raised. By default all are asked at once, and one that
                fails is told in the result's `failures` beside the others' rows.
            states: Only apps in these states.
            since: Only apps that were submitted from this time on.
            limit: At most so many.
        """
        self._enter()
        with self._calls.call("list", scheduler or ""):
            if scheduler is not None:
                return AppList(await self._rows(scheduler, states, since, limit))
            return await self._rows_of_all(states, since, limit)

    async def _rows_of_all(
        self, states: Collection[AppState] | None, since: datetime | timedelta | None, limit: int | None
    ) -> AppList:
        rows: list[ListAppResponse] = []
        failures: dict[str, Exception] = {}

        async def ask(scheduler: str) -> None:
            try:
                rows.extend(await self._rows(scheduler, states, since, limit))
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one, the others' rows are wanted
                failures[scheduler] = error

        names = await self._backends.names()
        await gather_bounded(ask, names, len(names))
        return AppList(sorted(rows, key=_newest_first)[:limit], failures)

    async def _rows(
        self,
        scheduler: str,
        states: Collection[AppState] | None,
        since: datetime | timedelta | None,
        limit: int | None,
    ) -> Sequence[ListAppResponse]:
        backend = await self._backends.open(scheduler)
        found = await backend.list(states=states, since=since, limit=limit)
        budget = budget_of(asyncio.get_running_loop())
        rows: list[ListAppResponse] = []
        for row in found:
            # A caller may have given the scheduler another name here than it has by itself.
            rows.append(replace(row, app_handle=make_app_handle(scheduler, row.session, row.app_id)))
            await budget.breathe()
        return rows


def get_runner(
    name: str = "",
    component_defaults: Mapping[str, Mapping[str, object]] | None = None,
    **scheduler_params: Mapping[str, object],
) -> Runner:
    """Make a runner with all schedulers that are installed."""
    return Runner(name, None, component_defaults, **scheduler_params)


def _newest_first(row: ListAppResponse) -> float:
    return -row.created_at.timestamp() if row.created_at is not None else 0.0  # unknown: behind all that are known
