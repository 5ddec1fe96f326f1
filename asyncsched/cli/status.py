"""``asyncsched status``: how apps are doing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from asyncsched.cli.console import Console
from asyncsched.cli.verb import verb

if TYPE_CHECKING:
    from asyncsched.runner.runner import Runner

__all__ = ["command"]


@verb("status")
@click.argument("apps", nargs=-1, required=True, metavar="APP...")
@click.option("-w", "--watch", is_flag=True, help="Show each change, until all have ended.")
@click.option("--roles", metavar="ROLE,...", help="Only these roles.")
def command(console: Console, apps: tuple[str, ...], watch: bool, roles: str | None) -> int:
    """Show how apps are doing: one in full, several as a table.

    APP is a handle, an id, the beginning of one, or a pattern such as 'train-*'.
    """
    from asyncsched.cli.looking import show_status, watch_found
    from asyncsched.cli.loop import run_with_runner
    from asyncsched.cli.targets import find_apps, parse_target

    targets = [parse_target(app) for app in apps]
    chosen = roles.split(",") if roles else None

    async def show(runner: Runner) -> int:
        found = await find_apps(runner, targets)
        if watch:
            return await watch_found(console, runner, found)
        return await show_status(console, runner, found, chosen)

    return run_with_runner(console, show)
