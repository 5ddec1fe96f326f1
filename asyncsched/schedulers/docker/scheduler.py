"""Containers on a Docker daemon."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Unpack

from asyncsched import __version__
from asyncsched._typing import override
from asyncsched.errors import SchedulerError
from asyncsched.logs.query import LogQuery
from asyncsched.logs.source import LogSource
from asyncsched.schedulers.api import Scheduler
from asyncsched.schedulers.docker.changes import EventReader
from asyncsched.schedulers.docker.ending import DockerEndings
from asyncsched.schedulers.docker.lookup import DockerLookup, keep
from asyncsched.schedulers.docker.options import DockerOpts
from asyncsched.schedulers.docker.request import BACKEND, DockerJob, make_request
from asyncsched.schedulers.docker.status import members_of
from asyncsched.schedulers.docker.status_containers import Container
from asyncsched.schedulers.docker.submit import prepare
from asyncsched.schedulers.ignored import kept_by_submitter
from asyncsched.schedulers.lifetime import Tunables
from asyncsched.schedulers.registry import check_extra
from asyncsched.schedulers.request_checks import as_mapping, check_request
from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse
from asyncsched.schedulers.state_reports import Answers, StatePort
from asyncsched.specs.app import AppDef, RetryPolicy
from asyncsched.specs.dryrun import AppDryRunInfo, Ignored
from asyncsched.specs.state import AppState, ReplicaStatus
from asyncsched.specs.to_plain import JsonValue
from asyncsched.workspace.docker import DockerWorkspaceMixin

if TYPE_CHECKING:
    from asyncsched._dockerd import Daemon
    from asyncsched.schedulers.docker.logs_attempts import ContainerRuns

__all__ = ["DockerScheduler", "create_scheduler"]

MOST_REPLICAS = 10_000
"""Most replicas of an app: many more containers than one daemon runs at a time."""
IGNORES = {
    "min_replicas": "all replicas start, or none does",
    "port_map": "containers of one network reach each other on every port, and none is published on the host",
    "resource.capabilities": "all replicas run on the daemon's host",
}

MADE_FROM: Mapping[str, Collection[str]] = {
    "image": ("image",),
    "command": ("entrypoint", "args"),
    "entrypoint": ("entrypoint", "args"),
    "environment": ("env",),
    "mounts": ("mounts",),
    "volumes": ("mounts",),
    "devices": ("mounts", "resource"),
    "device_requests": ("resource",),
    "mem_limit": ("resource",),
    "shm_size": ("resource",),
    "nano_cpus": ("resource",),
    "restart_policy": ("max_retries",),
    "host_config": ("mounts", "resource", "max_retries"),
}
"""The parts of a request, and the fields of a role that they are made from."""


class DockerScheduler(DockerWorkspaceMixin[DockerOpts, DockerJob], Scheduler[DockerOpts, DockerJob]):
    """Runs each replica as a container on the daemon that ``docker`` would talk to.

    It stores nothing itself: in any process, answers come from the containers' labels, names and states. The daemon is
    looked for (``DOCKER_HOST``, contexts, the usual sockets) at the first await.

    Args:
        session_name: The session to mark apps with.
        tunables: The parameters of every scheduler: `request_timeout`, `retry_for`, `cleanup_timeout`, `clock`.

    Raises:
        MissingExtraError: aiodocker is not installed; the message names the ``pip install`` command.
    """

    options = DockerOpts
    pushes_images = False
    pushes_states = True
    runs_here = True
    can_kill = True
    most_replicas = MOST_REPLICAS
    ignores = IGNORES
    made_from = MADE_FROM
    retry_policies = frozenset({RetryPolicy.REPLICA})

    def __init__(self, session_name: str, **tunables: Unpack[Tunables]) -> None:
        check_extra(BACKEND)
        super().__init__(BACKEND, session_name, **tunables)
        self._daemon: Daemon | None = None
        self._lookup = DockerLookup(self._docker)
        self._ends = DockerEndings(
            self._docker,
            self._lookup,
            lambda app_id: self.watch([app_id]),
            clock=self.clock,
            retry_for=self.retry_for,
        )
        self._attempts: dict[str, ContainerRuns] = {}
        self._pushing = False

    async def _docker(self) -> Daemon:
        if self._daemon is None:
            await asyncio.to_thread(_load)
            from asyncsched._dockerd import Daemon

            if self._daemon is None:  # no concurrent call was faster
                self._daemon = Daemon(
                    backend=self.backend,
                    request_timeout=self.request_timeout,
                    retry_for=self.retry_for,
                    clock=self.clock,
                )
        return self._daemon

    # Submitting

    @override
    async def _request(self, app: AppDef, options: DockerOpts, app_id: str) -> DockerJob:
        await self._check_images(app, as_mapping(options))
        return make_request(app, app_id, options, session=self.session_name, environ=os.environ, version=__version__)

    @override
    @asynccontextmanager
    async def _image_daemon(self) -> AsyncGenerator[Daemon]:
        yield await self._docker()

    @override
    def _ignored(self, app: AppDef, options: DockerOpts) -> Iterable[Ignored]:
        yield from super()._ignored(app, options)
        if options.timeout is not None:
            yield from kept_by_submitter(app, "timeout")

    @override
    def _named(self, request: DockerJob) -> str:
        check_request(request, DockerJob, self.backend)
        return request.app_id

    @override
    async def _schedule(self, info: AppDryRunInfo[DockerJob]) -> None:
        there = await self._lookup.members(info.app_id, "submit")
        launch = await prepare(await self._docker(), info, there)
        if launch is None:
            self._ends.keep_time(there)
            return
        await self._ends.remove_expired()
        async with self._or_removed(info.app_id, launch.remove):
            await launch.run()
        if info.request.timeout is not None:
            self._ends.keep_time_of(info.app_id)
        if info.request.on_failure == "stop":
            self._ends.stop_when_one_fails(info.app_id)

    # Looking

    @override
    async def _describe(self, app_id: str) -> DescribeAppResponse | None:
        return await self._lookup.describe(app_id)

    @override
    async def _describe_many(self, app_ids: Sequence[str]) -> Answers:
        return await self._lookup.describe_many(app_ids)

    @override
    async def _sweep(self, app_ids: Sequence[str]) -> AsyncGenerator[Answers]:
        # One list request covers all apps, however many they are.
        if app_ids:
            answers = await self._lookup.describe_many(app_ids)
            if self._pushing:
                for answer in answers.values():
                    self._ends.keep_time(members_of(answer))
            yield answers

    @override
    def _list(self) -> AsyncGenerator[ListAppResponse]:
        return self._lookup.rows()

    @override
    async def _results(self, app_id: str) -> Mapping[tuple[str, int], JsonValue] | None:
        return await self._lookup.results(app_id)

    @override
    async def _push_states(self, port: StatePort) -> None:
        self._pushing = True
        try:
            await EventReader(await self._docker(), port, self._lookup.keep_end, clock=self.clock).run()
        finally:
            self._pushing = False

    # Ending

    @override
    async def _cancel(self, app_id: str) -> None:
        await self._ends.cancel(app_id)

    @override
    async def _cancel_many(self, app_ids: Collection[str]) -> Mapping[str, SchedulerError | None]:
        if len(app_ids) == 1:
            return await super()._cancel_many(app_ids)
        try:
            listed = await self._within("cancel", self._lookup.listed_by_app("cancel"))
        except SchedulerError as error:
            return dict.fromkeys(app_ids, error)
        return await self._cancel_each(app_ids, lambda app_id: self._ends.cancel_listed(app_id, listed.get(app_id, ())))

    @override
    async def _kill(self, app_id: str) -> None:
        await self._ends.kill(app_id)

    @override
    async def _delete(self, app_id: str) -> None:
        await self._ends.delete(app_id)

    @override
    async def _prune(self, older_than: timedelta, states: Collection[AppState]) -> list[str]:
        return await self._ends.prune(older_than.total_seconds(), states)

    @override
    async def _close(self) -> None:
        await self._ends.close(self.cleanup_timeout)
        if self._daemon is not None:
            await self._daemon.close()

    # Logs

    @override
    async def _log_sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[LogSource]:
        daemon = await self._docker()
        from asyncsched.schedulers.docker.logs import ContainerLog  # imported by the line above, in a thread

        there = members_of(app) or await self._lookup.members(app.app_id, "log_iter")
        found = {(container.role, container.replica): container for container in there}
        members = [found[place] for replica in replicas if (place := (replica.role, replica.id)) in found]
        return [
            ContainerLog(daemon, each, query, self._attempts_of(each), clock=self.clock, retry_for=self.retry_for)
            for each in members
        ]

    def _attempts_of(self, container: Container) -> ContainerRuns:
        """Return what is known of a container's runs; later reads use what earlier ones have followed."""
        from asyncsched.schedulers.docker.logs_attempts import ContainerRuns

        known = self._attempts.get(container.id)
        if known is None:
            known = ContainerRuns(container.app_id, container.role, container.replica)
            if container.max_retries > 0:
                keep(self._attempts, container.id, known)
        return known


def _load() -> None:
    """Import the modules that talk to a daemon: their import takes longer than the loop may be held."""
    for name in ("asyncsched._dockerd", "asyncsched.schedulers.docker.logs"):
        import_module(name)


def create_scheduler(session_name: str, **tunables: Unpack[Tunables]) -> DockerScheduler:
    """Create the scheduler ``local_docker``."""
    return DockerScheduler(session_name, **tunables)
