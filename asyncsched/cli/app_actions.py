"""What `cancel` and `delete` share: confirm, act on each app, report, and return the exit code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from asyncsched.cli.app_arguments import Target, find_apps
from asyncsched.cli.apps import describe_found, finish, unknown
from asyncsched.cli.console import Console
from asyncsched.cli.errors import INTERRUPTED
from asyncsched.cli.json_rows import error_row, handle_row
from asyncsched.cli.question import can_ask, confirm
from asyncsched.cli.wait_progress import Waiting, tell_what_runs_on
from asyncsched.runner.runner import Runner
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.specs.handle import AppHandle
from asyncsched.specs.state import AppState

__all__ = ["AppAction"]

SHOWN = 5
"""How many apps a question lists."""

ENDED = "had already ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppAction:
    """An action on apps.

    Attributes:
        name: The verb that questions use.
        done: The text that reports success for an app.
        act: Acts on apps and returns the error of each, or None.
        to_ended: Whether to act on apps that have ended. If not, they are reported and left alone.
        yes: Whether to act without asking.
        before: Called before `act` with all apps that were found, and with those that are acted on.
        always_asks: Whether to ask about a single app too, because the user did not name it.
        waits: Whether to wait until the apps have ended.
    """

    name: str
    done: str
    act: Callable[[Sequence[AppHandle]], Awaitable[Mapping[AppHandle, Exception | None]]]
    to_ended: bool
    yes: bool
    before: Callable[[Sequence[AppHandle], Sequence[AppHandle]], Awaitable[None]] | None = None
    always_asks: bool = False
    waits: bool = False

    async def do(self, console: Console, runner: Runner, targets: Sequence[Target]) -> int:
        """Act on each app that exists, report the outcome, and return the exit code.

        An app that does not exist is an error: the user named it and expects it to be there.
        """
        found = await find_apps(console, runner, targets, newest=False)
        told: dict[AppHandle, str | Exception] = {}
        states: dict[AppHandle, AppState] = {}
        for handle, answer in (await describe_found(runner, found.handles)).items():
            if isinstance(answer, DescribeAppResponse):
                states[handle] = answer.state
                told[handle] = ENDED if answer.state.is_terminal() and not self.to_ended else self.done
            else:
                told[handle] = await unknown(runner, handle) if answer is None else answer
        chosen = [handle for handle, answer in told.items() if answer is self.done]
        if not await self._may(console, {handle: states[handle] for handle in chosen}):
            console.say("nothing was done")
            return INTERRUPTED
        if self.before is not None:
            await self.before(found.handles, chosen)
        told |= {handle: error for handle, error in (await self.act(chosen)).items() if error is not None}
        if console.format == "table":
            for handle, outcome in told.items():
                self._say(console, handle, outcome, states)
        return await self._end(console, runner, told, states, list(found.failures))

    async def _may(self, console: Console, chosen: Mapping[AppHandle, AppState]) -> bool:
        if self.yes or not chosen or (len(chosen) == 1 and not self.always_asks) or not can_ask():
            return True
        if len(chosen) == 1:
            return await confirm(console, f"{self.name} {next(iter(chosen))}?")
        for handle in [*chosen][:SHOWN]:
            console.say_state(f"  {handle}  ", chosen[handle], "")
        if len(chosen) > SHOWN:
            console.say(f"  and {len(chosen) - SHOWN} more")
        return await confirm(console, f"{self.name} {len(chosen)} apps?")

    def _say(
        self, console: Console, handle: AppHandle, answer: str | Exception, states: Mapping[AppHandle, AppState]
    ) -> None:
        if answer is ENDED:
            console.say_state(f"{handle}: {ENDED}: ", states[handle], "")
        elif not isinstance(answer, Exception):
            console.say(f"{handle}: {answer}")

    async def _end(
        self,
        console: Console,
        runner: Runner,
        told: Mapping[AppHandle, str | Exception],
        states: dict[AppHandle, AppState],
        failures: list[Exception],
    ) -> int:
        failures += [answer for answer in told.values() if isinstance(answer, Exception)]
        asked = [handle for handle, answer in told.items() if answer is self.done]
        is_stopped = self.waits and await self._wait(console, runner, asked, states, failures)
        if console.format != "table":
            console.print_rows((), [_row(handle, answer, states) for handle, answer in told.items()])
        return INTERRUPTED if is_stopped else finish(console, failures, alone=len(told) <= 1)

    async def _wait(
        self,
        console: Console,
        runner: Runner,
        handles: Sequence[AppHandle],
        states: dict[AppHandle, AppState],
        failures: list[Exception],
    ) -> bool:
        """Wait until the apps have ended, in whatever state; return whether Ctrl-C stopped the wait."""
        import asyncio

        waiting = Waiting(console, runner, prints_json=False)
        try:
            await waiting.until_ended(handles)
        except asyncio.CancelledError:  # Ctrl-C, which this verb handles
            await tell_what_runs_on(console, runner, waiting.left, waiting.left, ["wait"])
            return True
        finally:
            states |= waiting.states
            failures += waiting.failures
        return False


def _row(handle: AppHandle, answer: str | Exception, states: Mapping[AppHandle, AppState]) -> dict[str, object]:
    if isinstance(answer, Exception):
        return error_row(handle, answer)
    return {**handle_row(handle), "done": answer, "state": states[handle].name}
