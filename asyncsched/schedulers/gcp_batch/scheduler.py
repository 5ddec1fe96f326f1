"""Run apps as jobs of Google Cloud Batch, with gcloud-aio-auth."""

from __future__ import annotations

import dataclasses
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import ClassVar, Unpack, cast

from asyncsched import __version__
from asyncsched._typing import override
from asyncsched.logs.query import LogQuery
from asyncsched.logs.source import LogSource
from asyncsched.schedulers._common.fresh import FreshIds
from asyncsched.schedulers._common.pending import LateApp, PendingLimits
from asyncsched.schedulers._common.rate_limit import RateLimits
from asyncsched.schedulers.api import Scheduler
from asyncsched.schedulers.gcp_batch.changes import GCPSweeper
from asyncsched.schedulers.gcp_batch.client import GoogleClient
from asyncsched.schedulers.gcp_batch.client_credentials import GCPCredentials
from asyncsched.schedulers.gcp_batch.client_given import accept
from asyncsched.schedulers.gcp_batch.client_project import find_project
from asyncsched.schedulers.gcp_batch.ending import cancel_app, delete_app, give_up
from asyncsched.schedulers.gcp_batch.errors import BACKEND
from asyncsched.schedulers.gcp_batch.logs import GCPLogSources
from asyncsched.schedulers.gcp_batch.logs_hub import LogTimes
from asyncsched.schedulers.gcp_batch.lookup import GCPJobs
from asyncsched.schedulers.gcp_batch.lookup_list import JobList
from asyncsched.schedulers.gcp_batch.names import job_name
from asyncsched.schedulers.gcp_batch.options import GCPBatchOpts
from asyncsched.schedulers.gcp_batch.request import GCPBatchJob, adopt, check_unrenamed, late_replicas, make_request
from asyncsched.schedulers.gcp_batch.request_limits import check_shape, shared_retries
from asyncsched.schedulers.gcp_batch.submit import GOOGLE_REGISTRIES, GCPSubmission, google_login
from asyncsched.schedulers.ignored import kept_by_submitter
from asyncsched.schedulers.lifetime import Tunables
from asyncsched.schedulers.registry import check_extra
from asyncsched.schedulers.request_checks import as_mapping, check_request, other_app
from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse
from asyncsched.schedulers.state_reports import Answers
from asyncsched.specs.app import AppDef, RetryPolicy
from asyncsched.specs.dryrun import AppDryRunInfo, Ignored
from asyncsched.specs.run_options import CfgVal
from asyncsched.specs.state import ReplicaStatus
from asyncsched.specs.stream import Stream
from asyncsched.workspace.docker import DockerWorkspaceMixin
from asyncsched.workspace.image_names import push_ids

__all__ = ["GCPBatchScheduler", "create_scheduler"]

IGNORES = {
    "min_replicas": "Google Cloud Batch runs all requested tasks as soon as there is capacity",
    "port_map": "the VMs of a job can reach each other on every port that their network allows",
    "resource.capabilities": "choose the machine with the run option machine_type",
    "resource.devices": "choose a machine with these devices with the run option machine_type",
}

MAX_SUBMITTED = 10_000
"""Submitted apps whose digests are remembered."""


