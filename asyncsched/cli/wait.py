"""``asyncsched wait``: wait until apps have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from asyncsched.cli.console import Console
from asyncsched.cli.times import duration
from asyncsched.cli.verb import verb, with_apps, with_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncsched.cli.app_arguments import Target
    from asyncsched.runner.runner import Runner

__all__ = ["command"]


@verb("wait")
@with_apps
@with_groups
@click.option("--any/--all", "first", default=False, help="Wait for the first app to end, or for all (the default).")
@click.option("--timeout", type=duration, metavar="TIME", help="Give up after 30, 90s, 5m or 2h; exit code 124.")
def command(
    console: Console,
    apps: tuple[str, ...],
    scheduler: str | None,
    groups: tuple[str, ...],
    first: bool,
    timeout: float | None,
) -> int:
    """Wait until apps have ended, and print each with its state as it ends.

    The exit code is that of the worst result: 1 if an app failed, 3 if one was cancelled.

    APP is a handle, an id, a name, the start of an id, or a pattern such as 'train-*'. @last, or no APP at all, is the
    app that was last launched from here.
    """
    from functools import partial

    from asyncsched.cli.apps import run_on_apps

    return run_on_apps(console, apps, partial(_wait, first=first, timeout=timeout), groups=groups, scheduler=scheduler)


async def _wait(
    console: Console, runner: Runner, targets: Sequence[Target], *, first: bool, timeout: float | None
) -> int:
    """Print each app with its state when it ends, until all, or the first, have ended; return the exit code."""
    import asyncio

    from asyncsched.cli.app_arguments import find_apps, typed
    from asyncsched.cli.apps import finish
    from asyncsched.cli.errors import INTERRUPTED
    from asyncsched.cli.wait_progress import Waiting, tell_what_runs_on

    waiting = Waiting(console, runner)
    is_stopped = False
    try:
        async with asyncio.timeout(timeout):
            found = await find_apps(console, runner, targets)
            waiting.failures += found.failures
            await waiting.until_ended(found.handles, first=first)
    except TimeoutError:
        left = waiting.left
        which = left[0] if len(left) == 1 else f"{len(left) or 'the'} apps"
        waiting.failures.append(TimeoutError(f"{which} did not end within {timeout:g} s"))
    except asyncio.CancelledError:  # Ctrl-C, which this verb handles
        is_stopped = True
        await tell_what_runs_on(console, runner, waiting.left, typed(targets), ["wait"])
    if console.format == "json":
        console.print_rows((), waiting.rows)
    if is_stopped:
        return INTERRUPTED
    return finish(console, waiting.failures, waiting.codes, alone=not waiting.codes)
