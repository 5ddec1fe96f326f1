"""``asyncsched cancel``: end apps."""

from __future__ import annotations

import click

from asyncsched.cli.console import Console
from asyncsched.cli.verb import verb

__all__ = ["command"]


@verb("cancel")
@click.argument("apps", nargs=-1, required=True, metavar="APP...")
def command(console: Console, apps: tuple[str, ...]) -> int:
    """End apps. It is asked for and not waited for: asyncsched wait does.

    APP is a handle, an id, the beginning of one, or a pattern such as 'train-*'.
    """
    from asyncsched.cli.ending import cancel_apps
    from asyncsched.cli.loop import run_with_runner
    from asyncsched.cli.targets import parse_target

    targets = [parse_target(app) for app in apps]
    return run_with_runner(console, lambda runner: cancel_apps(console, runner, targets))