class GCPBatchScheduler(DockerWorkspaceMixin[GCPBatchOpts, GCPBatchJob], Scheduler[GCPBatchOpts, GCPBatchJob]):
    """Runs an app with one role as a job of Google Cloud Batch, with one task per replica.

    Args:
        session_name: The session to label jobs with.
        client: The source of credentials: a ``Token`` of gcloud-aio-auth, a ``BatchServiceClient`` of
            google-cloud-batch (its address is used too), or credentials of google-auth. Calls go through a separate
            client with retries and pacing; `client` is never closed.
        project: The project; default: from the environment or the credentials.
        credentials_file: The credentials file; default: from the environment.
        impersonate: The e-mail of a service account to impersonate.
        quota_project: The project to bill quota to; default: from the credentials.
        endpoint_url: Another address of Batch.
        logging_url: Another address of Cloud Logging.
        limits: Pacers to share with other schedulers of this project; they include its quota of log reads.
        reads_per_minute: The read quota of Cloud Logging; a quota that Google reports takes precedence.
        log_interval: Seconds between two log queries while lines arrive.
        log_idle: Most seconds between two log queries while no lines arrive.
        log_hold: Seconds to hold a line back, because earlier lines may arrive later.
        log_overlap: Seconds that a line may arrive later than others to be found by the next query.
        log_settle: Seconds to wait for lines after an app's end.
        log_sweep: Seconds before its end from which a log is read once more.
        replica_detail: Up to this many replicas, each is described in full; for larger apps only failed ones.
        tunables: The parameters of every scheduler: `request_timeout`, `retry_for`, `cleanup_timeout`, `clock`.

    Raises:
        ConfigError: `client` has none of these types, or `quota_project` is not a valid project name.
        MissingExtraError: gcloud-aio-auth is not installed; the message shows the ``pip install`` command.
    """

    options = GCPBatchOpts
    google_registries: ClassVar[re.Pattern[str]] = GOOGLE_REGISTRIES
    ignores = IGNORES
    retry_policies = frozenset({RetryPolicy.REPLICA})
    takes_secret_refs = True
    is_billed = True
    log_streams: ClassVar[frozenset[Stream]] = frozenset({Stream.COMBINED})

    def __init__(
        self,
        session_name: str,
        client: object | None = None,
        *,
        project: str | None = None,
        credentials_file: str | None = None,
        impersonate: str | None = None,
        quota_project: str | None = None,
        endpoint_url: str | None = None,
        logging_url: str | None = None,
        limits: RateLimits | None = None,
        reads_per_minute: int = 60,
        log_interval: float = LogTimes().interval,
        log_idle: float = LogTimes().idle,
        log_hold: float = LogTimes().hold,
        log_overlap: float = LogTimes().overlap,
        log_settle: float = LogTimes().settle,
        log_sweep: float = LogTimes().sweep,
        replica_detail: int = 500,
        **tunables: Unpack[Tunables],
    ) -> None:
        check_extra(BACKEND)
        super().__init__(BACKEND, session_name, **tunables)
        given = accept(client)
        self._project = project
        self._credentials = GCPCredentials(
            clock=self.clock,
            path=credentials_file,
            impersonate=impersonate,
            given=given.token if given is not None else None,
            names=given.names if given is not None else None,
        )
        limits = limits or RateLimits()
        self._client = GoogleClient(
            self._credentials,
            clock=self.clock,
            limits=limits,
            batch=endpoint_url or (given.endpoint if given is not None else None),
            logging=logging_url,
            quota_project=quota_project,
            request_timeout=self.request_timeout,
            retry_for=self.retry_for,
        )
        times = LogTimes(log_interval, log_idle, log_hold, log_overlap, log_settle, log_sweep)
        self._jobs = GCPJobs(self._client, detail=replica_detail)
        self._logs = GCPLogSources(
            self._client,
            self._jobs,
            clock=self.clock,
            limits=limits,
            times=times,
            reads=reads_per_minute,
            retry_for=self.retry_for,
        )
        self._list_of_jobs = JobList(self._client, clock=self.clock, retry_for=self.retry_for)
        self._sweeper = GCPSweeper(self._client, self._jobs)
        self._pending = PendingLimits(self.backend, self.watch, self._give_up, clock=self.clock)
        self._fresh = FreshIds()
        self._submitted: OrderedDict[str, str] = OrderedDict()

    # Submitting

    @override
    async def _dryrun(
        self,
        app: AppDef,
        options: GCPBatchOpts,
        *,
        key: str | None,
        workspace: str | None = None,
        editable: bool = True,
    ) -> AppDryRunInfo[GCPBatchJob]:
        if options.project is None:  # it is part of the app id
            options = dataclasses.replace(options, project=await self._found_project())
        return await super()._dryrun(app, options, key=key, workspace=workspace, editable=editable)

    async def _found_project(self) -> str:
        if self._project is None:
            self._project = await find_project(self._credentials)
        return self._project

    @override
    def _app_id(self, app: AppDef, options: GCPBatchOpts, key: str | None) -> str:
        name = job_name(app.name) if key is None else job_name(key, self.session_name, key)
        app_id = f"{options.project}:{options.location}:{name}"
        if key is None:
            self._fresh.add(app_id)
        return app_id

    @override
    async def _request(self, app: AppDef, options: GCPBatchOpts, app_id: str) -> GCPBatchJob:
        await self._check_images(app, as_mapping(options), "image_platform")
        pushed = push_ids(app, options.image_repo, self.backend)
        job = make_request(app, options, app_id=app_id, session=self.session_name, version=__version__)
        job.images_to_push.update(pushed)
        return job

    @override
    def _adopt(self, request: GCPBatchJob) -> tuple[str, GCPBatchJob]:
        check_request(request, GCPBatchJob, self.backend)
        return adopt(request, session=self.session_name, version=__version__)

    @override
    def _ignored(self, app: AppDef, options: GCPBatchOpts) -> Iterable[Ignored]:
        yield from super()._ignored(app, options)
        yield from shared_retries(app, options)
        yield from late_replicas(app, options)
        if options.pending_timeout is not None:
            yield from kept_by_submitter(app, "pending_timeout")

    @override
    async def _schedule(self, info: AppDryRunInfo[GCPBatchJob]) -> None:
        job = info.request
        check_unrenamed(job, info.app_id)
        check_shape(job.name, job.job_def)
        if (known := self._submitted.get(info.app_id)) is not None:
            if known != info.digest:
                raise other_app(info.app_id, BACKEND)
            return
        submission = GCPSubmission(self._client, self._jobs, info, session=self.session_name, clock=self.clock)
        if self._fresh.take(info.app_id) or not await submission.exists():
            await self._push_images(job.images_to_push, info.cfg)
            async with self._or_removed(info.app_id, submission.undo):
                await submission.send()
            self._pending.keep(info.app_id, job.pending_timeout)
        self._submitted[info.app_id] = info.digest
        if len(self._submitted) > MAX_SUBMITTED:
            self._submitted.popitem(last=False)

    @override
    async def _image_login(self, image: str, cfg: Mapping[str, CfgVal]) -> str:
        login = await google_login(image, self._client, self.google_registries)
        return await super()._image_login(image, cfg) if login is None else login

    @override
    def _image_platform(self, cfg: Mapping[str, CfgVal]) -> str | None:
        return cast("str | None", cfg.get("image_platform"))

    # Looking

    @override
    async def _describe(self, app_id: str) -> DescribeAppResponse | None:
        return await self._jobs.describe(app_id)

    @override
    async def _sweep(self, app_ids: Sequence[str]) -> AsyncGenerator[Answers]:
        async with aclosing(self._sweeper.sweep(app_ids)) as sweep:
            async for answers in sweep:
                yield answers

    @override
    async def _list(self) -> AsyncGenerator[ListAppResponse]:
        async with aclosing(self._list_of_jobs.rows(await self._found_project())) as rows:
            async for row in rows:
                yield row

    # Ending

    @override
    async def _cancel(self, app_id: str) -> None:
        await cancel_app(app_id, self._client, self._jobs)

    @override
    async def _delete(self, app_id: str) -> None:
        await delete_app(app_id, self._client, self._jobs)
        self._submitted.pop(app_id, None)

    async def _give_up(self, late: Iterable[LateApp]) -> None:
        await give_up(late, self._client, self._jobs)

    # Reading logs

    @override
    async def _log_sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[LogSource]:
        return await self._logs.sources(app, replicas, query)

    @override
    async def _close(self) -> None:
        async with AsyncExitStack() as closing:  # A failure does not keep the other open.
            closing.push_async_callback(self._client.close)
            closing.push_async_callback(self._pending.aclose, self.cleanup_timeout)


