"""``asyncsched cancel``: end apps."""

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


@verb("cancel")
@click.argument("apps", nargs=-1, required=True, metavar="APP...")
def command(console: Console, apps: tuple[str, ...]) -> int:
    """End apps. It is asked for and not waited for: asyncsched wait does.

    APP is a handle, an id, the beginning of one, or a pattern such as 'train-*'.
    """
    from asyncsched.cli.apps import run_on_apps

    return run_on_apps(console, apps, _cancel)


async def _cancel(console: Console, runner: Runner, targets: Sequence[Target]) -> int:
    from asyncsched.cli.apps import act_on_each

    return await act_on_each(console, runner, targets, runner.cancel, "cancel was asked for")
