"""The part of the scheduler interface that launches apps: dry-run, workspace, schedule and submit."""

from __future__ import annotations

import asyncio
import copy
import weakref
from collections.abc import Mapping
from typing import Unpack

from asyncsched.errors import ConfigError, MalformedHandleError, UsageError
from asyncsched.logs.loop_time import budget_of
from asyncsched.schedulers.arguments import check_dryrun, check_workspace
from asyncsched.schedulers.built_in import with_workspaces
from asyncsched.schedulers.ending import Ending
from asyncsched.schedulers.hooks import OptsT, RequestT, WorkspaceBuilder
from asyncsched.schedulers.lifetime import Tunables
from asyncsched.schedulers.request_checks import as_mapping, check_same_app, has_timeout
from asyncsched.specs.app import AppDef
from asyncsched.specs.copies import copied
from asyncsched.specs.dryrun import AppDryRunInfo
from asyncsched.specs.handle import make_app_handle
from asyncsched.specs.run_options import CfgVal, runopts

__all__ = ["Submitting"]


class Submitting(Ending[OptsT, RequestT]):
    """The methods of `Scheduler` that launch apps."""

    def __init__(self, backend: str, session_name: str, **tunables: Unpack[Tunables]) -> None:
        from asyncsched.schedulers.ignored import Notices  # loaded with the first scheduler

        super().__init__(backend, session_name, **tunables)
        self._workspaces: WorkspaceBuilder | None = None
        self._notices = Notices(backend)
        self._scheduling: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    async def warm_up(self) -> None:
        """Prepare what the first submit would wait for, such as a process. Calling this is optional.

        Raises:
            SchedulerError: It failed; the submit would fail too.
        """
        self._enter()
        await self._within("warm_up", self._warm_up())

    async def submit(
        self,
        app: AppDef,
        cfg: OptsT | Mapping[str, CfgVal] | None = None,
        workspace: str | None = None,
        *,
        key: str | None = None,
    ) -> str:
        """Launch an app and return its id: resolve the options, build the workspace (if given), dry-run, schedule.

        Args:
            app: The app to run; it is never changed.
            cfg: The run options, as an instance of the backend's class or as a mapping; both are checked.
            workspace: Files to add to the app's images: a directory, or a URL for fsspec.
            key: Makes the submit idempotent: the same session and key give the same app.

        Raises:
            ConfigError: The app or an option is wrong, or the backend does not support workspaces; nothing was sent.
            WorkspaceError: The workspace cannot be read, built or pushed.
            ConflictError: Another app was submitted with this key.
            SchedulerError: The service refused or failed; nothing is left behind.
        """
        self._enter()
        await _turn()
        options = self._resolve(cfg)
        return await self.schedule(await self._dryrun(app, options, key=key, workspace=workspace, editable=False))

    async def submit_dryrun(
        self,
        app: AppDef,
        cfg: OptsT | Mapping[str, CfgVal] | None = None,
        workspace: str | None = None,
        *,
        key: str | None = None,
    ) -> AppDryRunInfo[RequestT]:
        """Return what `submit` would send, without changing anything; edit its `request`, then pass it to `schedule`.

        A workspace is read and hashed, but not built. `schedule` builds it, or raises WorkspaceError if the files have
        changed since.
        """
        self._enter()
        await _turn()
        return await self._dryrun(app, self._resolve(cfg), key=key, workspace=workspace)

    async def schedule(self, dryrun_info: AppDryRunInfo[RequestT]) -> str:
        """Launch the app of a dry-run and return its id; a second call does nothing.

        An ``AppDryRunInfo(request)`` that was made by hand works too; its request must contain the app's id. A
        workspace is built first, unless the app exists already.

        Raises:
            WorkspaceError: The workspace's files have changed since the dry-run, or it cannot be built or pushed.
            UsageError: The dry-run was made for another scheduler, or its request contains no id or another one.
            ConflictError: Another app has the id.
            SchedulerError: The service refused or failed; nothing is left behind.
        """
        from asyncsched.schedulers.told import told  # imported late: only submits need it

        self._enter()
        check_dryrun(dryrun_info)
        if not dryrun_info.scheduler:
            dryrun_info = self._completed(dryrun_info)
        if dryrun_info.scheduler != self.backend:
            raise UsageError(
                f"this dry-run was made for {dryrun_info.scheduler}, not for {self.backend}",
                fix=f"schedule it there, or dry-run the app with the {self.backend} scheduler",
            )
        check_same_app(self._named(dryrun_info.request), dryrun_info.app_id)
        self._notices.tell_ignored(dryrun_info.ignored)
        # A request that was made by hand has no options; it may contain a time limit.
        if self.is_billed and dryrun_info.cfg and not has_timeout(dryrun_info.cfg):
            self._notices.tell_cost()
        lock = self._scheduling.setdefault(dryrun_info.app_id, asyncio.Lock())
        async with lock:  # this frame keeps it in the weak dictionary, so that two calls for one id share it
            sent = copy.copy(dryrun_info)
            sent.app = await told(dryrun_info, self.made_from)
            if sent.plan is not None and await self._within("describe", self._describe(sent.app_id)) is None:
                await self._builder().build(sent.plan, sent.app_id)
            await self._schedule(sent)
        return self._scheduled_id(dryrun_info.app_id)

    def _completed(self, made: AppDryRunInfo[RequestT]) -> AppDryRunInfo[RequestT]:
        """Complete a dry-run that the caller made by hand."""
        from asyncsched.schedulers.validation import digest_of_request  # imported late: only such requests need it

        named, request = self._adopt(made.request)
        app_id = named or made.app_id
        if made.app_id not in ("", app_id):
            raise UsageError(
                f"the request has the app id {named}, but the dry-run has {made.app_id}",
                fix="leave out the dry-run's app_id: it comes from the request",
            )
        try:
            make_app_handle(self.backend, self.session_name, app_id)
        except MalformedHandleError as error:
            raise UsageError(
                f"the request's app id must not be empty or contain a slash, got {app_id!r}",
                fix="set the id in the request, or let a dry-run make the request",
            ) from error
        return AppDryRunInfo(
            request,
            app_id=app_id,
            app=made.app,
            scheduler=self.backend,
            session=self.session_name,
            digest=digest_of_request(request),
            ignored=made.ignored,
        )

    def _resolve(self, cfg: OptsT | Mapping[str, CfgVal] | None) -> OptsT:
        return runopts.build(self.options, cfg)

    def _builder(self) -> WorkspaceBuilder:
        if self._workspaces is None:
            make = type(self).workspace_builder
            if make is None:
                raise ConfigError(
                    f"{self.backend} does not support a workspace",
                    why="it cannot copy your files to the machines of its apps",
                    fix=f"leave out workspace and use an image with the files, or use {with_workspaces()}",
                )
            self._workspaces = make(self)
        return self._workspaces

    async def _dryrun(
        self, app: AppDef, options: OptsT, *, key: str | None, workspace: str | None = None, editable: bool = True
    ) -> AppDryRunInfo[RequestT]:
        from asyncsched.schedulers.encodable import check_encodable  # imported late: only submits need these
        from asyncsched.schedulers.ignored import find_unknown_macros
        from asyncsched.schedulers.shape import check_replicas
        from asyncsched.schedulers.told import remember
        from asyncsched.schedulers.validation import check_app, check_key, check_secret_refs, digest

        check_app(app)
        if self.most_replicas is not None:
            check_replicas(app, self.most_replicas, self.backend)
        check_encodable(app, takes_bytes=self.takes_bytes)
        if not self.takes_secret_refs:
            check_secret_refs(app, self.backend)
        check_key(key)
        check_workspace(workspace)
        asked = app = copied(app)
        cfg, plan = as_mapping(options), None
        if workspace is not None:
            plan = await self._builder().preview(asked, workspace, cfg)
            app, workspace = plan.app, plan.workspace
        app_id = self._app_id(app, options, key)
        drafted = copied(app)  # a backend may change it, and `renew` needs the original
        if plan is None:
            request = await self._request(drafted, options, app_id)
        else:
            request = await self._patched_request(drafted, options, app_id, plan)
        await _turn(begun=True)  # what it waited for may have ended for many at once
        info: AppDryRunInfo[RequestT] = AppDryRunInfo(
            request,
            app_id=app_id,
            app=app,
            cfg=cfg,
            digest=digest(app, cfg, plan.hashes if plan is not None else {}),
            scheduler=self.backend,
            session=self.session_name,
            plan=plan,
            ignored=[*self._ignored(app, options), *find_unknown_macros(app)],
            renew=lambda: self._dryrun(asked, options, key=None, workspace=workspace),
        )
        await _turn(begun=True)
        await remember(info, editable=editable)
        for role in app.roles:
            info = info.continued(role.pre_proc(self.backend, info))
        return info


async def _turn(*, begun: bool = False) -> None:
    """Wait for a turn to prepare a submit, so that many concurrent submits hold the loop for at most one budget.

    Cancelling it leaves nothing behind.
    """
    await budget_of(asyncio.get_running_loop()).breathe(begun=begun)
