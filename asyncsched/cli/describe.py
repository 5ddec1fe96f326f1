"""``asyncsched describe``: what an app is made of."""

from __future__ import annotations

import click

from asyncsched.cli.console import Console
from asyncsched.cli.verb import verb

__all__ = ["command"]


@verb("describe")
@click.argument("apps", nargs=-1, required=True, metavar="APP...")
def command(console: Console, apps: tuple[str, ...]) -> int:
    """Show what apps are made of: roles, programs, resources, as far as their scheduler can tell."""
    from asyncsched.cli.looking import describe_apps
    from asyncsched.cli.loop import run_with_runner
    from asyncsched.cli.targets import parse_target

    targets = [parse_target(app) for app in apps]
    return run_with_runner(console, lambda runner: describe_apps(console, runner, targets))
