"""End apps, remove them, and wait for their end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from asyncsched.cli.console import Console
from asyncsched.cli.looking import describe_found, finish, unknown
from asyncsched.cli.loop import answers
from asyncsched.cli.show import error_row, handle_row, state_code, status_row
from asyncsched.cli.targets import Target, find_apps
from asyncsched.runner.runner import Runner
from asyncsched.specs.handle import AppHandle
from asyncsched.specs.state import AppState, AppStatus

__all__ = ["cancel_apps", "delete_apps", "wait_for_apps"]


async def cancel_apps(console: Console, runner: Runner, targets: Sequence[Target]) -> int:
    """Ask for the end of each app; an unknown one is an error here, as who types its name believes that it is there."""
    return await _each(console, runner, targets, runner.cancel, "cancel was asked for")


async def delete_apps(console: Console, runner: Runner, targets: Sequence[Target]) -> int:
    """Remove each app that has ended."""
    return await _each(console, runner, targets, runner.delete, "deleted")


async def _each(
    console: Console, runner: Runner, targets: Sequence[Target], act: Callable[[str], Awaitable[None]], done: str
) -> int:
    found = await find_apps(runner, targets)
    failures = list(found.failures)
    told: dict[AppHandle, str | Exception] = {}
    for handle, answer in (await describe_found(runner, found.handles)).items():
        told[handle] = unknown(handle) if answer is None else answer if isinstance(answer, Exception) else done
    known = [handle for handle, answer in told.items() if not isinstance(answer, Exception)]
    told |= {handle: error for handle, error in (await answers(act, known)).items() if error is not None}
    failures += [answer for answer in told.values() if isinstance(answer, Exception)]
    if console.format != "table":
        console.print_rows((), [_deed(handle, answer) for handle, answer in told.items()])
    for handle in known:
        if told[handle] is done and console.format == "table":
            console.say(f"{handle}: {done}")
    return finish(console, failures, alone=len(told) <= 1)


def _deed(handle: AppHandle, answer: str | Exception) -> dict[str, object]:
    return error_row(handle, answer) if isinstance(answer, Exception) else {**handle_row(handle), "done": answer}


async def wait_for_apps(
    console: Console, runner: Runner, targets: Sequence[Target], *, first: bool, timeout: float | None
) -> int:
    """Print each app with its state when it ends, until all, or the first, have; return the exit code of their ends."""
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
                self._tell(handle, status)
                if first and status is not None:
                    return

    def _tell(self, handle: AppHandle, status: AppStatus | None) -> None:
        self._told.add(handle)
        self.rows.append(status_row(handle, status))
        if status is None:
            self.failures.append(unknown(handle))
            return
        self.codes.append(state_code(status.state))
        if self._console.format == "jsonl":
            self._console.print_json(self.rows[-1])
        elif self._console.format == "table":
            why = f"  {status.msg}" if status.msg and status.state is not AppState.SUCCEEDED else ""
            self._console.print(f"{handle}  {status.state}{why}")
