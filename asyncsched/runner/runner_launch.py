"""The part of `Runner` that launches apps."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from asyncsched._torchx import TorchXApp, adopted
from asyncsched.runner.backends import AnyScheduler
from asyncsched.runner.role_env import with_env
from asyncsched.runner.runner_base import _RunnerBase
from asyncsched.schedulers.arguments import check_dryrun
from asyncsched.specs.app import AppDef
from asyncsched.specs.dryrun import AppDryRunInfo
from asyncsched.specs.given import kind, unexpected, words
from asyncsched.specs.handle import AppHandle, make_app_handle
from asyncsched.specs.macros import macros
from asyncsched.specs.run_options import CfgVal
from asyncsched.specs.state import AppState, AppStatus

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


JOB_ID_NAMES = ("ASYNCSCHED_JOB_ID", "TORCHX_JOB_ID")
"""Environment variables that hold the app's handle in each replica."""


class _LaunchingRunner(_RunnerBase):
    """The operations that launch an app, or show what would be launched."""

    async def run(
        self,
        app: AppDef | TorchXApp,
        scheduler: str | None = None,
        cfg: Mapping[str, CfgVal] | DataclassInstance | None = None,
        workspace: str | None = None,
        *,
        key: str | None = None,
    ) -> AppHandle:
        """Launch an app and return its handle.

        If cancelled before the final request, nothing is created. If cancelled after it, the app is removed before the
        cancellation continues.

        Args:
            app: The app to run; it is not modified. A TorchX `AppDef` works too.
            scheduler: The scheduler's name; by default the runner's first.
            cfg: The scheduler's run options, as a mapping or an instance of its options class.
            workspace: A directory or URL whose files are added to the app's images.
            key: Makes the call idempotent: with the same session and key, it returns the existing app. The app's id
                begins with the key.

        Raises:
            ConfigError: The app definition is invalid (the message names the role), or the scheduler or an option is
                unknown.
            UsageError: An argument has the wrong type; the message says what to write.
            ConflictError: A different app was launched with this key.
            SchedulerError: The service refused the app or failed; nothing is left behind.
        """
        app, scheduler = self._start(app, scheduler)
        with self._calls.call("run", scheduler) as call:
            backend = await self._backends.open(scheduler)
            call.app_id = await backend.submit(
                _told_its_handle(app, scheduler, backend.session_name), cfg, workspace, key=key
            )
            return self._launched(scheduler, backend, call.app_id)

    async def run_component(
        self,
        component: str,
        component_args: Sequence[str] | Mapping[str, object],
        scheduler: str | None = None,
        cfg: Mapping[str, CfgVal] | DataclassInstance | None = None,
        workspace: str | None = None,
        *,
        key: str | None = None,
    ) -> AppHandle:
        """Launch the app that a component creates and return its handle.

        Args:
            component: ``utils.echo``, ``module.function``, ``path/file.py:function``, or a registered name.
            component_args: The component's arguments, as a command line or by name.
            scheduler: As in `run`.
            cfg: As in `run`.
            workspace: As in `run`.
            key: As in `run`.

        Raises:
            ComponentError: The component does not exist, or its arguments are invalid.
        """
        app = await self._component(component, component_args)
        return await self.run(app, scheduler, cfg, workspace, key=key)

    async def dryrun(
        self,
        app: AppDef | TorchXApp,
        scheduler: str | None = None,
        cfg: Mapping[str, CfgVal] | DataclassInstance | None = None,
        workspace: str | None = None,
        *,
        key: str | None = None,
    ) -> AppDryRunInfo[Any]:
        """Return what `run` would send, without sending it. You can edit its `request` and pass it to `schedule`."""
        app, scheduler = self._start(app, scheduler)
        with self._calls.call("dryrun", scheduler) as call:
            backend = await self._backends.open(scheduler)
            told = _told_its_handle(app, scheduler, backend.session_name)
            info: AppDryRunInfo[Any] = await backend.submit_dryrun(told, cfg, workspace, key=key)
            call.app_id = info.app_id
            self._planned[info] = scheduler
            return info

    async def dryrun_component(
        self,
        component: str,
        component_args: Sequence[str] | Mapping[str, object],
        scheduler: str | None = None,
        cfg: Mapping[str, CfgVal] | DataclassInstance | None = None,
        workspace: str | None = None,
        *,
        key: str | None = None,
    ) -> AppDryRunInfo[Any]:
        """Return what `run_component` would send, without sending it."""
        app = await self._component(component, component_args)
        return await self.dryrun(app, scheduler, cfg, workspace, key=key)

    async def schedule(self, dryrun_info: AppDryRunInfo[Any]) -> AppHandle:
        """Launch a dry-run and return the app's handle. Scheduling the same dry-run again changes nothing."""
        self._enter()
        check_dryrun(dryrun_info)
        scheduler = self._planned.get(dryrun_info, dryrun_info.scheduler)
        with self._calls.call("schedule", scheduler, dryrun_info.app_id):
            backend = await self._backends.open(scheduler)
            return self._launched(scheduler, backend, await backend.schedule(dryrun_info))

    def _start(self, app: AppDef | TorchXApp, scheduler: str | None) -> tuple[AppDef, str]:
        """Check the arguments of a launch; return the app and the name of the scheduler."""
        from asyncsched.schedulers.shape import check_roles  # imported late: only submits need it

        self._enter()
        app = adopted(app)
        check_roles(app)
        return app, self._backends.chosen(scheduler)

    async def _component(self, name: str, args: Sequence[str] | Mapping[str, object]) -> AppDef:
        self._enter()
        _check_component(name, args)
        # In a thread, because finding a component imports the user's modules or runs a file.
        return await asyncio.to_thread(_make_app, name, args, self._component_defaults.get(name))

    def _launched(self, scheduler: str, backend: AnyScheduler, app_id: str) -> AppHandle:
        handle = make_app_handle(scheduler, backend.session_name, app_id)
        if self._seen.get(handle) is None:  # with a key, or on a repeated call, the app may be further along
            self._seen.note(handle, AppStatus(AppState.SUBMITTED, handle=handle))
        return handle


