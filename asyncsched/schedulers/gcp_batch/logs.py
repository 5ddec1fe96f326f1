"""Create log sources: one hub per project, one source per reader."""

from __future__ import annotations

from collections.abc import Sequence

from asyncsched.clock import Clock
from asyncsched.errors import InvalidRequestError
from asyncsched.logs.query import LogQuery
from asyncsched.logs.source import LogSource
from asyncsched.schedulers._common.rate_limit import RateLimits
from asyncsched.schedulers.gcp_batch.client import GoogleClient
from asyncsched.schedulers.gcp_batch.errors import BACKEND
from asyncsched.schedulers.gcp_batch.logs_budget import ReadBudget
from asyncsched.schedulers.gcp_batch.logs_hub import EntryHub, JobLog, LogTimes
from asyncsched.schedulers.gcp_batch.lookup import GCPJobs, ReadGCPJob
from asyncsched.schedulers.gcp_batch.status import job_state
from asyncsched.schedulers.gcp_batch.status_rows import Row, last_event, part, text, time_of
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.specs.state import ReplicaStatus

__all__ = ["GCPLogSources"]

_EARLY = 60 * 1_000_000_000
"""The tolerated difference between the clocks of Batch and Cloud Logging, in nanoseconds."""


class GCPLogSources:
    """Creates log sources.

    Args:
        client: The client of Google Cloud.
        jobs: Reads jobs.
        clock: The time source.
        limits: Pacers, possibly shared with other schedulers; they include the quota of reads.
        times: The times to wait.
        reads: Reads per minute; a quota that Google reports takes precedence.
        retry_for: Seconds of failures after which readers get an error.
    """

    def __init__(
        self,
        client: GoogleClient,
        jobs: GCPJobs,
        *,
        clock: Clock,
        limits: RateLimits,
        times: LogTimes,
        reads: int,
        retry_for: float,
    ) -> None:
        self._client, self._jobs, self._clock, self._limits = client, jobs, clock, limits
        self._times, self._reads, self._retry_for = times, reads, retry_for
        self._hubs: dict[str, EntryHub] = {}

    async def sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[LogSource]:
        """Return the source of these replicas.

        Raises:
            InvalidRequestError: The job's output is not stored in Cloud Logging.
        """
        # The states of a watch do not include the job.
        job = app.native if isinstance(app.native, ReadGCPJob) else await self._jobs.look(query.app_id)
        if job is None or not replicas:
            return []  # The job was deleted after it was described.
        _check_kept(job.row, query.app_id)
        created = time_of(job.row.get("createTime"))
        created_ns = 0 if created is None else int(created.timestamp() * 1e9) - _EARLY
        left = self._left(job.row)
        source = JobLog(
            self._hub(job.ref.project),
            text(job.row, "uid"),
            query,
            role=replicas[0].role,
            replicas=frozenset(replica.id for replica in replicas),
            since_ns=max(created_ns, (query.since_ns or 0) - _EARLY),
            settled=left <= 0 or (left == float("inf") and not query.tail),
            settle=min(left, self._times.settle),
            is_over=left != float("inf"),
        )
        if not query.tail:
            source.finish()  # entries of an app that has just ended may still arrive
        return [source]

    def _left(self, row: Row) -> float:
        """Return the seconds in which lines may still arrive; infinite while the job runs."""
        if not job_state(row).is_terminal():
            return float("inf")
        ended = time_of(last_event(row).get("eventTime")) or time_of(row.get("updateTime"))
        if ended is None:
            return 0.0
        return self._times.settle - (self._clock.time_ns() / 1e9 - ended.timestamp())

    def _hub(self, project: str) -> EntryHub:
        hub = self._hubs.get(project)
        if hub is None:
            hub = self._hubs[project] = EntryHub(
                lambda body: self._client.read_entries(body, project),
                project,
                budget=self._limits.shared(project, ReadBudget, lambda: ReadBudget(self._clock, self._reads)),
                clock=self._clock,
                times=self._times,
                retry_for=self._retry_for,
            )
        return hub


def _check_kept(row: Row, app_id: str) -> None:
    destination = text(part(row, "logsPolicy"), "destination")
    if destination == "CLOUD_LOGGING":
        return
    raise InvalidRequestError(
        f"the log of {app_id} cannot be read",
        why=f"its job writes the log to {destination}" if destination else "its job has no log destination",
        fix="submit the app with log_destination=cloud_logging",
        backend=BACKEND,
        operation="log_iter",
    )
