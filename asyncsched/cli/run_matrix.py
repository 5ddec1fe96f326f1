"""``asyncsched run --matrix``: a group of jobs that run a component with combinations of arguments."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

import click

from asyncsched.cli.console import Console
from asyncsched.cli.errors import INTERRUPTED, worst
from asyncsched.cli.json_rows import state_code, status_row
from asyncsched.cli.last_launched import note_launch
from asyncsched.cli.question import can_ask, confirm
from asyncsched.cli.run_async import run_with_runner
from asyncsched.cli.run_launch import Launch
from asyncsched.runner.groups.group import JobGroup
from asyncsched.runner.groups.job import Job
from asyncsched.runner.runner import Runner
from asyncsched.schedulers.registry import get_default_scheduler_name
from asyncsched.specs.app import AppDef
from asyncsched.specs.state import AppState
from asyncsched.views.endings import why_ended

__all__ = ["combinations", "run_matrix"]

MOST_JOBS = 100_000

MOST_UNASKED = 1000
"""The maximum number of jobs that are started without asking."""


def combinations(matrix: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """Yield each combination of the values in ``NAME=a,b,c``; the last name's values change fastest."""
    values: dict[str, list[str]] = {}
    count = 1
    for text in matrix:
        name, equals, listed = text.partition("=")
        if not name or not equals or not listed:
            raise click.UsageError(f"--matrix must be NAME=VALUE,VALUE,..., got {text!r}")
        if name in values:
            raise click.UsageError(f"--matrix names {name} twice")
        values[name] = listed.split(",")
        if twice := next((value for value in values[name] if values[name].count(value) > 1), None):
            raise click.UsageError(f"--matrix names {name}={twice} twice")
        count *= len(values[name])
    if count > MOST_JOBS:
        raise click.UsageError(f"--matrix makes {count:,} jobs; the maximum is {MOST_JOBS:,}")
    for chosen in product(*values.values()):
        yield dict(zip(values, chosen, strict=True))


def run_matrix(
    console: Console,
    launch: Launch,
    jobs: Mapping[str, Callable[[], AppDef]],
    *,
    limit: int | None,
    key: str | None,
    yes: bool,
) -> int:
    """Run jobs, print each as it ends, and return the exit code of the worst result.

    Args:
        console: Where to print.
        launch: How they are launched.
        jobs: Functions that create the apps, by job name.
        limit: How many jobs run at a time.
        key: The group's key, to continue it later.
        yes: Whether to start any number of jobs without asking.
    """

    async def work(runner: Runner) -> int:
        if len(jobs) > MOST_UNASKED and not yes and not await _may(console, len(jobs)):
            console.say("nothing was started")
            return INTERRUPTED
        scheduler = launch.scheduler or get_default_scheduler_name()
        opts = await runner.scheduler_run_opts(scheduler)
        cfg = launch.options(scheduler, opts, await runner.scheduler_backends())
        if key is not None and (await runner.scheduler(scheduler)).ends_with_submitter:
            cfg["detach"] = True  # a group that can be continued must outlive this process
        apps = await asyncio.to_thread(lambda: {name: make() for name, make in jobs.items()})
        group = runner.group(scheduler, cfg, limit=limit, key=key, on_failure="continue", workspace=launch.workspace)
        is_entered = False
        try:
            async with group:
                is_entered = True
                for name, app in apps.items():
                    group.start(app, name=name)
                async for job in group.as_completed():
                    _tell(console, job)
        finally:
            code = _sum_up(console, group) if is_entered else 0
        return code

    return run_with_runner(console, work)


async def _may(console: Console, count: int) -> bool:
    """Ask whether to start this many jobs.

    Raises:
        click.UsageError: The user cannot be asked.
    """
    if not can_ask():
        raise click.UsageError(f"--matrix makes {count:,} jobs; add -y to start more than {MOST_UNASKED:,}")
    return await confirm(console, f"start {count:,} jobs?")


def _tell(console: Console, job: Job) -> None:
    status = job.status
    if console.format == "table":
        why = "" if status.state is AppState.SUCCEEDED else why_ended(status)
        console.print_state(f"{job.handle or '-'}  {job.name}  ", status.state, f"  {why}" if why else "")
    elif job.handle is not None:
        console.print_json({**status_row(job.handle, status), "job": job.name})


def _sum_up(console: Console, group: JobGroup) -> int:
    if launched := [job.handle for job in group.jobs if job.handle is not None]:
        note_launch(launched[-1])
    console.say(str(group))
    return worst([state_code(job.state) for job in group.jobs])
