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
from asyncsched.schedulers.shape import check_dryrun, check_roles
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
"""The environment variables in which a replica finds its app's handle."""


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

        Cancelled before the request that commits, nothing exists; after it, what was made is removed before the
        cancellation goes on.

        Args:
            app: What to run; it is never changed. An app of TorchX's classes is taken, too.
            scheduler: The scheduler's name; by default the first that the runner may use, which is ``local_cwd`` unless
                it was given others.
            cfg: Its run options, as a mapping or as its own class.
            workspace: Files to lay over the app's images.
            key: Makes the call idempotent: with the same session and key it returns the app there is. Its id begins
                with the key.

        Raises:
            ConfigError: The app cannot be run as it is described (the message names the role), or the scheduler or an
                option is not known.
            UsageError: An argument is of another kind; the message says what was meant.
            ConflictError: Another app was launched under this key.
            SchedulerError: The service refused or failed; nothing is left behind.
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
        """Launch the app that a component makes and return its handle.

        Args:
            component: ``utils.echo``, ``module.function``, ``path/file.py:function``, or a registered name.
            component_args: The component's command line, or its arguments by name.
            scheduler: As in `run`.
            cfg: As in `run`.
            workspace: As in `run`.
            key: As in `run`.

        Raises:
            ComponentError: There is no such component, or its arguments are wrong.
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
        """Return what `run` would send, changing nothing; its `request` may be edited, then given to `schedule`."""
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
        """Return what `run_component` would send, changing nothing."""
        app = await self._component(component, component_args)
        return await self.dryrun(app, scheduler, cfg, workspace, key=key)

    async def schedule(self, dryrun_info: AppDryRunInfo[Any]) -> AppHandle:
        """Launch what a dry-run has shown and return its handle; the second time nothing happens."""
        self._enter()
        check_dryrun(dryrun_info)
        scheduler = self._planned.get(dryrun_info, dryrun_info.scheduler)
        with self._calls.call("schedule", scheduler, dryrun_info.app_id):
            backend = await self._backends.open(scheduler)
            return self._launched(scheduler, backend, await backend.schedule(dryrun_info))

    def _start(self, app: AppDef | TorchXApp, scheduler: str | None) -> tuple[AppDef, str]:
        """Check, at the start of a launch, what it was given; return the app and the name of the scheduler."""
        self._enter()
        app = adopted(app)
        check_roles(app)
        return app, self._backends.chosen(scheduler)

    async def _component(self, name: str, args: Sequence[str] | Mapping[str, object]) -> AppDef:
        self._enter()
        _check_component(name, args)
        # Finding one imports the user's modules or runs a file.
        return await asyncio.to_thread(_make_app, name, args, self._component_defaults.get(name))

    def _launched(self, scheduler: str, backend: AnyScheduler, app_id: str) -> AppHandle:
        handle = make_app_handle(scheduler, backend.session_name, app_id)
        if self._seen.get(handle) is None:  # with a key, or the second time, it may be far beyond that
            self._seen.note(handle, AppStatus(AppState.SUBMITTED, handle=handle))
        return handle


def _told_its_handle(app: AppDef, scheduler: str, session: str) -> AppDef:
    """Return a copy of the app whose replicas find their app's handle in their environment."""
    handle = f"{scheduler}://{session}/{macros.app_id}"
    told = copy.copy(app)
    try:
        told.roles = [with_env(role, dict.fromkeys(JOB_ID_NAMES, handle)) for role in app.roles]
    except (TypeError, ValueError):
        pass  # the environment of a role is none: the scheduler checks it and says what is wrong
    return told


def _check_component(name: object, args: object) -> None:
    """Raise UsageError for what is no component's name, and for arguments that are one text."""
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
    from asyncsched.components import get_component  # only who uses components pays for them

    return get_component(name).app(args, defaults)
