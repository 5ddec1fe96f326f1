"""``asyncsched configure``: write a configuration file to begin with."""

from __future__ import annotations

import click

from asyncsched.cli.console import Console
from asyncsched.cli.verb import verb

__all__ = ["command"]


@verb("configure")
@click.option("-s", "--schedulers", metavar="SCHEDULER,...", help="Only for these.  [default: all]")
@click.option("-r", "--required", is_flag=True, help="Only the options that must be given.")
@click.option("-p", "--print", "to_stdout", is_flag=True, help="Print it in place of writing ./asyncsched.toml.")
def command(console: Console, schedulers: str | None, required: bool, to_stdout: bool) -> int:
    """Write ./asyncsched.toml with everything that can be set, explained and commented out."""
    from pathlib import Path

    from asyncsched.cli.loop import run_with_runner
    from asyncsched.cli.options import write_configuration

    names = [name.strip() for name in (schedulers or "").split(",") if name.strip()]
    path = Path("asyncsched.toml")
    return run_with_runner(
        console,
        lambda runner: write_configuration(
            console, runner, names, to_stdout=to_stdout, required_only=required, path=path
        ),
    )
