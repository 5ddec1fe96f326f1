"""Jobs on a Slurm cluster."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Unpack

from asyncsched._typing import override
from asyncsched.errors import SchedulerError, UsageError
from asyncsched.logs.query import LogQuery
from asyncsched.logs.source import LogSource
from asyncsched.schedulers._common.pending import LateApp, PendingLimits
from asyncsched.schedulers._common.working_directory import working_directory
from asyncsched.schedulers.api import Scheduler
from asyncsched.schedulers.ignored import kept_by_submitter
from asyncsched.schedulers.lifetime import Tunables
from asyncsched.schedulers.request_checks import check_request
from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse
from asyncsched.schedulers.slurm import ending, names
from asyncsched.schedulers.slurm.changes import SlurmStateReader
from asyncsched.schedulers.slurm.client import Cluster
from asyncsched.schedulers.slurm.errors import BACKEND
from asyncsched.schedulers.slurm.logs import log_sources
from asyncsched.schedulers.slurm.lookup import AppLinks, SlurmLookup
from asyncsched.schedulers.slurm.options import SlurmOpts
from asyncsched.schedulers.slurm.request import SlurmJob, make_request, to_wire
from asyncsched.schedulers.slurm.submit import SlurmSubmission, SlurmWorkspaces, check, check_prolog
from asyncsched.schedulers.state_reports import Answers, StatePort
from asyncsched.specs.app import AppDef, RetryPolicy
from asyncsched.specs.dryrun import AppDryRunInfo, Ignored, WorkspacePlan
from asyncsched.specs.state import AppState, ReplicaStatus
from asyncsched.specs.to_plain import JsonValue

__all__ = ["SlurmScheduler", "create_scheduler"]

HOME = "ASYNCSCHED_SLURM_HOME"
"""The variable that names the directory in which apps are found, if `state_dir` does not."""

MOST_REPLICAS = 100_000
"""Most replicas of an app: each has files in the app's directory, and Slurm itself names no bound for a job's tasks."""
IGNORES = {
    "min_replicas": "all replicas start, or none does",
    "mounts": "a replica sees its node's files; bind mounts need the option `container`",
    "port_map": "nodes reach each other on every port",
    "resource.capabilities": "nodes are chosen by the options `constraint` and `partition`",
    "resource.devices": "the option `gres` requests devices",
}


class SlurmScheduler(Scheduler[SlurmOpts, SlurmJob]):
    """Runs an app as one job on a Slurm cluster, each replica as one of its tasks.

    It uses the cluster's own commands (``sbatch``, ``squeue``, ``sacct``, ``scancel``), and a directory for each app on
    a file system that the nodes share: there each replica records when it starts and ends, and its output.

    Args:
        session_name: The session to mark apps with.
        state_dir: The directory in which apps are found, on a file system shared by all machines that use it; by
            default ``ASYNCSCHED_SLURM_HOME``, or ``~/.asyncsched/slurm``. Each cluster needs its own.
        tunables: The parameters of every scheduler: `request_timeout`, `retry_for`, `cleanup_timeout`, `clock`.
    """

    options = SlurmOpts
    most_replicas = MOST_REPLICAS
    ignores = IGNORES
    retry_policies = frozenset({RetryPolicy.APPLICATION, RetryPolicy.REPLICA})
    pushes_states = True
    workspace_builder = SlurmWorkspaces
    has_images = False

    def __init__(
        self, session_name: str, *, state_dir: str | os.PathLike[str] | None = None, **tunables: Unpack[Tunables]
    ) -> None:
        super().__init__(BACKEND, session_name, **tunables)
        named = state_dir or os.environ.get(HOME) or "~/.asyncsched/slurm"
        self._home = AppLinks(Path(named).expanduser().absolute())
        self._cluster = Cluster(clock=self.clock, timeout=self.request_timeout)
        self._lookup = SlurmLookup(self._home, self._cluster)
        self._pending = PendingLimits(self.backend, self.watch, self._give_up, clock=self.clock)

    @property
    def commands_started(self) -> int:
        """How many of the cluster's commands this scheduler has started."""
        return self._cluster.started

    # Submitting

    @override
    async def _request(self, app: AppDef, options: SlurmOpts, app_id: str, *, in_workspace: bool = False) -> SlurmJob:
        cwd, jobs = working_directory(), self._home.jobs_in(options.job_dir)
        job = make_request(app, app_id, options, job_dir=jobs, cwd=cwd, in_workspace=in_workspace)
        if options.prolog:
            await check_prolog(self._cluster, options.prolog)
        if options.check:
            await check(self._cluster, to_wire(job, app, session=self.session_name, digest="", created_ns=0))
        return job

    @override
    async def _patched_request(self, app: AppDef, options: SlurmOpts, app_id: str, plan: WorkspacePlan) -> SlurmJob:
        return await self._request(app, options, app_id, in_workspace=True)

    @override
    def _ignored(self, app: AppDef, options: SlurmOpts) -> Iterable[Ignored]:
        yield from super()._ignored(app, options)
        if options.pending_timeout is not None:
            yield from kept_by_submitter(app, "pending_timeout")
        replicas = sum(role.num_replicas for role in app.roles)
        if options.nodes is not None and options.nodes > replicas:
            why = f"{replicas} replicas run on at most {replicas} nodes, not {options.nodes}"
            yield from (Ignored(role.name, "nodes", why) for role in app.roles)

    @override
    def _adopt(self, request: SlurmJob) -> tuple[str, SlurmJob]:
        check_request(request, SlurmJob, self.backend)
        if not names.is_app_id(request.app_id):
            raise UsageError(
                f"the app id {request.app_id!r} of the request cannot be used",
                why="it names a directory and a job: at most 128 letters, digits, dots, hyphens and underscores",
                fix="change it, or let a dry-run make one",
            )
        return request.app_id, request

    @override
    async def _schedule(self, info: AppDryRunInfo[SlurmJob]) -> None:
        job = info.request
        created = self.clock.time_ns()
        wire = await asyncio.to_thread(
            lambda: to_wire(job, info.app, session=info.session, digest=info.digest, created_ns=created)
        )
        launch = SlurmSubmission(self._home, self._cluster, wire, info.plan, clock=self.clock, patience=self.retry_for)
        try:
            async with self._or_removed(info.app_id, launch.remove):
                await launch.run()
        finally:
            launch.close()
        self._pending.keep(info.app_id, job.pending_timeout)

    # Looking

    @override
    async def _describe(self, app_id: str) -> DescribeAppResponse | None:
        return await self._lookup.describe(app_id)

    @override
    async def _sweep(self, app_ids: Sequence[str]) -> AsyncGenerator[Answers]:
        if app_ids:  # one command covers all, however many they are
            yield await self._lookup.describe_many(app_ids)

    @override
    async def _push_states(self, port: StatePort) -> None:
        await SlurmStateReader(port, self._home, self._cluster.looks, self.clock).run()

    @override
    def _list(self) -> AsyncGenerator[ListAppResponse]:
        return self._lookup.rows()

    @override
    async def _results(self, app_id: str) -> Mapping[tuple[str, int], JsonValue] | None:
        return await self._lookup.results(app_id)

    # Ending

    @override
    async def _cancel(self, app_id: str) -> None:
        await ending.cancel(self._home, self._lookup, self._cluster, app_id)

    @override
    async def _cancel_many(self, app_ids: Collection[str]) -> Mapping[str, SchedulerError | None]:
        return await ending.cancel_many(self._home, self._lookup, self._cluster, app_ids)

    async def _give_up(self, late: Sequence[LateApp]) -> None:
        await ending.give_up(self._home, self._cluster, late)

    @override
    async def _delete(self, app_id: str) -> None:
        await ending.delete(self._home, self._lookup, app_id)

    @override
    async def _prune(self, older_than: timedelta, states: Collection[AppState]) -> list[str]:
        ended_by = self.clock.time_ns() / 1e9 - older_than.total_seconds()
        return await ending.prune(self._home, self._lookup, ended_by, states)

    @override
    async def _close(self) -> None:
        await self._pending.aclose(self.cleanup_timeout)
        await self._cluster.close(self.cleanup_timeout)

    # Logs

    @override
    async def _log_sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[LogSource]:
        stored = await self._lookup.stored(app.app_id, "log_iter")
        return [] if stored is None else log_sources(stored, replicas, query, self.clock)


def create_scheduler(
    session_name: str, *, state_dir: str | os.PathLike[str] | None = None, **tunables: Unpack[Tunables]
) -> SlurmScheduler:
    """Create the scheduler ``slurm``."""
    return SlurmScheduler(session_name, state_dir=state_dir, **tunables)