def create_scheduler(
    session_name: str,
    client: object | None = None,
    *,
    project: str | None = None,
    credentials_file: str | None = None,
    impersonate: str | None = None,
    quota_project: str | None = None,
    endpoint_url: str | None = None,
    logging_url: str | None = None,
    limits: RateLimits | None = None,
    reads_per_minute: int = 60,
    log_interval: float = LogTimes().interval,
    log_idle: float = LogTimes().idle,
    log_hold: float = LogTimes().hold,
    log_overlap: float = LogTimes().overlap,
    log_settle: float = LogTimes().settle,
    log_sweep: float = LogTimes().sweep,
    replica_detail: int = 500,
    **tunables: Unpack[Tunables],
) -> GCPBatchScheduler:
    """Create a scheduler for Google Cloud Batch; nothing is called or read before its first use.

    The parameters are those of `GCPBatchScheduler`.
    """
    return GCPBatchScheduler(
        session_name,
        client,
        project=project,
        credentials_file=credentials_file,
        impersonate=impersonate,
        quota_project=quota_project,
        endpoint_url=endpoint_url,
        logging_url=logging_url,
        limits=limits,
        reads_per_minute=reads_per_minute,
        log_interval=log_interval,
        log_idle=log_idle,
        log_hold=log_hold,
        log_overlap=log_overlap,
        log_settle=log_settle,
        log_sweep=log_sweep,
        replica_detail=replica_detail,
        **tunables,
    )
