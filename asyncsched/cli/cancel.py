"""``asyncsched cancel``: end apps."""

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
@click.option("-y", "--yes", is_flag=True, help="Do not ask, whatever is ended.")
@click.option("--wait", is_flag=True, help="Wait until they have ended.")
def command(
    console: Console,
    apps: tuple[str, ...],
    scheduler: str | None,
    groups: tuple[str, ...],
    yes: bool,
    wait: bool,
) -> int:
    """End apps, and tell which had ended already. The end is asked for, and waited for with --wait.

    With --group, scripts that still start jobs of the group are told to start no more.

    APP is a handle, an id, a name that one app has, the beginning of an id, or a pattern such as 'train-*'; @last is
    the app that was launched last from here. At a terminal it is asked before several apps are ended, or the last one
    where none is named.
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
            done="cancel was asked for",
            act=runner.cancel_all,
            before=lambda found, chosen: call_off(runner, found, chosen),
            to_ended=False,
            yes=yes,
            always_asks=not is_named,
            waits=wait,
        )
        return await action.do(console, runner, targets)

    return run_on_apps(console, apps, cancel, groups=groups, scheduler=scheduler)
