"""``asyncsched list``: the apps that were submitted."""

from __future__ import annotations

import click

from asyncsched.cli.console import Console
from asyncsched.cli.verb import verb

__all__ = ["command"]


@verb("list")
@click.option("-s", "--scheduler", metavar="SCHEDULER", help="Ask this one only.  [default: all]")
@click.option("-n", "--limit", type=click.IntRange(min=1), help="At most so many, the newest.")
def command(console: Console, scheduler: str | None, limit: int | None) -> int:
    """List the apps that were submitted through asyncsched, newest first.

    A scheduler that cannot be asked is told in one line beside the others' apps.
    """
    from asyncsched.cli.looking import show_list
    from asyncsched.cli.loop import run_with_runner

    return run_with_runner(console, lambda runner: show_list(console, runner, scheduler, limit))
