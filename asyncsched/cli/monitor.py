"""``asyncsched monitor``: many apps in a live table."""

from __future__ import annotations

from functools import partial

import click

from asyncsched.cli.console import Console
from asyncsched.cli.verb import verb, with_apps, with_groups

__all__ = ["command"]


@verb("monitor")
@with_apps
@with_groups
@click.option("-a", "--all", "with_ended", is_flag=True, help="Also show apps that have already ended.")
def command(
    console: Console, apps: tuple[str, ...], groups: tuple[str, ...], scheduler: str | None, with_ended: bool
) -> int:
    """Watch apps in a live table, those that need attention first; by default all that have not ended, and new ones.

    It stays open until you quit with q; the apps keep running. Press ? for the keys: filter, sort, mark, cancel, read
    logs. It needs a terminal and the extra `tui`; elsewhere each change is printed as a line.
    """
    from asyncsched.cli.apps import run_on_apps
    from asyncsched.cli.monitor_view import monitor

    work = partial(monitor, only=scheduler or "", with_ended=with_ended)
    return run_on_apps(console, apps, work, groups=groups, scheduler=scheduler, or_last=False)
