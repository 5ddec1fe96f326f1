"""``asyncsched status``: the status of apps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from asyncsched.cli.console import Console
from asyncsched.cli.verb import verb, with_apps

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from asyncsched.cli.app_arguments import Found, Target
    from asyncsched.runner.runner import Runner
    from asyncsched.schedulers.responses import DescribeAppResponse
    from asyncsched.specs.handle import AppHandle

__all__ = ["command"]

COLUMNS = ("app", "name", "state", "replicas", "since", "reason")
"""The columns of the table of several apps."""


@verb("status")
@with_apps
@click.option("-w", "--watch", is_flag=True, help="Show each change, until all have ended.")
@click.option("--roles", metavar="ROLE,...", help="Only these roles.")
def command(console: Console, apps: tuple[str, ...], scheduler: str | None, watch: bool, roles: str | None) -> int:
    """Show the status of apps: one in full, several as a table.

    APP is a handle, an id, a name, the start of an id, or a pattern such as 'train-*'. @last, or no APP at all, is the
    app that was last launched from here.
    """
    from asyncsched.cli.app_arguments import find_apps
    from asyncsched.cli.apps import run_on_apps

    chosen = roles.split(",") if roles else None

    async def show(console: Console, runner: Runner, targets: Sequence[Target]) -> int:
        found = await find_apps(console, runner, targets)
        return await (_watch(console, runner, found, targets) if watch else _show(console, runner, found, chosen))

    return run_on_apps(console, apps, show, scheduler=scheduler)


async def _watch(console: Console, runner: Runner, found: Found, targets: Sequence[Target]) -> int:
    """Print each change until all have ended; on Ctrl-C, print which apps are still running."""
    import asyncio

    from asyncsched.cli.app_arguments import typed
    from asyncsched.cli.errors import INTERRUPTED
    from asyncsched.cli.wait_progress import tell_what_runs_on
    from asyncsched.cli.watch_lines import watch_found

    try:
        return await watch_found(console, runner, found)
    except asyncio.CancelledError:  # Ctrl-C, which this verb handles
        await tell_what_runs_on(console, runner, found.handles, typed(targets), ["status", "-w"])
        return INTERRUPTED


async def _show(console: Console, runner: Runner, found: Found, roles: Collection[str] | None) -> int:
    """Print the status of one app in full, of several as a table; return the exit code."""
    from asyncsched.cli.apps import describe_found, finish, unknown
    from asyncsched.cli.json_rows import error_row

    known: dict[AppHandle, DescribeAppResponse] = {}
    rows: list[dict[str, object]] = []
    failures = list(found.failures)
    for handle, answer in (await describe_found(runner, found.handles)).items():
        if answer is None or isinstance(answer, Exception):
            failures.append(await unknown(runner, handle) if answer is None else answer)
            rows.append(error_row(handle, failures[-1]))
            continue
        known[handle] = answer
        rows.append(_status_row(handle, answer, roles))
    if console.format != "table":
        console.print_rows((), rows)
    elif len(known) == 1 and not failures and not found.apps[0][1].is_pattern:
        await _print_one(console, runner, *next(iter(known.items())), roles or ())
    elif known:
        await _print_many(console, runner, known)
    return finish(console, failures, alone=not known)


async def _print_one(
    console: Console, runner: Runner, handle: AppHandle, answer: DescribeAppResponse, roles: Collection[str]
) -> None:
    from datetime import UTC, datetime

    from asyncsched.cli.last_lines import last_lines
    from asyncsched.cli.status_view import LINES, StatusText
    from asyncsched.views.answers import described
    from asyncsched.views.replicas import first_failure

    view = described(handle, answer)
    failed = first_failure(each for each in view.replicas if not roles or each.role in roles)
    stream, last = ("", []) if failed is None else await last_lines(runner, handle, failed, LINES)
    text = StatusText(datetime.now(UTC), width=console.width, color=console.color)
    console.print_painted(text.lines(view, answer, roles, failed, stream, last))


async def _print_many(console: Console, runner: Runner, known: Mapping[AppHandle, DescribeAppResponse]) -> None:
    from datetime import UTC, datetime

    from asyncsched.cli.app_table import app_table
    from asyncsched.cli.overview import overview_lines
    from asyncsched.views.answers import described

    views = [described(handle, answer) for handle, answer in known.items()]
    now = datetime.now(UTC)
    console.print_painted(app_table(views, COLUMNS, now, width=console.width, color=console.color))
    # At the end, because the start of a long table has scrolled off the screen.
    console.print_painted(["", *await overview_lines(console, runner, views)])


def _status_row(handle: AppHandle, answer: DescribeAppResponse, roles: Collection[str] | None) -> dict[str, object]:
    from asyncsched.cli.json_rows import replica_counts, status_row
    from asyncsched.runner.convert import status_of

    row = status_row(handle, status_of(answer, handle), roles)
    return {**row, **replica_counts(answer.replicas)}
