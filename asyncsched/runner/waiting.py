"""Waiting for many apps to end: which apps they are, and the result of the wait."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import islice
from math import isnan
from typing import TYPE_CHECKING, TypeAlias

from asyncsched.errors import UnknownAppError, UsageError, WaitTimeoutError
from asyncsched.logs.loop_time import budget_of
from asyncsched.runner.convert import AppEvent
from asyncsched.specs.given import as_several, unexpected
from asyncsched.specs.handle import AppHandle, parse_app_handle
from asyncsched.specs.state import AppStatus

if TYPE_CHECKING:
    from asyncsched.specs.last_seen import LastSeenApps

__all__ = ["AppKey", "WaitResult", "apps_of", "check_wait", "raise_unless_succeeded"]

AppKey: TypeAlias = tuple[str, str]
"""A scheduler's name and the id of one of its apps. The session in a handle is not part of an app's identity."""

MANY = 1000
"""With more apps than this, parsing them ends with a pause for the loop."""

NOTED = 20
"""For how many apps a WaitTimeoutError has a note with the last status."""


def _app_of(handle: str) -> AppKey:
    """Return the app that a handle names."""
    parts = parse_app_handle(handle)
    return parts.scheduler_backend, parts.app_id


async def apps_of(handles: str | Iterable[str]) -> dict[AppHandle, AppKey]:
    """Return the app of each handle, in order; yields to the loop while it parses thousands of them, and after."""
    budget = budget_of(asyncio.get_running_loop())
    apps: dict[AppHandle, AppKey] = {}
    for handle in as_several("handles", handles, "a handle"):
        app = _app_of(handle)
        apps[str.__new__(AppHandle, handle)] = app  # just parsed, so it need not be checked again
        await budget.breathe()
    if len(apps) > MANY:
        await asyncio.sleep(0)  # the caller takes them up in a new step
    return apps


def check_wait(surplus: Sequence[object], timeout: object) -> None:
    """Raise UsageError for a second positional argument, and for a timeout that is not a number of seconds."""
    if surplus:
        given = surplus[0] if isinstance(surplus[0], (int, float)) else "..."
        raise UsageError(
            f"wait takes one positional argument, the handle, got {len(surplus)} more",
            why="in TorchX the second argument is the polling interval, which asyncsched does not have",
            fix=f"write wait(handle, timeout={given}), or wait_all([...]) for many",
        )
    if isinstance(timeout, timedelta):
        raise unexpected("timeout", timeout, "a number of seconds", f"write timeout={timeout.total_seconds():g}")
    if timeout is not None and (not isinstance(timeout, (int, float)) or isinstance(timeout, bool) or isnan(timeout)):
        raise unexpected("timeout", timeout, "a number of seconds", "leave it out to wait without a limit")


def raise_unless_succeeded(handle: AppHandle, status: AppStatus | None) -> None:
    """Raise AppStatusError if the app did not succeed, and UnknownAppError if its scheduler does not know it."""
    if status is None:
        raise UnknownAppError(f"no app {handle}", fix="`list` shows the handles of existing apps")
    status.raise_for_status()


class WaitResult:
    """Collects the statuses of apps that are waited for.

    Args:
        seen: The last known statuses of apps, used for those that the watch has not reported yet.
    """

    def __init__(self, seen: LastSeenApps) -> None:
        self._seen = seen
        self._left: dict[AppKey, AppEvent] = {}
        self._ended: dict[AppKey, AppStatus | None] = {}

    def note(self, event: AppEvent) -> None:
        """Record an event of the watch."""
        app = _app_of(event.handle)
        if event.is_terminal():
            self._left.pop(app, None)
            self._ended[app] = event.current
        else:
            self._left[app] = event

    async def statuses(self, apps: dict[AppHandle, AppKey], timeout: float | None) -> dict[AppHandle, AppStatus | None]:
        """Return the last statuses, None for unknown apps; raise WaitTimeoutError if some have not ended.

        Empties `apps` and this object meanwhile: to free thousands of entries at the end would hold the loop.
        """
        budget = budget_of(asyncio.get_running_loop())
        ended: dict[AppHandle, AppStatus | None] = {}
        left: list[tuple[AppHandle, AppStatus | None]] = []
        for handle in list(apps):
            app = apps.pop(handle)
            last = self._ended[app] if app in self._ended else self._last(handle, app)
            if app in self._ended or (last is not None and last.is_terminal()):
                ended[handle] = last
            else:
                left.append((handle, last))
            await budget.breathe()
        for noted in (self._ended, self._left):
            while noted:
                noted.popitem()
                await budget.breathe()
        if left:
            raise _late(left, timeout)
        return ended

    def _last(self, handle: AppHandle, app: AppKey) -> AppStatus | None:
        if event := self._left.get(app):
            return event.current
        seen = self._seen.get(handle)  # the watch has had no answer yet
        return None if seen is None else seen.status


def _late(left: list[tuple[AppHandle, AppStatus | None]], timeout: float | None) -> WaitTimeoutError:
    """Return the TimeoutError of a wait, with the last statuses of the apps that have not ended."""
    which = left[0][0] if len(left) == 1 else f"{len(left)} apps"
    states = Counter("not known yet" if status is None else status.state.name for _, status in left)
    one = len(left) == 1
    why = f"it is {next(iter(states))}" if one else ", ".join(f"{count} {state}" for state, count in states.items())
    fix = f"{'it is' if one else 'they are'} still running: wait again, or longer"
    error = WaitTimeoutError(f"{which} did not end within {timeout:g} s", why=why, fix=fix)
    for handle, status in islice(left, NOTED):
        error.add_note(f"The last status of {handle}: {status or 'not known yet'}")
    return error
