"""All apps of this account and region, newest first."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncGenerator

from asyncsched.schedulers.aws_batch.client import Connection
from asyncsched.schedulers.aws_batch.faults import BACKEND
from asyncsched.schedulers.aws_batch.jobs import DELETED_TAG, Jobs
from asyncsched.schedulers.aws_batch.request import DEFINITION_PREFIX
from asyncsched.schedulers.aws_batch.rows import Row, part
from asyncsched.schedulers.aws_batch.status import canonical_id, job_state, time_of
from asyncsched.schedulers.responses import ListAppResponse

__all__ = ["list_apps"]


async def list_apps(jobs: Jobs, connection: Connection) -> AsyncGenerator[ListAppResponse]:
    """Yield a row for each app in any queue, newest first; two calls for a hundred apps, made as they are needed."""
    pages = [_Queue(jobs, connection, queue) for queue in await jobs.queues(connection)]
    await asyncio.gather(*(queue.fill() for queue in pages))
    heap = [(-queue.rows[-1]["createdAt"], number) for number, queue in enumerate(pages) if queue.rows]
    heapq.heapify(heap)
    while heap:
        queue = pages[heap[0][1]]
        yield _listed(queue.rows.pop())
        await queue.fill()
        if queue.rows:
            heapq.heapreplace(heap, (-queue.rows[-1]["createdAt"], heap[0][1]))
        else:
            heapq.heappop(heap)


class _Queue:
    """The jobs of one queue that were made by us, page by page; `rows` ends with the newest."""

    def __init__(self, jobs: Jobs, connection: Connection, queue: str) -> None:
        self._jobs, self._connection = jobs, connection
        self._request: dict[str, object] = {
            "jobQueue": queue,
            "filters": [{"name": "JOB_DEFINITION", "values": [f"{DEFINITION_PREFIX}*"]}],
        }
        self._over = False
        self.rows: list[Row] = []

    async def fill(self) -> None:
        while not self.rows and not self._over:
            page = await self._connection.call("batch", "ListJobs", "jobSummaryList", **self._request)
            self._request["nextToken"] = page.get("nextToken")
            self._over = not page.get("nextToken")
            ids = [row["jobId"] for row in page["jobSummaryList"]]
            # The list shows no tags, and those say whose job it is.
            details = await self._jobs.rows(self._connection, ids) if ids else {}
            shown = (details[job_id] for job_id in reversed(ids) if job_id in details)
            self.rows = [row for row in shown if DELETED_TAG not in part(row, "tags")]


def _listed(row: Row) -> ListAppResponse:
    tags = part(row, "tags")
    session, app_id = tags.get("asyncsched/session", ""), canonical_id(row)
    return ListAppResponse(
        app_id,
        job_state(row),
        f"{BACKEND}://{session}/{app_id}",
        name=tags.get("asyncsched/app", row["jobName"]),
        session=session,
        created_at=time_of(row["createdAt"]),
    )
