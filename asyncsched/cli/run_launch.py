"""Launch an app and, if it is attached, follow it to its end."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from asyncsched.cli.console import Console
from asyncsched.cli.errors import INTERRUPTED
from asyncsched.cli.image_progress import image_progress
from asyncsched.cli.json_rows import handle_row, state_code, status_row
from asyncsched.cli.last_launched import note_launch
from asyncsched.cli.log_printer import LinePrinter, print_lines, printer_for
from asyncsched.cli.run_async import on_interrupt, run_with_runner
from asyncsched.errors import AsyncSchedError, UsageError
from asyncsched.runner.config import Setting, Settings, load_config, run_options
from asyncsched.runner.config.options import naming_origins
from asyncsched.runner.runner import Runner
from asyncsched.schedulers.registry import get_default_scheduler_name, known_names
from asyncsched.specs.app import AppDef
from asyncsched.specs.handle import AppHandle
from asyncsched.specs.run_options import CfgVal, runopts
from asyncsched.specs.secret import show_secrets
from asyncsched.specs.state import AppState, AppStatus
from asyncsched.views.endings import why_ended
from asyncsched.views.log_names import Names

if TYPE_CHECKING:
    from asyncsched.schedulers.registry import Ahead

__all__ = ["Launch"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Launch:
    """How to launch an app; the fields are the options of ``asyncsched run``.

    `foreign_workspace` is the place where the workspace is configured, if that is a TorchX file.
    """

    scheduler: str | None
    cfg: tuple[str, ...] = ()
    workspace: str | None = None
    foreign_workspace: str = ""
    key: str | None = None
    dryrun: bool = False
    show_secrets: bool = False
    detach: bool = False
    wait: bool = False
    log: bool = False
    prefix: bool = True
    raw: bool = False
    pass_exit_code: bool = False
    ahead: Ahead | None = None

    def run(self, console: Console, make_app: Callable[[], AppDef]) -> int:
        """Launch the app and return the exit code.

        Args:
            console: Where to print.
            make_app: Creates the app; called while the scheduler starts.
        """
        return run_with_runner(console, lambda runner: self._launch(console, runner, make_app))

    async def _launch(self, console: Console, runner: Runner, make_app: Callable[[], AppDef]) -> int:
        scheduler = self.scheduler or get_default_scheduler_name()
        opts = await runner.scheduler_run_opts(scheduler)
        if self.ahead is not None:
            self.ahead.hand_to(await runner.scheduler(scheduler))
        warming = None if self.dryrun else asyncio.create_task(_warm_up(runner, scheduler))
        names = await runner.scheduler_backends()
        try:
            # While the scheduler starts, and in a thread, because a component may block or run its own loop.
            app = await asyncio.to_thread(make_app)
            settings = self._settings(scheduler, opts, names)
            with naming_origins(settings):
                return await self._launch_on(console, runner, app, scheduler, _values(settings))
        finally:
            if warming is not None:
                warming.cancel()
                await asyncio.wait([warming])

    async def _launch_on(
        self, console: Console, runner: Runner, app: AppDef, scheduler: str, cfg: Mapping[str, CfgVal]
    ) -> int:
        if self.dryrun:
            return await self._show(console, runner, app, scheduler, cfg)
        backend = await runner.scheduler(scheduler)
        is_here = backend.runs_here or backend.ends_with_submitter
        if self.detach and backend.ends_with_submitter and not cfg.get("detach"):
            raise UsageError(f"{scheduler} cannot detach", why="its apps end with the process that submits them")
        workspace = await self._workspace(console, runner, scheduler)
        with image_progress(console):
            handle = await runner.run(app, scheduler, cfg, workspace, key=self.key)
        note_launch(handle)
        if place := backend.place:
            console.say(f"in {place}")
        is_attached = not self.detach and (is_here or self.wait or self.log or self.pass_exit_code)
        if console.format == "table":
            console.print(handle)
        elif console.format == "jsonl" or not is_attached:
            console.print_json(handle_row(handle))
        if not is_attached:
            return 0
        with_log = self.log or (is_here and not self.wait)
        printer = self._printer(console, app) if with_log else None
        attached = _Attached(console, runner, handle, printer, ends_with_us=is_here, passes_code=self.pass_exit_code)
        return await attached.follow()

    async def _workspace(self, console: Console, runner: Runner, scheduler: str) -> str | None:
        """Return the workspace; one from a TorchX file only if the scheduler adds it to images, as TorchX does."""
        if self.foreign_workspace:
            backend = await runner.scheduler(scheduler)
            if type(backend).workspace_builder is None or not backend.has_images:
                console.say(f"{scheduler} does not use the workspace of {self.foreign_workspace}; give --workspace")
                return None
        return self.workspace

    def _printer(self, console: Console, app: AppDef) -> LinePrinter:
        alone = sum(role.num_replicas for role in app.roles) == 1
        names = Names.of_app(app)
        if console.format == "json":  # stdout gets only one document
            return LinePrinter(sys.stderr, names=names, raw=self.raw, prefix=self.prefix, alone=alone)
        return printer_for(console, names=names, raw=self.raw, prefix=self.prefix, alone=alone)

    def options(self, scheduler: str, opts: runopts, names: Sequence[str]) -> dict[str, CfgVal]:
        """Return the run options: the configured ones, overridden by those of the command line."""
        return _values(self._settings(scheduler, opts, names))

    def _settings(self, scheduler: str, opts: runopts, names: Sequence[str]) -> dict[str, Setting]:
        config = load_config()
        config.check_names("scheduler", dict.fromkeys((*names, *known_names())))
        found = run_options(config, scheduler, opts, self.cfg, schedulers=names)
        if self.detach and "detach" in opts:
            found["detach"] = Setting(True, "--detach")
        return found

    async def _show(
        self, console: Console, runner: Runner, app: AppDef, scheduler: str, cfg: Mapping[str, CfgVal]
    ) -> int:
        info = await runner.dryrun(app, scheduler, cfg, await self._workspace(console, runner, scheduler), key=self.key)
        with show_secrets() if self.show_secrets else nullcontext():
            if console.format == "table":
                console.print(str(info))
            else:
                from asyncsched.specs.masking import masked

                ignored = [each._asdict() for each in info.ignored]
                request = masked(info.request)
                shown = {"scheduler": scheduler, "app_id": info.app_id, "request": request, "ignored": ignored}
                console.print_json({**shown, **({"workspace": info.workspace} if info.workspace else {})})
        return 0


def _values(settings: Settings) -> dict[str, CfgVal]:
    return {name: cast("CfgVal", setting.value) for name, setting in settings.items()}


async def _warm_up(runner: Runner, scheduler: str) -> None:
    try:
        await (await runner.scheduler(scheduler)).warm_up()
    except AsyncSchedError:
        pass  # the submit reports the error


class _Attached:
    """Follows an app from a terminal."""

    def __init__(
        self,
        console: Console,
        runner: Runner,
        handle: AppHandle,
        printer: LinePrinter | None,
        *,
        ends_with_us: bool,
        passes_code: bool,
    ) -> None:
        self._console = console
        self._runner = runner
        self._handle = handle
        self._printer = printer
        self._ends_with_us = ends_with_us
        self._passes_code = passes_code
        self._started = time.monotonic()
        self._presses: asyncio.Queue[None] = asyncio.Queue()

    async def follow(self) -> int:
        """Show the app's log until it has ended; return the exit code."""
        with on_interrupt(lambda: self._presses.put_nowait(None)):
            following = asyncio.create_task(self._to_the_end())
            try:
                if await self._over_before_ctrl_c(following):
                    return self._ended(await following)
                await (self._stop(following) if self._ends_with_us else self._detach())
                return INTERRUPTED
            finally:
                following.cancel()
                await asyncio.wait([following])

    async def _over_before_ctrl_c(self, following: asyncio.Task[AppStatus | None]) -> bool:
        pressed = asyncio.create_task(self._presses.get())
        try:
            await asyncio.wait([following, pressed], return_when=asyncio.FIRST_COMPLETED)
            return following.done()
        finally:
            pressed.cancel()

    async def _to_the_end(self) -> AppStatus | None:
        if self._printer is not None:
            await print_lines(self._runner.log_lines(self._handle, should_tail=True), self._printer)
        return await self._runner.wait(self._handle)

    def _ended(self, status: AppStatus | None) -> int:
        if self._console.format != "table":
            self._console.print_json(status_row(self._handle, status))
        state = AppState.UNKNOWN if status is None else status.state
        why = "" if status is None else why_ended(status)
        took = f" after {time.monotonic() - self._started:.1f} s"
        self._console.say_state(f"{self._handle.app_id} ", state, f"{took}: {why}" if why else took)
        if not self._passes_code:
            return state_code(state)
        from asyncsched.cli.run_end import code_to_pass

        return code_to_pass(status)

    async def _detach(self) -> None:
        if self._console.format == "json":  # instead of the end, which is not known
            self._console.print_json(handle_row(self._handle))
        self._console.say(
            f"detached: {self._handle.app_id} is still running\n"
            f"  resume: asyncsched log -f {self._handle}\n"
            f"  stop:   asyncsched cancel {self._handle}"
        )

    async def _stop(self, following: asyncio.Task[AppStatus | None]) -> None:
        """Cancel the app and follow it to its end; a second Ctrl-C kills it, a third exits."""
        self._console.say(f"ending {self._handle.app_id}; Ctrl-C again ends it at once")
        await self._runner.cancel(self._handle)
        if not await self._over_before_ctrl_c(following):
            await self._kill()
            if not await self._over_before_ctrl_c(following):
                return
        self._ended(await following)

    async def _kill(self) -> None:
        await (await self._runner.scheduler(self._handle.scheduler)).kill(self._handle.app_id)
