"""``asyncsched list``: the apps that were submitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from asyncsched.cli.console import Console
from asyncsched.cli.verb import verb

if TYPE_CHECKING:
    from asyncsched.runner.runner import Runner

__all__ = ["command"]


@verb("list")
@click.option("-s", "--scheduler", metavar="SCHEDULER", help="Ask this one only.  [default: all]")
@click.option("-n", "--limit", type=click.IntRange(min=1), help="At most so many, the newest.")
def command(console: Console, scheduler: str | None, limit: int | None) -> int:
    """List the apps that were submitted through asyncsched, newest first.

    A scheduler that cannot be asked is told in one line beside the others' apps.
    """
    from asyncsched.cli.loop import run_with_runner

    return run_with_runner(console, lambda runner: _list(console, runner, scheduler, limit))


async def _list(console: Console, runner: Runner, scheduler: str | None, limit: int | None) -> int:
    """Print a row for each app that was submitted, newest first."""
    from asyncsched.cli.apps import finish
    from asyncsched.cli.show import age, error_row, list_row
    from asyncsched.cli.targets import failures_of, list_apps

    apps = await (list_apps(runner, limit) if scheduler is None else runner.list(scheduler, limit=limit))
    rows = [{**list_row(row), "age": age(row.created_at)} for row in apps]
    if console.format != "table":
        for row in rows:
            del row["age"]
        rows += [error_row(name, error) for name, error in apps.failures.items() if error in failures_of(apps)]
    console.print_rows(("handle", "state", "name", "age"), rows)
    return finish(console, failures_of(apps))
