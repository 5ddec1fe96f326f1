"""`Runner`: the methods for apps on any mix of schedulers."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Never, Unpack

from asyncsched._parts import whole
from asyncsched._tasks import gather_bounded
from asyncsched.logs.loop_time import budget_of
from asyncsched.logs.query import LogSelection
from asyncsched.runner.activity import ActivityStream
from asyncsched.runner.convert import app_def_of, status_of
from asyncsched.runner.results import AppList, AppStatuses
from asyncsched.runner.runner_base import _RunnerBase
from asyncsched.runner.runner_groups import _GroupingRunner
from asyncsched.runner.runner_host import RunnerHost
from asyncsched.runner.runner_many import _ManyRunner
from asyncsched.runner.waiting import WaitResult, apps_of, check_wait, raise_unless_succeeded
from asyncsched.runner.watch import AppEventStream, CompletionStream
from asyncsched.schedulers.arguments import check_group, check_rows
from asyncsched.schedulers.responses import ListAppResponse
from asyncsched.specs.app import AppDef
from asyncsched.specs.given import as_flat, as_several
from asyncsched.specs.handle import AppHandle, make_app_handle
from asyncsched.specs.state import AppState, AppStatus

__all__ = ["Runner", "get_runner"]


@whole(_RunnerBase)
class Runner(_GroupingRunner, _ManyRunner):
    """Launches, watches, reads and stops apps on several schedulers.

    Use it as ``async with Runner("me") as runner``, or keep it and call `close`. It belongs to the event loop of its
    first await, and between calls keeps no task or connection open that nothing waits for. Apps are identified by
    their handles, whichever runner, session or process submitted them.

    Args:
        name: The session that submitted apps belong to.
        schedulers: The schedulers it may use, by name: factories, or scheduler objects, which it does not close. By
            default all installed ones.
        component_defaults: Default arguments by component, for calls that do not give them.
        scheduler_params: Parameters by scheduler, such as ``mine={"region": "eu-west-1"}``. They are checked at once;
            those of plugins when the scheduler is first used.

    Attributes:
        clock: The clock that `wait` and `wait_all` use.
    """

    # Status

    async def status(self, handle: str) -> AppStatus | None:
        """Return the status of an app; None if its scheduler does not know it."""
        handle = self._on(handle)
        with self._calls.call("status", handle.scheduler, handle.app_id):
            response = await (await self._backends.open(handle.scheduler)).describe(handle.app_id)
        if response is None:
            return None
        status = status_of(response, handle)
        self._seen.note(handle, status)
        return status

    async def describe(self, handle: str) -> AppDef | None:
        """Return an app's definition, as far as its scheduler knows it; None if it does not know the app."""
        handle = self._on(handle)
        with self._calls.call("describe", handle.scheduler, handle.app_id):
            response = await (await self._backends.open(handle.scheduler)).describe(handle.app_id)
        return None if response is None else app_def_of(response)

    async def wait(
        self, handle: str, *surplus: Never, timeout: float | None = None, check: bool = False
    ) -> AppStatus | None:
        """Wait until an app has ended and return its last status.

        Args:
            handle: The app.
            surplus: Not allowed. A second positional argument has another meaning in TorchX, so it is refused.
            timeout: The maximum time to wait in seconds; None waits without a limit.
            check: Raise an error unless the app succeeded.

        Returns:
            The last status; None if the app was unknown from the start. If the app disappears during the wait, the
            state is UNKNOWN and the message says why.

        Raises:
            WaitTimeoutError: The app did not end within `timeout` seconds; a note has its last status. The app keeps
                running.
            AppStatusError: With `check`, the app did not succeed; the error's `status` is its last status.
            UnknownAppError: With `check`, the app does not exist.
        """
        handle = self._on(handle)
        check_wait(surplus, timeout)
        with self._calls.call("wait", handle.scheduler, handle.app_id):
            status = (await self._ended([handle], timeout))[handle]
            if check:
                raise_unless_succeeded(handle, status)
            return status

    async def wait_all(self, handles: str | Iterable[str], timeout: float | None = None) -> AppStatuses:
        """Wait until all apps have ended and return their last statuses, in the order of `handles`.

        Returns:
            The statuses by handle; they print as a table. None for an app that was unknown from the start.

        Raises:
            WaitTimeoutError: Some apps did not end within `timeout` seconds; notes list them. They keep running.
        """
        self._enter()
        check_wait((), timeout)
        with self._calls.call("wait_all"):
            return AppStatuses(await self._ended(handles, timeout))

    def as_completed(self, handles: str | Iterable[str]) -> CompletionStream:
        """Return a stream of (handle, last status) pairs in the order in which apps end."""
        self._check_open()
        with self._calls.call("as_completed"):
            return CompletionStream(self._watch(handles))

    def watch(self, handles: str | Iterable[str] = (), *, follow: bool = False) -> AppEventStream:
        """Return a stream of states: the current state of each app first, then each change.

        The stream ends when all apps have ended or are gone; with `follow` it stays open for apps to be added.
        Malformed handles and unknown schedulers raise here; a scheduler that cannot be used raises at the first step.
        """
        self._check_open()
        with self._calls.call("watch"):
            return self._watch(handles, follow=follow)

    async def monitor(self, *handles: str | Iterable[str]) -> None:
        """Show a live table of apps until all have ended: in a notebook's cell, or in the terminal.

        Stopping the cell, or leaving the terminal's table with ``q``, only detaches: the apps keep running. While the
        table has the terminal, it handles Ctrl-Z and resizing; Ctrl-C closes it and is then passed on to the program,
        and so are SIGTERM and SIGHUP if the program does not handle them itself.

        Raises:
            MissingExtraError: This is neither a notebook nor a terminal with the extra ``tui``.
        """
        self._enter()
        apps = await apps_of(as_flat("handles", handles, "a handle"))
        from asyncsched.runner.notebook import AppTable, is_notebook, show_events  # imported on first use
        from asyncsched.tui.run import can_show, show

        with self._calls.call("monitor"):
            for scheduler in {scheduler for scheduler, _ in apps.values()}:
                await self._backends.open(scheduler)  # a scheduler that cannot be used raises before a table is shown
            if not is_notebook() and can_show():
                from asyncsched.runner.shown_apps import ShownApps

                await show(ShownApps(RunnerHost(self), self._watch(apps)), leaves=True)
                return
            await show_events(AppTable([*apps]), self._watch(apps), self.clock)

    async def show_log(self, *handles: str | Iterable[str]) -> None:
        """Show the log of apps in a notebook's cell and follow it until all have ended.

        The box has a bounded height and keeps the last lines. Stopping the cell only detaches: the apps keep running,
        and running the cell again continues the log after its last line, as long as this runner is open.

        Raises:
            MissingExtraError: This is not a notebook.
        """
        self._enter()
        several = as_flat("handles", handles, "a handle")
        from asyncsched.runner.notebook import LogBoxes, check_notebook, show_lines  # imported on first use

        check_notebook("log", "log_lines")
        if self._log_boxes is None:
            self._log_boxes = LogBoxes()
        with self._calls.call("show_log"):
            box = await self._log_boxes.get(several, lambda: self.log_lines(several, should_tail=True))
            await show_lines(box, self.clock)

    async def _ended(self, handles: str | Iterable[str], timeout: float | None) -> dict[AppHandle, AppStatus | None]:
        apps = await apps_of(handles)
        result = WaitResult(self._seen)
        limit = self.clock.timeout(timeout)
        async with self._watch(apps) as events:
            try:
                async with limit:
                    async for event in events:
                        result.note(event)
            except TimeoutError:
                if not limit.expired:
                    raise
        return await result.statuses(apps, timeout)

    def events(self, handles: str | Iterable[str], **selection: Unpack[LogSelection]) -> ActivityStream:
        """Return states and log lines of apps in one stream; each item is an `AppEvent` or a `LogLine`.

        The stream ends when all apps have ended and their logs were read. The keywords select lines as in `log_lines`;
        they do not filter states. Errors are raised as in `watch` and `log_lines`.
        """
        self._check_open()
        several = as_several("handles", handles, "a handle")
        lines = self.log_lines(several, should_tail=True, **selection)
        return ActivityStream(self._watch(several), lines)

    # Ending

    async def cancel(self, handle: str) -> None:
        """Cancel an app and return without waiting for its end. Does nothing for an unknown or finished app."""
        handle = self._on(handle)
        with self._calls.call("cancel", handle.scheduler, handle.app_id):
            await (await self._backends.open(handle.scheduler)).cancel(handle.app_id)

    async def delete(self, handle: str) -> None:
        """Delete an app that has ended, and its logs and state. Does nothing for an unknown app.

        Raises:
            ConflictError: The app is still running.
        """
        handle = self._on(handle)
        with self._calls.call("delete", handle.scheduler, handle.app_id):
            await (await self._backends.open(handle.scheduler)).delete(handle.app_id)

    # `list` comes last: the method hides the builtin in the annotations below it.

    async def list(
        self,
        scheduler: str | None = None,
        *,
        states: Collection[AppState] | None = None,
        since: datetime | timedelta | None = None,
        limit: int | None = None,
        group: str | None = None,
    ) -> AppList:
        """Return one row for each app submitted through asyncsched, newest first.

        Args:
            scheduler: List this scheduler only, and raise its errors. By default all schedulers are listed
                concurrently, and errors are in the result's `failures`.
            states: Only apps in these states.
            since: Only apps submitted from this time on.
            limit: The maximum number of rows.
            group: Only apps of this group, whichever process started them.
        """
        self._enter()
        check_rows(states, since, limit)
        check_group(group)
        if scheduler is not None:
            scheduler = self._backends.chosen(scheduler)
        with self._calls.call("list", scheduler or ""):
            if scheduler is not None:
                return AppList(await self._rows(scheduler, states, since, limit, group))
            return await self._rows_of_all(states, since, limit, group)

    async def _rows_of_all(
        self,
        states: Collection[AppState] | None,
        since: datetime | timedelta | None,
        limit: int | None,
        group: str | None,
    ) -> AppList:
        rows: list[ListAppResponse] = []
        failures: dict[str, Exception] = {}

        async def ask(scheduler: str) -> None:
            try:
                rows.extend(await self._rows(scheduler, states, since, limit, group))
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
        group: str | None,
    ) -> Sequence[ListAppResponse]:
        backend = await self._backends.open(scheduler)
        found = await backend.list(states=states, since=since, limit=limit if group is None else None)
        if group is not None:
            from asyncsched.runner.group_rows import rows_of_group  # loaded on first use

            found = (await rows_of_group(backend, group, found))[:limit]
        budget = budget_of(asyncio.get_running_loop())
        rows: list[ListAppResponse] = []
        for row in found:
            # The runner's name for the scheduler may differ from the scheduler's own.
            rows.append(replace(row, app_handle=make_app_handle(scheduler, row.session, row.app_id)))
            await budget.breathe()
        return rows


def get_runner(
    name: str = "",
    component_defaults: Mapping[str, Mapping[str, object]] | None = None,
    **scheduler_params: Mapping[str, object],
) -> Runner:
    """Return a runner with all installed schedulers."""
    return Runner(name, None, component_defaults, **scheduler_params)


def _newest_first(row: ListAppResponse) -> float:
    return -row.created_at.timestamp() if row.created_at is not None else 0.0  # unknown times sort last
