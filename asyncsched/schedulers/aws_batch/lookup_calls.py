"""Calls that read jobs and queues, page by page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from asyncsched.errors import InvalidRequestError, UnavailableError
from asyncsched.schedulers._common.tombstone import Tombstone
from asyncsched.schedulers.aws_batch.client import AWSConnection
from asyncsched.schedulers.aws_batch.errors import BACKEND
from asyncsched.schedulers.aws_batch.status_rows import Row, part

__all__ = ["MAX_IDS", "TOMBSTONE", "fetch_rows", "list_jobs", "list_queues", "mark_deleted"]

TOMBSTONE = Tombstone[Row](lambda row: part(row, "tags"))
"""The tag of deleted apps; AWS itself forgets a job some time later."""

MAX_IDS = 100
"""Most ids in one DescribeJobs."""

MAX_EXPIRED = 10
"""How often to restart a list whose page token has expired."""


async def list_jobs(connection: AWSConnection, **request: object) -> AsyncGenerator[Sequence[Row]]:
    """Yield the pages of ListJobs; start again from the first page if a token has expired."""
    expired = 0
    while True:
        try:
            answer = await connection.call("batch", "ListJobs", "jobSummaryList", **request)
        except InvalidRequestError as error:
            expired += 1
            if request.pop("nextToken", None) is None:
                raise
            if expired > MAX_EXPIRED:
                raise UnavailableError(
                    "AWS's page tokens expire too fast to list the jobs",
                    why=error.why,
                    backend=BACKEND,
                    operation="ListJobs",
                ) from error
            continue
        await asyncio.sleep(0)  # Parsing a full page has taken most of a step.
        yield answer["jobSummaryList"]
        if not answer.get("nextToken"):
            return
        request["nextToken"] = answer["nextToken"]


async def list_queues(connection: AWSConnection) -> list[str]:
    """Return the names of all queues."""
    names: list[str] = []
    request: dict[str, object] = {}
    while True:
        answer = await connection.call("batch", "DescribeJobQueues", "jobQueues", **request)
        names += [row["jobQueueName"] for row in answer["jobQueues"]]
        if not answer.get("nextToken"):
            return names
        request["nextToken"] = answer["nextToken"]


async def fetch_rows(connection: AWSConnection, ids: Sequence[str]) -> dict[str, Row]:
    """Return the rows of up to a hundred jobs and nodes by id, without unknown ones."""
    answer = await connection.call("batch", "DescribeJobs", "jobs", jobs=list(ids))
    return {row["jobId"]: row for row in answer["jobs"]}


async def mark_deleted(connection: AWSConnection, row: Row) -> None:
    """Tag a job as deleted; every asyncsched process then treats it as gone."""
    await connection.call("batch", "TagResource", resourceArn=row["jobArn"], tags=TOMBSTONE.mark())
