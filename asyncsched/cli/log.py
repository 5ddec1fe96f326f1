"""``asyncsched log``: the logs of apps."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from asyncsched.cli.console import Console
from asyncsched.cli.times import moment
from asyncsched.cli.verb import Whole, verb, with_apps_and_parts, with_groups

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from asyncsched.cli.app_arguments import Target
    from asyncsched.logs.stream import LogStream
    from asyncsched.runner.runner import Runner
    from asyncsched.schedulers.responses import DescribeAppResponse
    from asyncsched.specs.handle import AppHandle
    from asyncsched.specs.state import ReplicaStatus

__all__ = ["command"]


def _regex(_ctx: click.Context, _param: click.Parameter, text: str | None) -> str | None:
    try:
        re.compile(text or "")
    except re.error as error:
        raise click.BadParameter(f"{text!r} is not a regular expression: {error}") from None
    return text


@verb("log")
@with_apps_and_parts
@with_groups
@click.option("--role", metavar="ROLE", help="Only this role.")
@click.option("--replica", metavar="K,K2-K3", help="Only these replicas.")
@click.option("-f", "-t", "--follow", is_flag=True, help="Follow the logs until the apps have ended.")
@click.option("--since", type=moment, metavar="TIME", help="Only lines since this time: 5m (ago), or 2030-12-31T23:59.")
@click.option("--until", type=moment, metavar="TIME", help="Only lines before this time.")
@click.option("--tail", type=Whole(min=0), metavar="N", help="Start with the last N lines of each replica.")
@click.option("--regex", metavar="RE", callback=_regex, help="Only lines that match this regular expression.")
@click.option("--streams", type=click.Choice(["stdout", "stderr", "combined"]), help="Only this stream.")
@click.option("--timestamps", is_flag=True, help="Start each line with the local time at which it was written.")
@click.option("--no-prefix", is_flag=True, help="Omit replica names; keeps one replica's progress bars intact.")
@click.option("--raw", is_flag=True, help="Print output unchanged, including terminal control sequences.")
def command(
    console: Console, apps: tuple[str, ...], groups: tuple[str, ...], scheduler: str | None, **options: Any
) -> int:
    """Show the logs of apps, merged, each line with the name of its replica.

    APP is a handle, an id, a name, the start of an id, or a pattern such as 'train-*'. @last, or no APP at all, is the
    app that was last launched from here.
    """
    from functools import partial

    from asyncsched.cli.apps import run_on_apps

    show = partial(_show, choice=_Choice(**options))
    return run_on_apps(console, apps, show, parts=True, groups=groups, scheduler=scheduler)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """The chosen lines; the fields are the options of ``asyncsched log``."""

    role: str | None
    replica: str | None
    follow: bool
    since: datetime | timedelta | None
    until: datetime | timedelta | None
    tail: int | None
    regex: str | None
    streams: str | None
    timestamps: bool
    no_prefix: bool
    raw: bool


async def _show(console: Console, runner: Runner, targets: Sequence[Target], choice: _Choice) -> int:
    """Print the lines of all apps; report unknown apps, and show the logs of the others."""
    import asyncio
    from contextlib import nullcontext

    from asyncsched.cli.app_arguments import find_apps, typed
    from asyncsched.cli.apps import describe_found, finish, unknown
    from asyncsched.cli.errors import INTERRUPTED
    from asyncsched.cli.log_ends import ends_told
    from asyncsched.cli.log_printer import print_lines, printer_for
    from asyncsched.cli.wait_progress import tell_what_runs_on
    from asyncsched.logs.stream import LogStream
    from asyncsched.views.log_names import Names

    found = await find_apps(console, runner, targets)
    failures = list(found.failures)
    streams: list[LogStream] = []
    known: dict[str, DescribeAppResponse] = {}
    writers = 0
    told = await describe_found(runner, found.handles)
    for handle, target in found.apps:
        answer = told[handle]
        if answer is None or isinstance(answer, Exception):
            failures.append(await unknown(runner, handle) if answer is None else answer)
        else:
            known[handle.app_id] = answer
            writers += sum(_is_chosen(replica, target, choice) for replica in answer.replicas)
            streams.append(await _lines(runner, handle, target, choice))
    if streams:
        lines = streams[0] if len(streams) == 1 else LogStream.merged(streams)
        names = Names.of_apps(known)
        printer = printer_for(
            console,
            timestamps=choice.timestamps,
            names=names,
            raw=choice.raw,
            prefix=not choice.no_prefix,
            alone=writers == 1,
        )
        tells_ends = choice.follow and len(known) > 1 and console.format == "table"
        ends = ends_told(runner, found.handles, lines, names, printer, color=console.color) if tells_ends else None
        try:
            async with ends or nullcontext():
                await print_lines(lines, printer)
        except BrokenPipeError:
            raise
        except asyncio.CancelledError:  # Ctrl-C, which this verb handles
            if not choice.follow:
                raise
            if sys.stderr.isatty():
                console.say("")  # after the ^C
            await tell_what_runs_on(console, runner, found.handles, typed(targets), ["log", "-f"])
            return INTERRUPTED
        except Exception as error:  # noqa: BLE001 - what could be read was shown; the error is reported
            failures.append(error)
    return finish(console, failures, alone=not streams)


def _is_chosen(replica: ReplicaStatus, target: Target, choice: _Choice) -> bool:
    replicas = _replicas(target, choice)
    return replica.role == (target.role or choice.role or replica.role) and (replicas is None or replica.id in replicas)


def _replicas(target: Target, choice: _Choice) -> tuple[int, ...] | None:
    from asyncsched.cli.app_arguments import parse_replicas

    return target.replicas if target.replicas is not None else parse_replicas(choice.replica or "")


async def _lines(runner: Runner, handle: AppHandle, target: Target, choice: _Choice) -> LogStream:
    from asyncsched.specs.stream import Stream

    scheduler = await runner.scheduler(handle.scheduler)
    return scheduler.log_iter(
        handle.app_id,
        target.role or choice.role or "",
        _replicas(target, choice),
        choice.regex,
        choice.since,
        choice.until,
        choice.follow,
        Stream(choice.streams) if choice.streams else None,
        tail_lines=choice.tail,
    )
