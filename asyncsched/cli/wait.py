"""``asyncsched wait``: wait for the end of apps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from asyncsched.cli.console import Console
from asyncsched.cli.times import duration
from asyncsched.cli.verb import verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncsched.cli.targets import Target
    from asyncsched.runner.runner import Runner
    from asyncsched.specs.handle import AppHandle
    from asyncsched.specs.state import AppStatus

__all__ = ["command"]


@verb("wait")
@click.argument("apps", nargs=-1, required=True, metavar="APP...")
@click.option("--any/--all", "first", default=False, help="Wait for the first, or for all of them (the default).")
@click.option("--timeout", type=duration, metavar="TIME", help="At most so long: 30, 90s, 5m, 2h. Then exit code 124.")
def command(console: Console, apps: tuple[str, ...], first: bool, timeout: float | None) -> int:
    """Wait for the end of apps, and print each with its state as it ends.

    The exit code is that of the worst end: 1 if one has failed, 3 if one was cancelled.
    """
    from functools import partial

    from asyncsched.cli.apps import run_on_apps

    return run_on_apps(console, apps, partial(_wait, first=first, timeout=timeout))


async def _wait(
    console: Console, runner: Runner, targets: Sequence[Target], *, first: bool, timeout: float | None
) -> int:
    """Print each app with its state when it ends, until all, or the first, have; return the exit code of their ends."""
    import asyncio

    from asyncsched.cli.apps import finish

    wait = _Wait(console)
    try:
        async with asyncio.timeout(timeout):
            await wait.until_ended(runner, targets, first=first)
    except TimeoutError:
        wait.failures.append(TimeoutError(f"{wait.left}: no end within {timeout:g} s"))
    if console.format == "json":
        console.print_rows((), wait.rows)
    return finish(console, wait.failures, wait.codes, alone=not wait.codes)


class _Wait:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._handles: list[AppHandle] = []
        self._told: set[AppHandle] = set()
        self.failures: list[Exception] = []
        self.codes: list[int] = []
        self.rows: list[dict[str, object]] = []

    @property
    def left(self) -> str:
        """What has not ended."""
        left = [handle for handle in self._handles if handle not in self._told]
        return left[0] if len(left) == 1 else f"{len(left) or 'the'} apps"

    async def until_ended(self, runner: Runner, targets: Sequence[Target], *, first: bool) -> None:
        from asyncsched.cli.targets import find_apps

        found = await find_apps(runner, targets)
        self._handles = found.handles
        self.failures += found.failures
        async with runner.as_completed(found.handles) as ends:
            while True:
                try:
                    handle, status = await anext(ends)
                except StopAsyncIteration:
                    return
                except Exception as error:  # noqa: BLE001 - one scheduler's; the steps after it are the others'
                    self.failures.append(error)
                    continue
                await self._tell(runner, handle, status)
                if first and status is not None:
                    return

    async def _tell(self, runner: Runner, handle: AppHandle, status: AppStatus | None) -> None:
        from asyncsched.cli.apps import unknown
        from asyncsched.cli.show import state_code, status_row
        from asyncsched.specs.state import AppState

        self._told.add(handle)
        self.rows.append(status_row(handle, status))
        if status is None:
            self.failures.append(await unknown(runner, handle))
            return
        self.codes.append(state_code(status.state))
        if self._console.format == "jsonl":
            self._console.print_json(self.rows[-1])
        elif self._console.format == "table":
            why = f"  {status.msg}" if status.msg and status.state is not AppState.SUCCEEDED else ""
            self._console.print(f"{handle}  {status.state}{why}")
