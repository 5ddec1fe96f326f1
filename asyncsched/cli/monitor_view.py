"""Show apps in a live table or, without a terminal, as lines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from asyncsched.cli.app_arguments import Found, Target, failures_of, find_apps, list_apps, list_named
from asyncsched.cli.apps import finish
from asyncsched.cli.console import Console
from asyncsched.cli.errors import exit_code, worst
from asyncsched.cli.run_async import warnings_to
from asyncsched.cli.watch_lines import watch_found
from asyncsched.runner.live_apps import LiveApps
from asyncsched.runner.results import AppList
from asyncsched.runner.runner import Runner
from asyncsched.runner.runner_host import RunnerHost
from asyncsched.specs.handle import AppHandle
from asyncsched.tui.run import can_show, is_at_terminal, show

__all__ = ["monitor"]

BY_SIGNAL = 128
"""A process ended by a signal has the exit code 128 plus the signal's number."""


async def monitor(
    console: Console, runner: Runner, targets: Sequence[Target], *, only: str = "", with_ended: bool = False
) -> int:
    """Show the apps until the user leaves; without a terminal, print each change until all have ended."""
    if console.format == "table" and can_show():
        return await _in_table(console, runner, targets, only, with_ended)
    found = await (find_apps(console, runner, targets) if targets else _all(console, runner, only, with_ended))
    if console.format == "table" and (found.apps or is_at_terminal()):
        console.say(_why_lines())
    return await watch_found(console, runner, found)


def _why_lines() -> str:
    if not is_at_terminal():
        return "note: this is not a terminal, so each change is printed as a line; a terminal shows a live table"
    return "note: each change is printed as a line; `pip install 'asyncsched[tui]'` adds a live table"


async def _all(console: Console, runner: Runner, only: str, with_ended: bool) -> Found:
    rows = await list_apps(runner, only=only)
    found = Found(failures=[*rows.failures.values()] if only else failures_of(rows))
    handles = [AppHandle(row.app_handle) for row in rows if with_ended or not row.state.is_terminal()]
    found.apps = [(handle, Target(app=handle)) for handle in handles]
    if not handles:
        console.say("no app is running" if not with_ended else "there are no apps")
    return found


async def _in_table(console: Console, runner: Runner, targets: Sequence[Target], only: str, with_ended: bool) -> int:
    handles: list[AppHandle] = []
    failures: list[Exception] = []
    look: Callable[[], Awaitable[AppList]] | None = None
    if targets:
        found = await find_apps(console, runner, targets)
        handles, failures = found.handles, found.failures
        if not handles:
            return finish(console, failures)
        growing = [target for target in targets if target.is_pattern or target.is_group]
        if growing:
            look = partial(list_named, runner, growing)
    else:
        look = partial(list_apps, runner, only=only)
    apps = LiveApps(
        RunnerHost(runner),
        runner.watch(handles, follow=look is not None),
        handles,
        look,
        since_now=not (targets or with_ended),
        failures=failures,
    )
    with warnings_to(apps.note):
        left_by = await show(apps, color=console.color, owns_process=True)
    if left_by is not None:
        if left_by.name == "SIGHUP":
            console.forget_terminal()
        return BY_SIGNAL + left_by
    return worst([exit_code(failure) for failure in apps.failures])
