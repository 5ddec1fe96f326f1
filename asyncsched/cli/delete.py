"""``asyncsched delete``: delete apps that have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from asyncsched.cli.console import Console
from asyncsched.cli.verb import named_or_asked, verb, with_apps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from asyncsched.cli.app_arguments import Target
    from asyncsched.runner.runner import Runner
    from asyncsched.specs.handle import AppHandle

__all__ = ["command"]


@verb("delete")
@with_apps
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
def command(console: Console, apps: tuple[str, ...], scheduler: str | None, yes: bool) -> int:
    """Delete apps that have ended, and their logs.

    APP is a handle, an id, a name that only one app has, the start of an id, or a pattern such as 'train-*'. @last is
    the app that was last launched from here. At a terminal, it asks before it deletes several apps, or the last one if
    no APP is given.
    """
    is_named = named_or_asked(apps, (), yes=yes)
    from asyncsched.cli.app_actions import AppAction
    from asyncsched.cli.apps import run_on_apps
    from asyncsched.cli.run_async import answers

    async def delete(console: Console, runner: Runner, targets: Sequence[Target]) -> int:
        async def act(handles: Sequence[AppHandle]) -> Mapping[AppHandle, Exception | None]:
            return await answers(runner.delete, handles)

        action = AppAction(name="delete", done="deleted", act=act, to_ended=True, yes=yes, always_asks=not is_named)
        return await action.do(console, runner, targets)

    return run_on_apps(console, apps, delete, scheduler=scheduler)
