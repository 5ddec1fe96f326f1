"""Waiting for the end of many apps: which they are, and how it has turned out."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from math import isnan
from typing import TypeAlias

from asyncsched.errors import UnknownAppError, UsageError, WaitTimeoutError
from asyncsched.logs.loop_time import budget_of
from asyncsched.runner.answers import AppEvent
from asyncsched.specs.given import as_several, unexpected
from asyncsched.specs.handle import AppHandle, parse_app_handle
from asyncsched.specs.last_seen import LastSeenApps
from asyncsched.specs.state import AppStatus

__all__ = ["App", "Ends", "apps_of", "check_wait", "raise_unless_succeeded"]

App: TypeAlias = tuple[str, str]
"""A scheduler's name and the id of an app of its: the session in a handle is only how somebody calls it."""

NOTED = 20
"""How many apps a WaitTimeoutError tells the last status of."""


def _app_of(handle: str) -> App:
    """Return the app that a handle names."""
    parts = parse_app_handle(handle)
    return parts.scheduler_backend, parts.app_id


async def apps_of(handles: str | Iterable[str]) -> dict[AppHandle, App]:
    """Return the app of each handle, in their order; the loop gets its turn while thousands are taken apart."""
    budget = budget_of(asyncio.get_running_loop())
    apps: dict[AppHandle, App] = {}
    for handle in as_several("handles", handles, "a handle"):
        app = _app_of(handle)
        apps[str.__new__(AppHandle, handle)] = app  # it has just been taken apart, so it need not be checked again
        await budget.breathe()
    return apps


def check_wait(surplus: Sequence[object], timeout: object) -> None:
    """Raise UsageError for a second argument by its place, and for a time that is no number of seconds."""
    if surplus:
        given = surplus[0] if isinstance(surplus[0], (int, float)) else "..."
        raise UsageError(
            f"wait takes one handle by its place, got {len(surplus)} more",
            why="the second argument is the pause between two polls in TorchX, and there are none to choose here",
            fix=f"write wait(handle, timeout={given}), or wait_all([...]) for many",
        )
    if isinstance(timeout, timedelta):
        raise unexpected("timeout", timeout, "a number of seconds", f"write timeout={timeout.total_seconds():g}")
    if timeout is not None and (not isinstance(timeout, (int, float)) or isinstance(timeout, bool) or isnan(timeout)):
        raise unexpected("timeout", timeout, "a number of seconds", "leave it out to wait for as long as it takes")


def raise_unless_succeeded(handle: AppHandle, status: AppStatus | None) -> None:
    """Raise AppStatusError for an app that has not succeeded, and UnknownAppError for one that nobody knows."""
    if status is None:
        raise UnknownAppError(f"no app {handle}", fix="`list` shows the handles of those that there are")
    status.raise_for_status()


class Ends:
    """What was told of apps that are waited for.

    Args:
        seen: What was seen of them before.
    """

    def __init__(self, seen: LastSeenApps) -> None:
        self._seen = seen
        self._left: dict[App, AppEvent] = {}
        self._ended: dict[App, AppStatus | None] = {}

    def note(self, event: AppEvent) -> None:
        """Take note of what a watch has told."""
        app = _app_of(event.handle)
        if event.over:
            self._left.pop(app, None)
            self._ended[app] = event.current
        else:
            self._left[app] = event

    async def of(self, apps: Mapping[AppHandle, App], timeout: float | None) -> dict[AppHandle, AppStatus | None]:
        """Return the last statuses, None for what was never known; raise WaitTimeoutError if some have not ended."""
        budget = budget_of(asyncio.get_running_loop())
        ended: dict[AppHandle, AppStatus | None] = {}
        left: list[tuple[AppHandle, AppStatus | None]] = []
        for handle, app in apps.items():
            if app in self._ended:
                ended[handle] = self._ended[app]
            else:
                left.append((handle, self._last(handle, app)))
            await budget.breathe()
        if left:
            raise _late(left, timeout)
        return ended

    def _last(self, handle: AppHandle, app: App) -> AppStatus | None:
        if event := self._left.get(app):
            return event.current
        seen = self._seen.get(handle)  # the watch has not been answered yet
        return None if seen is None else seen.status


def _late(left: list[tuple[AppHandle, AppStatus | None]], timeout: float | None) -> WaitTimeoutError:
    """Return the error of a wait that was too long, with the last status of each app that has not ended."""
    which = left[0][0] if len(left) == 1 else f"{len(left)} apps"
    states = Counter("not known yet" if status is None else status.state.name for _, status in left)
    one = len(left) == 1
    why = f"it is {next(iter(states))}" if one else ", ".join(f"{count} {state}" for state, count in states.items())
    fix = f"{'it runs' if one else 'they run'} on: wait again, or longer"
    error = WaitTimeoutError(f"{which}: no end within {timeout:g} s", why=why, fix=fix)
    for handle, status in islice(left, NOTED):
        error.add_note(f"The last status of {handle}: {status or 'nothing is known of it yet'}")
    return error