def _told_its_handle(app: AppDef, scheduler: str, session: str) -> AppDef:
    """Return a copy of the app with its handle in the environment of each replica."""
    handle = f"{scheduler}://{session}/{macros.app_id}"
    told = copy.copy(app)
    try:
        told.roles = [with_env(role, dict.fromkeys(JOB_ID_NAMES, handle)) for role in app.roles]
    except (TypeError, ValueError):
        pass  # an environment is invalid: the scheduler checks it and reports what is wrong
    return told


def _check_component(name: object, args: object) -> None:
    """Raise UsageError for a component or arguments of the wrong type."""
    if not isinstance(name, str):
        fix = "an app is launched by run(app)" if isinstance(name, AppDef) else ""
        fix = "call it, and give what it returns to run(app)" if callable(name) else fix
        raise unexpected("component", name, "a component's name, such as 'utils.echo'", fix)
    wanted = "a list of strings, or a mapping of arguments by name"
    if isinstance(args, str):
        raise unexpected("component_args", args, wanted, f"write {words(args)!r}")
    if not isinstance(args, (Sequence, Mapping)):
        raise unexpected("component_args", args, wanted, "write [] for none")
    for arg in () if isinstance(args, Mapping) else cast("Sequence[object]", args):
        if not isinstance(arg, str):
            raise unexpected("component_args", [arg], wanted, f"one is {kind(arg)}: write {str(arg)!r}")


def _make_app(name: str, args: Sequence[str] | Mapping[str, object], defaults: Mapping[str, object] | None) -> AppDef:
    from asyncsched.components import get_component  # imported on first use

    return get_component(name).app(args, defaults)
