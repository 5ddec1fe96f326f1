"""The scheduler ``local_cwd``: processes on this machine."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Unpack, cast

from asyncsched._home import find_home
from asyncsched._typing import override
from asyncsched.errors import ConfigError, SchedulerError
from asyncsched.logs.query import LogQuery
from asyncsched.logs.source import LogSource
from asyncsched.schedulers._common.program import Programs
from asyncsched.schedulers._common.working_directory import working_directory
from asyncsched.schedulers.api import Scheduler
from asyncsched.schedulers.lifetime import Tunables
from asyncsched.schedulers.local.changes import LocalStateReader
from asyncsched.schedulers.local.client import Supervisors
from asyncsched.schedulers.local.client_start import PendingSupervisor
from asyncsched.schedulers.local.ending import FirstPrune, ask_found_to_end, ask_to_end, delete, prune, read_results
from asyncsched.schedulers.local.images import (
    CWDImageProvider,
    ImageProvider,
    MakeProvider,
    WorkspaceProvider,
    count_devices,
    fetch_roles,
    make_provider,
    named_directory,
)
from asyncsched.schedulers.local.logs import log_sources
from asyncsched.schedulers.local.lookup import Apps, describe_all, described
from asyncsched.schedulers.local.lookup_list import list_rows
from asyncsched.schedulers.local.options import LocalOpts
from asyncsched.schedulers.local.request import (
    PopenRequest,
    check_options,
    log_tree,
    make_request,
    split_devices,
    to_wire,
)
from asyncsched.schedulers.local.state_dir import StateDir
from asyncsched.schedulers.local.status_record import BACKEND, AppRecord
from asyncsched.schedulers.local.submit import LocalSubmission
from asyncsched.schedulers.local.submit_workspace import LocalWorkspaces, directory_of
from asyncsched.schedulers.request_checks import as_mapping, check_request
from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse
from asyncsched.schedulers.state_reports import Answers, StatePort
from asyncsched.specs.app import AppDef
from asyncsched.specs.dryrun import AppDryRunInfo, Ignored, WorkspacePlan
from asyncsched.specs.state import AppState, ReplicaStatus
from asyncsched.specs.to_plain import JsonValue

__all__ = ["LocalScheduler", "create_scheduler"]

_log = logging.getLogger("asyncsched.schedulers.local")

MANY_WORDS, LIKE_WORDS = 200, 5
"""Arguments and variables of replicas beyond which a request is made in a thread; a replica itself costs as some do."""
MOST_REPLICAS = 10_000
"""Most replicas of an app: many more than one machine runs at a time."""
TOO_FEW = "%s: CUDA_VISIBLE_DEVICES is not set: the roles ask for more than %d GPUs"
IGNORES = {
    "max_retries": "a process that failed is not restarted",
    "min_replicas": "all replicas start, or none does",
    "mounts": "a process sees the machine's own files",
    "port_map": "a process listens on the machine's own ports",
    "resource.cpu": "a process may use every processor of the machine",
    "resource.memMB": "a process may use all memory of the machine",
    "resource.gpu": "every process sees all GPUs, unless auto_set_cuda_visible_devices divides them",
    "resource.capabilities": "the host is this machine",
    "resource.devices": "a process sees the machine's own devices",
}

SETTLING = 5.0
"""Seconds to allow for ending an app, in addition to its grace period."""

MADE_FROM = {"args": ("entrypoint", "args"), "env": ("env",)}
"""Which fields of a role each part of a request is made from."""


class LocalScheduler(Scheduler[LocalOpts, PopenRequest]):
    """Runs each replica as a process on this machine.

    The replicas run under a supervisor process that ends when its last replica has ended. Apps end with the process
    that submitted them, even if it is killed, unless they are detached; `close` ends them too. Every process of the
    same user can find them through the state directory. Resources are not limited, except GPUs on request.

    Args:
        session_name: The session of submitted apps.
        image_provider_class: Makes the image provider, from the run options or without arguments.
        cache_size: How many ended apps to keep at least, however old.
        extra_paths: Directories to put before the submitter's ``PATH``.
        keep_for: How long to keep ended apps beyond `cache_size`; the first submit removes older ones.
        tunables: Parameters of every scheduler: `request_timeout`, `retry_for`, `cleanup_timeout`, `clock`.

    Raises:
        ValueError: `cache_size` is less than 1.
    """

    options = LocalOpts
    pushes_states = True
    runs_here = True
    ends_with_submitter = True
    can_kill = True
    takes_bytes = True
    most_replicas = MOST_REPLICAS
    ignores = IGNORES
    made_from = MADE_FROM
    retry_policies = frozenset()
    workspace_builder = LocalWorkspaces
    has_images = False

    def __init__(
        self,
        session_name: str,
        image_provider_class: MakeProvider = CWDImageProvider,
        cache_size: int = 100,
        extra_paths: Sequence[str] | None = None,
        *,
        keep_for: timedelta = timedelta(days=30),
        **tunables: Unpack[Tunables],
    ) -> None:
        super().__init__(BACKEND, session_name, **tunables)
        if cache_size <= 0:
            raise ValueError(f"cache_size must be at least 1, got {cache_size}")
        self._image_provider_class = image_provider_class
        self._extra_paths = tuple(extra_paths or ())
        self._home = StateDir(find_home(os.environ))
        self._programs = Programs(BACKEND, clock=self.clock)
        self._supervisors = Supervisors(self._home, self._programs, self.clock)
        self._apps = Apps(self._home, self._supervisors)
        self._pruning = FirstPrune(self._home, self._apps, keep_for, cache_size)

    # Submitting

    def use_started(self, pending: PendingSupervisor) -> None:
        """Use a supervisor that was started ahead; call this before any other operation."""
        self._supervisors.use_started(pending)

    @override
    async def _warm_up(self) -> None:
        await self._supervisors.own()

    @override
    async def _request(self, app: AppDef, options: LocalOpts, app_id: str) -> PopenRequest:
        return await self._made(app, options, app_id, make_provider(self._image_provider_class, as_mapping(options)))

    @override
    async def _patched_request(self, app: AppDef, options: LocalOpts, app_id: str, plan: WorkspacePlan) -> PopenRequest:
        if self._image_provider_class is not CWDImageProvider:
            raise ConfigError(
                "a workspace cannot be combined with an image provider",
                why="both set the directory of the app",
                fix="leave one of them out",
            )
        return await self._made(app, options, app_id, WorkspaceProvider(str(directory_of(self._home, app_id))))

    async def _made(self, app: AppDef, options: LocalOpts, app_id: str, provider: ImageProvider) -> PopenRequest:
        check_options(options)
        if self._home.fd < 0:
            await asyncio.to_thread(self._home.choose)
        tree = log_tree(named_directory(options.log_dir), self.session_name) / app_id if options.log_dir else None
        fetched = await fetch_roles(app, provider)
        make = partial(
            make_request,
            app,
            app_id,
            options,
            fetched,
            log_dir=tree or self._home.app_path(app_id),
            path=os.environ.get("PATH", os.defpath),
            extra_paths=self._extra_paths,
        )
        words = sum(role.num_replicas * (LIKE_WORDS + len(role.args) + len(role.env)) for role in app.roles)
        request = await asyncio.to_thread(make) if words > MANY_WORDS else make()
        if options.auto_set_cuda_visible_devices:
            devices = await count_devices(self._programs)
            if not split_devices(request, app.roles, devices):
                _log.warning(TOO_FEW, app_id, devices)
        return request

    @override
    def _ignored(self, app: AppDef, options: LocalOpts) -> Iterable[Ignored]:
        divided = options.auto_set_cuda_visible_devices
        return [each for each in super()._ignored(app, options) if not (divided and each.field == "resource.gpu")]

    @override
    def _named(self, request: PopenRequest) -> str:
        check_request(request, PopenRequest, self.backend)
        return request.app_id

    @override
    def _adopt(self, request: PopenRequest) -> tuple[str, PopenRequest]:
        app_id = self._named(request)
        # Logs in a directory that the user named stay there.
        elsewhere = bool(request.role_log_dirs) and not Path(request.log_dir).is_relative_to(self._home.path)
        return app_id, replace(request, own_tree=request.own_tree or elsewhere)

    @override
    async def _schedule(self, info: AppDryRunInfo[PopenRequest]) -> None:
        if info.plan is None:
            await self._launch(info)
            return
        async with cast("LocalWorkspaces", self._builder()).copied(info.app_id) as copy:
            await self._launch(info, copy)

    async def _launch(self, info: AppDryRunInfo[PopenRequest], workspace: str = "") -> None:
        request = info.request
        wire = await asyncio.to_thread(_wire, info, workspace)
        launch = LocalSubmission(self._home, self._apps, info, wire, or_removed=self._or_removed, clock=self.clock)
        if request.detach:
            async with self._supervisors.detached() as connection:
                await self._within("submit", launch.run(connection))
        else:
            # `close` waits for apps that end with this process.
            self.cleanup_timeout = max(self.cleanup_timeout, request.grace_period + SETTLING)
            own = await self._supervisors.own()
            self._apps.submitted(info.app_id)
            await self._within("submit", launch.run(own))
        self._pruning.start()

    # Looking

    @override
    async def _describe(self, app_id: str) -> DescribeAppResponse | None:
        found = await self._apps.find_one(app_id)
        return None if found is None else await described(found)

    @override
    async def _describe_many(self, app_ids: Sequence[str]) -> Answers:
        return await describe_all(await self._apps.find(app_ids))

    @override
    async def _push_states(self, port: StatePort) -> None:
        await LocalStateReader(port, self._apps, self._supervisors, self.clock).run()

    @override
    async def _list(self) -> AsyncGenerator[ListAppResponse]:
        for row in await list_rows(self._home, self._apps):
            yield row

    # Ending

    @override
    async def _cancel(self, app_id: str) -> None:
        await ask_to_end(self._apps, self._supervisors, "cancel", app_id)

    @override
    async def _cancel_many(self, app_ids: Collection[str]) -> Mapping[str, SchedulerError | None]:
        told: dict[str, SchedulerError | None] = {}
        wanted = [*app_ids]
        for start in range(0, len(wanted), self.describe_batch):
            told |= await self._cancel_batch(wanted[start : start + self.describe_batch])
        return told

    async def _cancel_batch(self, app_ids: Sequence[str]) -> Mapping[str, SchedulerError | None]:
        try:
            found = await self._within("cancel", self._apps.find(app_ids))
        except SchedulerError as error:
            return dict.fromkeys(app_ids, error)

        async def cancel(app_id: str) -> None:
            await ask_found_to_end(self._supervisors, "cancel", app_id, found[app_id])

        return await self._cancel_each(app_ids, cancel)

    @override
    async def _kill(self, app_id: str) -> None:
        await ask_to_end(self._apps, self._supervisors, "kill", app_id)

    @override
    async def _delete(self, app_id: str) -> None:
        await delete(self._home, self._apps, app_id)

    @override
    async def _results(self, app_id: str) -> Mapping[tuple[str, int], JsonValue] | None:
        found = await self._apps.find_one(app_id)
        return None if found is None else await asyncio.to_thread(read_results, self._home, found.record)

    @override
    async def _prune(self, older_than: timedelta, states: Collection[AppState]) -> list[str]:
        """Remove apps; their logs in a ``log_dir`` are the user's, and stay."""
        return await prune(self._home, self._apps, older_than, states=states)

    # Logs

    @override
    async def _log_sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[LogSource]:
        record = app.native
        if not isinstance(record, AppRecord):  # a watch reports it
            found = await self._apps.find_one(app.app_id)
            if found is None:
                return []
            record = found.record
        directory = str(self._home.app_path(app.app_id))
        wanted = {(replica.role, replica.id) for replica in replicas}
        return log_sources(record, directory, wanted, query, self.clock)

    @override
    async def _close(self) -> None:
        try:
            await self._pruning.close(self.cleanup_timeout)
            await self._supervisors.close(self.cleanup_timeout)
        finally:  # a hanging supervisor may use up the whole timeout
            self._home.close()


def _wire(info: AppDryRunInfo[PopenRequest], workspace: str) -> dict[str, Any]:
    try:
        cwd = working_directory()
    except ConfigError:  # it was removed, which does not matter to replicas with another working directory
        cwd = ""
    return to_wire(
        info.request,
        info.app,
        session=info.session,
        digest=info.digest,
        environ=dict(os.environ),
        cwd=cwd,
        workspace=workspace,
    )


def create_scheduler(
    session_name: str,
    cache_size: int = 100,
    extra_paths: Sequence[str] | None = None,
    image_provider_class: MakeProvider = CWDImageProvider,
    *,
    keep_for: timedelta = timedelta(days=30),
    **tunables: Unpack[Tunables],
) -> LocalScheduler:
    """Make the scheduler ``local_cwd``, in which everything runs in the submitter's working directory."""
    return LocalScheduler(session_name, image_provider_class, cache_size, extra_paths, keep_for=keep_for, **tunables)
