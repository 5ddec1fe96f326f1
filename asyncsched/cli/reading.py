"""Show the logs of apps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from asyncsched.cli.console import Console
from asyncsched.cli.lines import print_lines, printer_for
from asyncsched.cli.looking import describe_found, finish, unknown
from asyncsched.cli.targets import Target, find_apps, parse_replicas
from asyncsched.logs.stream import LogStream
from asyncsched.runner.runner import Runner
from asyncsched.specs.handle import AppHandle
from asyncsched.specs.state import ReplicaStatus
from asyncsched.specs.stream import Stream

__all__ = ["LogChoice", "show_logs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChoice:
    """Which lines; the fields are the options of ``asyncsched log``."""

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


async def show_logs(console: Console, runner: Runner, targets: Sequence[Target], choice: LogChoice) -> int:
    """Print the lines of all apps; those that are not known are told, and the others' logs are shown."""
    found = await find_apps(runner, targets)
    failures = list(found.failures)
    streams: list[LogStream] = []
    writers = 0
    told = await describe_found(runner, found.handles)
    for handle, target in found.apps:
        answer = told[handle]
        if answer is None or isinstance(answer, Exception):
            failures.append(unknown(handle) if answer is None else answer)
        else:
            writers += sum(_is_chosen(replica, target, choice) for replica in answer.replicas)
            streams.append(await _lines(runner, handle, target, choice))
    if streams:
        lines = streams[0] if len(streams) == 1 else LogStream.merged(streams)
        several = len(set(found.handles)) > 1
        printer = printer_for(
            console,
            timestamps=choice.timestamps,
            several_apps=several,
            raw=choice.raw,
            prefix=not choice.no_prefix,
            alone=writers == 1,
        )
        try:
            await print_lines(lines, printer)
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001 - what could be read has been shown; why there is no more is told
            failures.append(error)
    return finish(console, failures, alone=not streams)


def _is_chosen(replica: ReplicaStatus, target: Target, choice: LogChoice) -> bool:
    replicas = _replicas(target, choice)
    return replica.role == (target.role or choice.role or replica.role) and (replicas is None or replica.id in replicas)


def _replicas(target: Target, choice: LogChoice) -> tuple[int, ...] | None:
    return target.replicas if target.replicas is not None else parse_replicas(choice.replica or "")


async def _lines(runner: Runner, handle: AppHandle, target: Target, choice: LogChoice) -> LogStream:
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
