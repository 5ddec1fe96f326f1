"""Run apps as jobs of AWS Batch, with aiobotocore."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import ClassVar, Unpack

from asyncsched import __version__
from asyncsched._typing import override
from asyncsched.errors import SchedulerError
from asyncsched.logs.query import LogQuery
from asyncsched.logs.source import LogSource
from asyncsched.schedulers._common.fresh import FreshIds
from asyncsched.schedulers._common.pending import LateApp, PendingLimits
from asyncsched.schedulers._common.rate_limit import RateLimits
from asyncsched.schedulers.api import Scheduler
from asyncsched.schedulers.aws_batch.changes import AWSSweeper
from asyncsched.schedulers.aws_batch.client import AWSConnection, Connections, Location
from asyncsched.schedulers.aws_batch.client_given import accept
from asyncsched.schedulers.aws_batch.ending import AWSEndings, cancel_all, cancel_one, give_up_all
from asyncsched.schedulers.aws_batch.ending_delete import delete_app
from asyncsched.schedulers.aws_batch.errors import BACKEND
from asyncsched.schedulers.aws_batch.logs import AWSLogSources
from asyncsched.schedulers.aws_batch.lookup import AWSJobs
from asyncsched.schedulers.aws_batch.lookup_list import list_apps
from asyncsched.schedulers.aws_batch.lookup_names import KnownJob
from asyncsched.schedulers.aws_batch.names import job_stem, queue_name
from asyncsched.schedulers.aws_batch.options import AWSBatchOpts
from asyncsched.schedulers.aws_batch.request import (
    BatchJob,
    adopt,
    app_id_of,
    is_multinode,
    make_request,
    rounded_timeout,
    unread_instance_types,
)
from asyncsched.schedulers.aws_batch.request_container import INSTANCE_TYPE
from asyncsched.schedulers.aws_batch.request_limits import check_shape
from asyncsched.schedulers.aws_batch.status import job_state
from asyncsched.schedulers.aws_batch.status_rows import Row
from asyncsched.schedulers.aws_batch.submit import AWSSubmission
from asyncsched.schedulers.aws_batch.submit_definitions import Definitions
from asyncsched.schedulers.aws_batch.submit_images import CREATE, ECR, ecr_login, image_platform, make_repository
from asyncsched.schedulers.ignored import kept_by_submitter
from asyncsched.schedulers.lifetime import Tunables
from asyncsched.schedulers.registry import check_extra
from asyncsched.schedulers.request_checks import as_mapping, check_request
from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse
from asyncsched.schedulers.state_reports import Answers
from asyncsched.specs.app import AppDef, RetryPolicy
from asyncsched.specs.dryrun import AppDryRunInfo, Ignored
from asyncsched.specs.names import derive_id, make_unique
from asyncsched.specs.run_options import CfgVal
from asyncsched.specs.state import ReplicaStatus
from asyncsched.specs.stream import Stream
from asyncsched.workspace.docker import DockerWorkspaceMixin
from asyncsched.workspace.given_docker import accept_docker
from asyncsched.workspace.image_names import push_ids

__all__ = ["AWSBatchScheduler", "create_scheduler"]

IGNORES = {
    "min_replicas": "AWS Batch starts all nodes of a job or none",
    "port_map": "the nodes of a job can reach each other on every port that their security group allows",
}

MADE_FROM: Mapping[str, Collection[str]] = {
    "image": ("image",),
    "command": ("entrypoint", "args", "env"),
    "environment": ("env",),
    "secrets": ("env",),
    "volumes": ("mounts",),
    "mountPoints": ("mounts",),
    "linuxParameters": ("mounts", "resource"),
    "resourceRequirements": ("resource",),
    "instanceType": ("resource",),
    "retryStrategy": ("max_retries",),
}
"""The role fields from which each field of a request is made; a command may export variables."""


class AWSBatchScheduler(DockerWorkspaceMixin[AWSBatchOpts, BatchJob], Scheduler[AWSBatchOpts, BatchJob]):
    """Runs apps as jobs of AWS Batch: a single replica as a container job, several as a multi-node job.

    Args:
        session_name: The session to tag jobs with.
        client: A client of aiobotocore or boto3 for ``batch``. Its credentials, region, endpoint, proxies and TLS
            settings are used by a separate client with retries and pacing; `client` is never closed. For tests, a mock,
            or a client while a Stubber answers for it, is called directly.
        log_client: The same for ``logs``; default: the settings of `client` except its endpoint.
        docker_client: An ``aiodocker.Docker`` or a ``docker.DockerClient``; its daemon builds and pushes images, over a
            separate connection. Default: the daemon of the environment.
        region: The region; default: from AWS_REGION or the profile.
        profile: The profile of the AWS configuration.
        endpoint_url: Another address of the services.
        limits: Pacers to share with other schedulers of this account and region.
        log_interval: Seconds between two log queries while lines arrive; up to five while none do.
        log_settle_polls: Queries without a new line, after an app's end, that end its log. Five take about six seconds,
            because lines may take five to arrive.
        tunables: The parameters of every scheduler: `request_timeout`, `retry_for`, `cleanup_timeout`, `clock`.

    Raises:
        ConfigError: `client`, `log_client` or `docker_client` is not a client for its service.
        MissingExtraError: aiobotocore is not installed; the message shows the ``pip install`` command.
    """

    options = AWSBatchOpts
    ecr_hosts: ClassVar[re.Pattern[str]] = ECR
    ignores = IGNORES
    capabilities = frozenset({INSTANCE_TYPE})
    made_from = MADE_FROM
    retry_policies = frozenset({RetryPolicy.APPLICATION})
    takes_secret_refs = True
    is_billed = True
    log_streams: ClassVar[frozenset[Stream]] = frozenset({Stream.COMBINED})

    def __init__(
        self,
        session_name: str,
        client: object | None = None,
        log_client: object | None = None,
        docker_client: object | None = None,
        *,
        region: str | None = None,
        profile: str | None = None,
        endpoint_url: str | None = None,
        limits: RateLimits | None = None,
        log_interval: float = 0.4,
        log_settle_polls: int = 5,
        **tunables: Unpack[Tunables],
    ) -> None:
        check_extra(BACKEND)
        super().__init__(BACKEND, session_name, **tunables)
        if docker_client is not None:
            self._given_docker = accept_docker(docker_client, "docker_client")
        self._fresh = FreshIds()
        self._connections = Connections(
            Location(region=region, profile=profile, endpoint_url=endpoint_url),
            accept(batch=client, logs=log_client),
            clock=self.clock,
            limits=limits or RateLimits(),
            request_timeout=self.request_timeout,
            retry_for=self.retry_for,
        )
        self._logs = AWSLogSources(
            self.clock, retry_for=self.retry_for, interval=log_interval, settle_polls=log_settle_polls
        )
        self._jobs = AWSJobs(self._connections, self._seen)
        self._sweeper = AWSSweeper(self._jobs)
        self._definitions = Definitions()
        self._endings = AWSEndings()
        self._pending = PendingLimits(self.backend, self.watch, self._give_up, clock=self.clock)

    # Submitting

    @override
    def _app_id(self, app: AppDef, options: AWSBatchOpts, key: str | None) -> str:
        if key is None:
            name = make_unique(job_stem(app.name, options.share_id))
        else:
            name = derive_id(job_stem(key, None), self.session_name, key)
        app_id = f"{queue_name(options.queue)}:{name}"
        if key is None:
            self._fresh.add(app_id)
        return app_id

    @override
    async def _request(self, app: AppDef, options: AWSBatchOpts, app_id: str) -> BatchJob:
        await self._check_images(app, as_mapping(options), "image_platform")
        pushed = push_ids(app, options.image_repo, self.backend)
        job = make_request(app, options, app_id=app_id, session=self.session_name, version=__version__)
        job.images_to_push.update(pushed)
        return job

    @override
    def _named(self, request: BatchJob) -> str:
        check_request(request, BatchJob, self.backend)
        return app_id_of(request)

    @override
    def _adopt(self, request: BatchJob) -> tuple[str, BatchJob]:
        return self._named(request), adopt(request, session=self.session_name, version=__version__)

    @override
    def _ignored(self, app: AppDef, options: AWSBatchOpts) -> Iterable[Ignored]:
        yield from super()._ignored(app, options)
        if not is_multinode(app, options):
            yield from unread_instance_types(app)
        yield from rounded_timeout(app, options)
        if options.pending_timeout is not None:
            yield from kept_by_submitter(app, "pending_timeout")

    @override
    async def _schedule(self, info: AppDryRunInfo[BatchJob]) -> None:
        check_shape(info.request.name, info.request.job_def)
        known = self._jobs.names.known(info.app_id)
        if known is None or known.digest != info.digest:
            known = await self._submitted(info)
            self._pending.keep(info.app_id, info.request.pending_timeout)
        self._jobs.names.remember(info.app_id, known)

    async def _submitted(self, info: AppDryRunInfo[BatchJob]) -> KnownJob:
        job = info.request
        connection = self._connections.at(job.location)
        submission = AWSSubmission(connection, info, self.clock)
        job_id = None if self._fresh.take(info.app_id) else await submission.existing()
        if job_id is None:
            await submission.name_dependencies(self._jobs.names)
            if job.images_to_push:
                await self._push_images(job.images_to_push, {**info.cfg, **job.location, CREATE: job.create_repository})
            async with self._or_removed(info.app_id, submission.undo):
                job_id = await submission.send(self._definitions, retry_for=self.retry_for)
        where, children = dict(job.location), job.children(job_id)
        return KnownJob(job_id, queue_name(job.queue), where, children, info.digest, by_name=True)

    @override
    async def _image_login(self, image: str, cfg: Mapping[str, CfgVal]) -> str:
        login = await ecr_login(image, self._connections, cfg, self.ecr_hosts)
        return await super()._image_login(image, cfg) if login is None else login

    @override
    async def _make_repository(self, repository: str, cfg: Mapping[str, CfgVal]) -> bool:
        return bool(cfg.get(CREATE)) and await make_repository(repository, self._connections, cfg, self.ecr_hosts)

    @override
    def _image_platform(self, cfg: Mapping[str, CfgVal]) -> str | None:
        return image_platform(cfg)

    # Looking

    @override
    async def _describe(self, app_id: str) -> DescribeAppResponse | None:
        return await self._jobs.describe(app_id)

    @override
    async def _sweep(self, app_ids: Sequence[str]) -> AsyncGenerator[Answers]:
        async for answers in self._sweeper.sweep(app_ids):
            yield answers

    @override
    async def _list(self) -> AsyncGenerator[ListAppResponse]:
        async for row in list_apps(self._connections.at()):
            yield row

    # Ending

    @override
    async def _cancel(self, app_id: str) -> None:
        await cancel_one(app_id, self._jobs.names, self._endings)

    @override
    async def _cancel_many(self, app_ids: Collection[str]) -> Mapping[str, SchedulerError | None]:
        return await cancel_all(app_ids, self._jobs.names, self._endings)

    @override
    async def _delete(self, app_id: str) -> None:
        await delete_app(app_id, self._jobs, self._definitions)

    async def _give_up(self, late: Iterable[LateApp]) -> None:
        await give_up_all(late, self._jobs.names, self._endings)

    # Reading logs

    @override
    async def _log_sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[LogSource]:
        return await self._logs.sources(self._jobs, app, replicas, query)

    @override
    async def _close(self) -> None:
        await self._pending.aclose(self.cleanup_timeout)
        async with AsyncExitStack() as closing:  # A failure does not keep the others open.
            for closed in (self._connections, self._definitions, self._endings):
                closing.push_async_callback(closed.aclose)

    def _seen(self, app_id: str, connection: AWSConnection, row: Row, nodes: Mapping[str, Row]) -> None:
        self._sweeper.note(row)
        self._logs.note(app_id, row, nodes)
        if job_state(row).is_terminal():
            self._definitions.tidy(connection, row)


def create_scheduler(
    session_name: str,
    client: object | None = None,
    log_client: object | None = None,
    docker_client: object | None = None,
    *,
    region: str | None = None,
    profile: str | None = None,
    endpoint_url: str | None = None,
    limits: RateLimits | None = None,
    log_interval: float = 0.4,
    log_settle_polls: int = 5,
    **tunables: Unpack[Tunables],
) -> AWSBatchScheduler:
    """Create a scheduler for AWS Batch; nothing is called or read before its first use.

    The parameters are those of `AWSBatchScheduler`.
    """
    return AWSBatchScheduler(
        session_name,
        client,
        log_client,
        docker_client,
        region=region,
        profile=profile,
        endpoint_url=endpoint_url,
        limits=limits,
        log_interval=log_interval,
        log_settle_polls=log_settle_polls,
        **tunables,
    )
