"""``asyncsched status``: how apps are doing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from asyncsched.cli.console import Console
from asyncsched.cli.verb import verb

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from asyncsched.cli.targets import Found, Target
    from asyncsched.runner.runner import Runner
    from asyncsched.schedulers.responses import DescribeAppResponse
    from asyncsched.specs.handle import AppHandle
    from asyncsched.specs.state import AppStatus

__all__ = ["command"]


@verb("status")
@click.argument("apps", nargs=-1, required=True, metavar="APP...")
@click.option("-w", "--watch", is_flag=True, help="Show each change, until all have ended.")
@click.option("--roles", metavar="ROLE,...", help="Only these roles.")
def command(console: Console, apps: tuple[str, ...], watch: bool, roles: str | None) -> int:
    """Show how apps are doing: one in full, several as a table.

    APP is a handle, an id, the beginning of one, or a pattern such as 'train-*'.
    """
    from asyncsched.cli.apps import run_on_apps, watch_found
    from asyncsched.cli.targets import find_apps

    chosen = roles.split(",") if roles else None

    async def show(console: Console, runner: Runner, targets: Sequence[Target]) -> int:
        found = await find_apps(runner, targets)
        return await (watch_found(console, runner, found) if watch else _show(console, runner, found, chosen))

    return run_on_apps(console, apps, show)


async def _show(console: Console, runner: Runner, found: Found, roles: Collection[str] | None) -> int:
    """Print the status of the one app in full, of several as a table; return the exit code."""
    from asyncsched.cli.apps import describe_found, finish, unknown
    from asyncsched.cli.show import error_row
    from asyncsched.runner.answers import status_of

    known: list[AppStatus] = []
    rows: list[dict[str, object]] = []
    failures = list(found.failures)
    for handle, answer in (await describe_found(runner, found.handles)).items():
        if answer is None or isinstance(answer, Exception):
            failures.append(await unknown(runner, handle) if answer is None else answer)
            rows.append(error_row(handle, failures[-1]))
            continue
        known.append(status_of(answer, handle))
        rows.append(_status_row(handle, answer, roles))
    if console.format != "table":
        console.print_rows((), rows)
    elif len(known) == 1 and not failures and not found.apps[0][1].is_pattern:
        console.print(known[0].format(roles).rstrip())
    elif known:
        console.print_rows(("handle", "state", "replicas", "msg"), [row for row in rows if "error" not in row])
    return finish(console, failures, alone=not known)


def _status_row(handle: AppHandle, answer: DescribeAppResponse, roles: Collection[str] | None) -> dict[str, object]:
    from asyncsched.cli.show import status_row
    from asyncsched.runner.answers import status_of

    started = sum(replica.state.is_started() for replica in answer.replicas)
    row = status_row(handle, status_of(answer, handle), roles)
    return {**row, "replicas": f"{started}/{len(answer.replicas)}"}
