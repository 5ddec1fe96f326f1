"""``asyncsched log``: what the replicas of apps write."""

from __future__ import annotations

import re
from typing import Any

import click

from asyncsched.cli.console import Console
from asyncsched.cli.times import moment
from asyncsched.cli.verb import verb

__all__ = ["command"]


def _regex(_ctx: click.Context, _param: click.Parameter, text: str | None) -> str | None:
    try:
        re.compile(text or "")
    except re.error as error:
        raise click.BadParameter(f"{text!r} is no regular expression: {error}") from None
    return text


@verb("log")
@click.argument("apps", nargs=-1, required=True, metavar="APP[/ROLE[/K,K2-K3]]...")
@click.option("--role", metavar="ROLE", help="Only this role.")
@click.option("--replica", metavar="K,K2-K3", help="Only these replicas.")
@click.option("-f", "-t", "--follow", is_flag=True, help="Wait for lines to come, until the apps have ended.")
@click.option("--since", type=moment, metavar="TIME", help="Lines from this time on: 5m (ago), or 2030-12-31T23:59.")
@click.option("--until", type=moment, metavar="TIME", help="Lines before this time.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Begin with the last N lines of each replica.")
@click.option("--regex", metavar="RE", callback=_regex, help="Only lines in which it is found.")
@click.option("--streams", type=click.Choice(["stdout", "stderr", "combined"]), help="Only this stream.")
@click.option("--timestamps", is_flag=True, help="Begin each line with the time when it was written.")
@click.option("--no-prefix", is_flag=True, help="Do not tell who wrote a line: one replica's progress bars stay whole.")
@click.option("--raw", is_flag=True, help="Pass on whatever replicas write, also what controls the terminal.")
def command(console: Console, apps: tuple[str, ...], **options: Any) -> int:
    """Show what the replicas of apps write, merged, each line with who wrote it.

    APP is a handle, an id, the beginning of one, or a pattern such as 'train-*'.
    """
    from asyncsched.cli.loop import run_with_runner
    from asyncsched.cli.reading import LogChoice, show_logs
    from asyncsched.cli.targets import parse_target

    targets = [parse_target(app, parts=True) for app in apps]
    choice = LogChoice(**options)
    return run_with_runner(console, lambda runner: show_logs(console, runner, targets, choice))
