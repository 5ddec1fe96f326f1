"""``asyncsched delete``: remove apps that have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from asyncsched.cli.console import Console
from asyncsched.cli.verb import verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncsched.cli.targets import Target
    from asyncsched.runner.runner import Runner

__all__ = ["command"]


@verb("delete")
@click.argument("apps", nargs=-1, required=True, metavar="APP...")
def command(console: Console, apps: tuple[str, ...]) -> int:
    """Remove apps that have ended, with their logs.

    APP is a handle, an id, the beginning of one, or a pattern such as 'train-*'.
    """
    from asyncsched.cli.apps import run_on_apps

    return run_on_apps(console, apps, _delete)


async def _delete(console: Console, runner: Runner, targets: Sequence[Target]) -> int:
    from asyncsched.cli.apps import act_on_each

    return await act_on_each(console, runner, targets, runner.delete, "deleted")
