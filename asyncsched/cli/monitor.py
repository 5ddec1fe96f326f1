"""``asyncsched monitor``: many apps in a live table."""

from __future__ import annotations

from functools import partial

from asyncsched.cli.console import Console
from asyncsched.cli.verb import verb, with_apps, with_groups

__all__ = ["command"]


@verb("monitor")
@with_apps
@with_groups
def command(console: Console, apps: tuple[str, ...], groups: tuple[str, ...], scheduler: str | None) -> int:
    """Watch apps in a live table, those that need attention first; all that have not ended by default.

    Arrows move, enter shows the log of an app and q returns from it, c cancels an app, q leaves: the apps run on.
    Where stdout is no terminal, each change is a line.
    """
    from asyncsched.cli.apps import run_on_apps
    from asyncsched.cli.monitor_view import monitor

    work = partial(monitor, only=scheduler or "")
    return run_on_apps(console, apps, work, groups=groups, scheduler=scheduler, or_last=False)
