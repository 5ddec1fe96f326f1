"""``asyncsched cancel``: cancel apps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from asyncsched.cli.console import Console
from asyncsched.cli.verb import named_or_asked, verb, with_apps, with_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncsched.cli.app_arguments import Target
    from asyncsched.runner.runner import Runner
    from asyncsched.specs.handle import AppHandle

__all__ = ["command"]


@verb("cancel")
@with_apps
@with_groups
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--wait", is_flag=True, help="Wait until they have ended.")
def command(
    console: Console,
    apps: tuple[str, ...],
    scheduler: str | None,
    groups: tuple[str, ...],
    yes: bool,
    wait: bool,
) -> int:
    """Cancel apps, and report which had already ended. With --wait, wait until they have ended.

    With --group, scripts that are still starting jobs of the group are told to stop.

    APP is a handle, an id, a name that only one app has, the start of an id, or a pattern such as 'train-*'. @last is
    the app that was last launched from here. At a terminal, it asks before it cancels several apps, or the last one if
    no APP is given.
    """
    is_named = named_or_asked(apps, groups, yes=yes)
    from asyncsched.cli.app_actions import AppAction
    from asyncsched.cli.apps import run_on_apps

    async def call_off(runner: Runner, found: Sequence[AppHandle], running: Sequence[AppHandle]) -> None:
        if groups:
            from asyncsched.cli.cancel_groups import call_off_groups

            sessions = {runner.name, *(handle.session for handle in found)}  # between two apps of a group none runs
            await call_off_groups(console, groups, sessions, {handle.session for handle in running})

    async def cancel(console: Console, runner: Runner, targets: Sequence[Target]) -> int:
        action = AppAction(
            name="cancel",
            done="cancel requested",
            act=runner.cancel_all,
            before=lambda found, chosen: call_off(runner, found, chosen),
            to_ended=False,
            yes=yes,
            always_asks=not is_named,
            waits=wait,
        )
        return await action.do(console, runner, targets)

    return run_on_apps(console, apps, cancel, groups=groups, scheduler=scheduler)
