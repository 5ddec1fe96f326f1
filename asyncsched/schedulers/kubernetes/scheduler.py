"""Run apps on Kubernetes: as Volcano jobs, or as Indexed Jobs if Volcano is not installed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from typing import Unpack

from asyncsched import __version__
from asyncsched._typing import override
from asyncsched.errors import SchedulerError
from asyncsched.logs.query import LogQuery
from asyncsched.logs.source import LogSource
from asyncsched.schedulers.api import Scheduler
from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.changes import Reflectors
from asyncsched.schedulers.kubernetes.changes_states import States
from asyncsched.schedulers.kubernetes.client import KubeClient
from asyncsched.schedulers.kubernetes.client_config import ConfigSource
from asyncsched.schedulers.kubernetes.ending import KubernetesEndings
from asyncsched.schedulers.kubernetes.ending_pending import PodPendingLimits
from asyncsched.schedulers.kubernetes.errors import BACKEND
from asyncsched.schedulers.kubernetes.logs import PodLogs
from asyncsched.schedulers.kubernetes.lookup import KubernetesLookup
from asyncsched.schedulers.kubernetes.lookup_list import Namespaces, list_apps
from asyncsched.schedulers.kubernetes.lookup_server import Server
from asyncsched.schedulers.kubernetes.options import KubernetesOpts
from asyncsched.schedulers.kubernetes.request import KubernetesJob, make_request, to_wire
from asyncsched.schedulers.kubernetes.request_by_hand import adopt
from asyncsched.schedulers.kubernetes.request_ignored import ignored_by
from asyncsched.schedulers.kubernetes.request_job import PER_INDEX_SINCE
from asyncsched.schedulers.kubernetes.status import results_of
from asyncsched.schedulers.kubernetes.submit import KubernetesSubmission, unhurried, validate
from asyncsched.schedulers.lifetime import Tunables
from asyncsched.schedulers.registry import check_extra, refuse_parameters
from asyncsched.schedulers.request_checks import as_mapping, check_request
from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse
from asyncsched.schedulers.state_reports import Answers, StatePort
from asyncsched.specs.app import AppDef, RetryPolicy
from asyncsched.specs.dryrun import AppDryRunInfo, Ignored
from asyncsched.specs.keeping import ToldApp
from asyncsched.specs.resources_aws import INSTANCE_TYPE
from asyncsched.specs.run_options import CfgVal
from asyncsched.specs.state import AppState, ReplicaStatus
from asyncsched.specs.to_plain import JsonValue
from asyncsched.workspace.docker import DockerWorkspaceMixin
from asyncsched.workspace.given_docker import accept_docker
from asyncsched.workspace.image_names import push_ids

__all__ = ["KubernetesScheduler", "create_scheduler"]

MADE_FROM: Mapping[str, Collection[str]] = {
    "image": ("image",),
    "command": ("entrypoint", "args"),
    "args": ("entrypoint", "args"),
    "env": ("env",),
    "envFrom": ("env",),
    "volumes": ("mounts",),
    "volumeMounts": ("mounts",),
    "volumeDevices": ("mounts",),
    "resources": ("resource",),
    "nodeSelector": ("resource",),
    "affinity": ("resource",),
    "ports": ("port_map",),
    "maxRetry": ("max_retries",),
    "policies": ("max_retries",),
    "backoffLimit": ("max_retries",),
    "backoffLimitPerIndex": ("max_retries",),
}
"""The role fields from which each field of a request is made."""


class KubernetesScheduler(
    DockerWorkspaceMixin[KubernetesOpts, KubernetesJob], Scheduler[KubernetesOpts, KubernetesJob]
):
    """Runs each replica as a pod of a Volcano job, or of an Indexed Job if Volcano is not installed.

    The scheduler stores nothing: every process reads an app from the objects in the cluster. The kubeconfig is read,
    and kubernetes_asyncio imported, in a thread at the first await.

    Args:
        session_name: The session to label apps with.
        client: An ApiClient of kubernetes_asyncio or kubernetes; its configuration is used for separate connections,
            and it is never closed.
        docker_client: An ``aiodocker.Docker`` or a ``docker.DockerClient``; its daemon builds and pushes images, over a
            separate connection. Default: the daemon of the environment.
        kubeconfig: Files to read, separated by colons; else ``KUBECONFIG``, else ``~/.kube/config``, else a pod's
            service account.
        context: The context of the kubeconfig; else ``ASYNCSCHED_KUBERNETES_CONTEXT``, else the current one.
        namespaces: The namespaces to list: names, or ``*`` for all. Default: ``default``, the context's namespace, and
            those that this scheduler has submitted to.
        tunables: The parameters of every scheduler: `request_timeout`, `retry_for`, `cleanup_timeout`, `clock`.

    Raises:
        ConfigError: `docker_client` is not a Docker client.
        MissingExtraError: kubernetes_asyncio is not installed; the message shows the ``pip install`` command.
    """

    options = KubernetesOpts
    pushes_states = True
    takes_secret_refs = True
    keeps_cancelled_logs = False
    keeps_attempts = False
    capabilities = frozenset({INSTANCE_TYPE})
    made_from = MADE_FROM
    retry_policies = frozenset({RetryPolicy.APPLICATION, RetryPolicy.REPLICA, RetryPolicy.ROLE})

    def __init__(
        self,
        session_name: str,
        client: object | None = None,
        docker_client: object | None = None,
        *,
        kubeconfig: str | None = None,
        context: str | None = None,
        namespaces: Sequence[str] | str | None = None,
        **tunables: Unpack[Tunables],
    ) -> None:
        check_extra(BACKEND)
        super().__init__(BACKEND, session_name, **tunables)
        if docker_client is not None:
            self._given_docker = accept_docker(docker_client, "docker_client")
        self._client = KubeClient(
            ConfigSource(client, kubeconfig, context),
            clock=self.clock,
            request_timeout=self.request_timeout,
            retry_for=self.retry_for,
        )
        self._namespaces = Namespaces(namespaces)
        self._server = Server(self._client)
        self._lookup = KubernetesLookup(self._client, self._server, clock=self.clock)
        self._reflectors = Reflectors(self._client, clock=self.clock)
        self._logs = PodLogs(self._client, self._reflectors, clock=self.clock, retry_for=self.retry_for)
        self._changes = States(self._lookup, self._server, self._reflectors, clock=self.clock)
        self._endings = KubernetesEndings(
            self._client, self._lookup, self._reflectors, clock=self.clock, retry_for=self.retry_for
        )
        self._limits = PodPendingLimits(lambda app_id: self.watch([app_id]), self._endings.give_up, clock=self.clock)

    @property
    @override
    def place(self) -> str:
        return self._client.place

    # Submitting

    @override
    async def _warm_up(self) -> None:
        await self._client.discovery.version()

    @override
    def _resolve(self, cfg: KubernetesOpts | Mapping[str, CfgVal] | None) -> KubernetesOpts:
        refuse_parameters(self.backend, cfg if isinstance(cfg, Mapping) else ())
        return super()._resolve(cfg)

    @override
    def _app_id(self, app: AppDef, options: KubernetesOpts, key: str | None) -> str:
        name = names.unique_name(app.name) if key is None else names.derived_name(key, self.session_name)
        return names.app_id(options.namespace, name)

    @override
    async def _request(self, app: AppDef, options: KubernetesOpts, app_id: str) -> KubernetesJob:
        await self._check_images(app, as_mapping(options))
        pushed = push_ids(app, options.image_repo, self.backend)
        kind = await self._server.kind_for(options)
        await self._server.check_queue(options, kind)
        make = partial(make_request, app, app_id, options, kind=kind, session=self.session_name, version=__version__)
        replicas = sum(role.num_replicas for role in app.roles)
        job = await unhurried(make, replicas)  # refuses an invalid app before more requests are made
        server = await self._server.version_if_known() if kind == "job" else None
        if server is not None and server < PER_INDEX_SINCE:
            job = await unhurried(partial(make, server=server), replicas)
        job.images_to_push.update(pushed)
        if options.validate_spec:
            await validate(self._client, await unhurried(partial(to_wire, job, app_id, ""), job.size), kind)
        return job

    @override
    def _named(self, request: KubernetesJob) -> str:
        check_request(request, KubernetesJob, self.backend)
        return request.app_id

    @override
    def _adopt(self, request: KubernetesJob) -> tuple[str, KubernetesJob]:
        check_request(request, KubernetesJob, self.backend)
        return adopt(request, session=self.session_name, version=__version__)

    @override
    def _ignored(self, app: AppDef, options: KubernetesOpts) -> Iterable[Ignored]:
        return ignored_by(app, options, self._server.last_kind(options), self._server.last_version)

    @override
    async def _schedule(self, info: AppDryRunInfo[KubernetesJob]) -> None:
        job = info.request
        app = info.app
        described = None if isinstance(app, ToldApp) and app.is_whole else app
        make = partial(to_wire, job, info.app_id, info.digest, described, by_hand=app is None)
        wire = await unhurried(make, job.size)
        await self._server.check_kind(job.kind)
        if job.images_to_push and await self._describe(info.app_id) is None:
            await self._push_images(job.images_to_push, info.cfg)
        submission = KubernetesSubmission(
            self._client,
            wire,
            kind=job.kind,
            app_id=info.app_id,
            digest=info.digest,
            released_last=job.released_last,
            clock=self.clock,
            retry_for=self.retry_for,
        )
        async with self._or_removed(info.app_id, submission.undo):
            await submission.send([job.resource, job.others])
        self._lookup.remember(info.app_id, job.kind)
        self._namespaces.use(wire.namespace)
        if job.pending_timeout is not None:
            self._limits.keep(info.app_id, job.pending_timeout)

    # Looking

    @override
    async def _describe(self, app_id: str) -> DescribeAppResponse | None:
        return await self._lookup.describe(app_id)

    @override
    async def _sweep(self, app_ids: Sequence[str]) -> AsyncGenerator[Answers]:
        async for answers in self._changes.sweep(app_ids):
            yield answers

    @override
    async def _results(self, app_id: str) -> Mapping[tuple[str, int], JsonValue] | None:
        app = await self._lookup.describe(app_id)
        return None if app is None else results_of(app)

    @override
    async def _push_states(self, port: StatePort) -> None:
        await self._changes.push(port)

    @override
    def _list(self) -> AsyncGenerator[ListAppResponse]:
        return list_apps(self._client, self._server, self._namespaces)

    # Ending

    @override
    async def _cancel(self, app_id: str) -> None:
        await self._endings.cancel(app_id)

    @override
    async def _cancel_many(self, app_ids: Collection[str]) -> Mapping[str, SchedulerError | None]:
        return await self._endings.cancel_many(app_ids)

    @override
    async def _delete(self, app_id: str) -> None:
        await self._endings.delete(app_id)

    @override
    async def _prune(self, older_than: timedelta, states: Collection[AppState]) -> list[str]:
        removed = await super()._prune(older_than, states)
        return [*removed, *await self._endings.prune_unfinished(self._list(), older_than)]

    # Reading logs

    @override
    async def _log_sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[LogSource]:
        return await self._logs.sources(app, replicas, query)

    @override
    async def _close(self) -> None:
        async with AsyncExitStack() as closing:  # A failure does not keep the others open.
            for closed in (self._client, self._lookup, self._reflectors, self._limits):
                closing.push_async_callback(closed.close)


def create_scheduler(
    session_name: str,
    client: object | None = None,
    docker_client: object | None = None,
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    namespaces: Sequence[str] | str | None = None,
    **tunables: Unpack[Tunables],
) -> KubernetesScheduler:
    """Create a scheduler for Kubernetes; nothing is called or read before its first use.

    Args:
        session_name: The session to label apps with.
        client: An ApiClient of kubernetes_asyncio or kubernetes; its configuration is used for separate connections,
            and it is never closed.
        docker_client: An ``aiodocker.Docker`` or a ``docker.DockerClient``; its daemon builds and pushes images, over a
            separate connection. Default: the daemon of the environment.
        kubeconfig: Files to read, separated by colons; else ``KUBECONFIG``, else ``~/.kube/config``.
        context: The context of the kubeconfig; else ``ASYNCSCHED_KUBERNETES_CONTEXT``, else the current one.
        namespaces: The namespaces to list: names, or ``*`` for all.
        tunables: The parameters of every scheduler: `request_timeout`, `retry_for`, `cleanup_timeout`, `clock`.
    """
    return KubernetesScheduler(
        session_name, client, docker_client, kubeconfig=kubeconfig, context=context, namespaces=namespaces, **tunables
    )
