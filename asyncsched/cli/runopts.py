"""``asyncsched runopts``: the run options of schedulers, and what is configured."""

from __future__ import annotations

import click

from asyncsched.cli.console import Console
from asyncsched.cli.verb import verb

__all__ = ["command"]


@verb("runopts")
@click.argument("schedulers", nargs=-1, metavar="[SCHEDULER]...")
def command(console: Console, schedulers: tuple[str, ...]) -> int:
    """Show each run option with its type, its value, and where that comes from; of all schedulers by default."""
    from asyncsched.cli.loop import run_with_runner
    from asyncsched.cli.options import show_options

    return run_with_runner(console, lambda runner: show_options(console, runner, schedulers))
