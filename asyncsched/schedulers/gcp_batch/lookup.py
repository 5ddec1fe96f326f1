"""Looking jobs up: a job by its name, and its tasks where these tell more than their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass

from asyncsched.errors import NotFoundError
from asyncsched.schedulers.gcp_batch.client import GoogleClient
from asyncsched.schedulers.gcp_batch.names import GCPJobRef, parse_app_id
from asyncsched.schedulers.gcp_batch.status import describe_app, is_deleted, job_state
from asyncsched.schedulers.gcp_batch.status_rows import GROUP, Row, counts_of, parts, task_count
from asyncsched.schedulers.responses import DescribeAppResponse

__all__ = ["GCPJobs", "ReadGCPJob"]

PAGE = 1000
MAX_FAILED = 1000
"""Failed tasks that are read of a job whose tasks are not all read."""


@dataclass(frozen=True, slots=True)
class ReadGCPJob:
    """A job as it has been read.

    Attributes:
        ref: Which job it is.
        row: What Google says of it.
    """

    ref: GCPJobRef
    row: Row


class GCPJobs:
    """Reads jobs, by the ids of their apps.

    Args:
        client: Google Cloud.
        detail: Replicas up to which each task is read; of larger jobs those only that have failed.
    """

    def __init__(self, client: GoogleClient, *, detail: int) -> None:
        self._client, self._detail = client, detail

    async def look(self, app_id: str) -> ReadGCPJob | None:
        """Read an app's job; None if there is none."""
        return await self.read(parse_app_id(app_id))

    async def read(self, ref: GCPJobRef) -> ReadGCPJob | None:
        """Read a job; None if there is none, or it has ended and is being deleted."""
        try:
            row = await self._client.request("GET", ref.resource, operation="jobs.get", project=ref.project)
        except NotFoundError:
            return None
        return None if is_deleted(row) else ReadGCPJob(ref, row)

    async def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Describe one app: one call, and one more where its tasks are read."""
        job = await self.look(app_id)
        return None if job is None else await self.told(job)

    async def told(self, job: ReadGCPJob) -> DescribeAppResponse:
        """Describe an app whose job has been read."""
        response = describe_app(job.ref, job.row, await self._tasks(job))
        response.native = job
        return response

    async def _tasks(self, job: ReadGCPJob) -> Sequence[Row]:
        counts, count = counts_of(job.row), task_count(job.row)
        if not counts and not job_state(job.row).is_started():
            return []
        if count <= self._detail:
            return await self._list(job.ref, {}, count)
        return await self._list(job.ref, {"filter": "State=FAILED"}, MAX_FAILED) if counts.get("FAILED") else []

    async def _list(self, ref: GCPJobRef, query: dict[str, str], most: int) -> list[Row]:
        tasks: list[Row] = []
        path = f"{ref.resource}/taskGroups/{GROUP}/tasks"
        try:
            async with aclosing(
                self._client.pages(
                    path, query={**query, "pageSize": str(PAGE)}, operation="tasks.list", project=ref.project
                )
            ) as pages:
                async for page in pages:
                    tasks += parts(page, "tasks")
                    if len(tasks) >= most:
                        break
        except NotFoundError:  # it ended without any, or was deleted meanwhile
            return []
        return tasks
