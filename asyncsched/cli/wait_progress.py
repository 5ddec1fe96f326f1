"""Wait until apps have ended, and show the progress."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections import Counter
from collections.abc import Sequence

from asyncsched.cli.apps import describe_found, unknown
from asyncsched.cli.console import Console
from asyncsched.cli.json_rows import state_code, status_row
from asyncsched.cli.progress_line import ProgressLine
from asyncsched.cli.run_async import next_event
from asyncsched.cli.times import spent
from asyncsched.runner.runner import Runner
from asyncsched.specs.handle import AppHandle
from asyncsched.specs.state import AppState, AppStatus
from asyncsched.views.endings import why_ended

__all__ = ["Waiting", "tell_what_runs_on"]

ASKED_WITHIN = 2.0
"""How many seconds schedulers have to say which apps are still running after Ctrl-C."""

NAMED = 3
"""The maximum number of apps that are listed in a command to copy."""


class Waiting:
    """Prints each app with its state as it ends; on a terminal, a line below shows the progress.

    Args:
        console: Where to print.
        runner: The runner to wait with.
        prints_json: Whether to print each end in the format ``jsonl``.

    Attributes:
        handles: The apps that are waited for.
        failures: The errors so far.
        codes: The exit codes of the ended apps.
        rows: The ended apps as JSON rows.
        states: The last known state of each app.
    """

    def __init__(self, console: Console, runner: Runner, *, prints_json: bool = True) -> None:
        self._console = console
        self._prints_json = prints_json
        self._runner = runner
        self._line = ProgressLine()
        self._began = time.monotonic()
        self.states: dict[AppHandle, AppState] = {}
        self._over: set[AppHandle] = set()
        self.handles: Sequence[AppHandle] = ()
        self.failures: list[Exception] = []
        self.codes: list[int] = []
        self.rows: list[dict[str, object]] = []

    @property
    def left(self) -> list[AppHandle]:
        """The apps that have not ended."""
        return [handle for handle in self.handles if handle not in self._over]

    async def until_ended(self, handles: Sequence[AppHandle], *, first: bool = False) -> None:
        """Wait until all have ended, or the first."""
        self.handles = handles
        ticking = asyncio.create_task(self._tick())
        try:
            await self._watch(first=first)
        finally:
            ticking.cancel()
            await asyncio.wait([ticking])
            self._line.clear()

    async def _watch(self, *, first: bool) -> None:
        async with self._runner.watch(self.handles) as events:
            while (event := await next_event(events, self.failures.append)) is not None:
                self.states[event.handle] = event.state
                if event.is_terminal():
                    await self._tell(event.handle, event.current)
                self._show()
                if first and event.is_terminal() and event.current is not None:
                    return

    async def _tell(self, handle: AppHandle, status: AppStatus | None) -> None:
        self._over.add(handle)
        self.rows.append(status_row(handle, status))
        if status is None:
            self.failures.append(await unknown(self._runner, handle))
            return
        self.codes.append(state_code(status.state))
        self._line.clear()
        if self._console.format == "jsonl" and self._prints_json:
            self._console.print_json(self.rows[-1])
        elif self._console.format == "table":
            told = "" if status.state is AppState.SUCCEEDED else why_ended(status)
            why = f"  {told}" if told else ""
            self._console.print_state(f"{handle}  ", status.state, why)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(1)
            self._show()

    def _show(self) -> None:
        waited = spent(time.monotonic() - self._began)
        if len(self.handles) == 1:
            handle = self.handles[0]
            state = self.states.get(handle)
            self._line.show(f"waiting for {handle.app_id}{f', {state}' if state is not None else ''}: {waited}")
            return
        ended = [self.states[handle] for handle in self._over]
        failed = f", {count} FAILED" if (count := ended.count(AppState.FAILED)) else ""
        others = Counter(state for handle, state in self.states.items() if handle not in self._over)
        now = "".join(f", {count} {state}" for state, count in sorted(others.items(), reverse=True))
        self._line.show(f"{len(ended)} of {len(self.handles)} ended{failed}{now}: {waited}")


async def tell_what_runs_on(
    console: Console, runner: Runner, handles: Sequence[AppHandle], typed: Sequence[str], resume: Sequence[str]
) -> None:
    """Say which apps are still running after Ctrl-C, and how to follow them again.

    Args:
        console: Where to print it.
        runner: The runner to use.
        handles: The apps.
        typed: The arguments that named them, used again if there are many.
        resume: The command that follows them again.
    """
    try:
        async with asyncio.timeout(ASKED_WITHIN):
            told = await describe_found(runner, handles)
    except TimeoutError:
        told = dict.fromkeys(handles)
    running = [handle for handle in handles if not _has_ended(told[handle])]
    if not running:
        return
    which: Sequence[str] = running if len(running) <= NAMED else typed
    title = f"{running[0].app_id} is still running" if len(running) == 1 else f"{len(running)} apps are still running"
    console.say(
        f"{title}\n"
        f"  resume: asyncsched {' '.join(resume)} {shlex.join(which)}\n"
        f"  stop:   asyncsched cancel {shlex.join(which)}"
    )


def _has_ended(answer: object) -> bool:
    state: object = getattr(answer, "state", None)
    return isinstance(state, AppState) and state.is_terminal()
