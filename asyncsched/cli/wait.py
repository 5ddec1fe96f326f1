"""``asyncsched wait``: wait for the end of apps."""

from __future__ import annotations

import click

from asyncsched.cli.console import Console
from asyncsched.cli.times import duration
from asyncsched.cli.verb import verb

__all__ = ["command"]


@verb("wait")
@click.argument("apps", nargs=-1, required=True, metavar="APP...")
@click.option("--any/--all", "first", default=False, help="Wait for the first, or for all of them (the default).")
@click.option("--timeout", type=duration, metavar="TIME", help="At most so long: 30, 90s, 5m, 2h. Then exit code 124.")
def command(console: Console, apps: tuple[str, ...], first: bool, timeout: float | None) -> int:
    """Wait for the end of apps, and print each with its state as it ends.

    The exit code is that of the worst end: 1 if one has failed, 3 if one was cancelled.
    """
    from asyncsched.cli.ending import wait_for_apps
    from asyncsched.cli.loop import run_with_runner
    from asyncsched.cli.targets import parse_target

    targets = [parse_target(app) for app in apps]
    return run_with_runner(
        console, lambda runner: wait_for_apps(console, runner, targets, first=first, timeout=timeout)
    )
