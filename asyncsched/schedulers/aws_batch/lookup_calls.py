"""The calls that read jobs and queues, page by page."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from asyncsched.errors import InvalidRequestError, UnavailableError
from asyncsched.schedulers._common.tombstone import Tombstone
from asyncsched.schedulers.aws_batch.client import AWSConnection
from asyncsched.schedulers.aws_batch.errors import BACKEND
from asyncsched.schedulers.aws_batch.status_rows import Row, part

__all__ = ["MAX_IDS", "TOMBSTONE", "fetch_rows", "list_jobs", "list_queues", "mark_deleted"]

TOMBSTONE = Tombstone[Row](lambda row: part(row, "tags"))
"""AWS forgets jobs when it likes to; until then a tag says that an app has been deleted."""

MAX_IDS = 100
"""Ids in one DescribeJobs, as AWS Batch accepts them."""

MAX_EXPIRED = 10
"""How often a list begins anew because its page's token has expired."""


async def list_jobs(connection: AWSConnection, **request: object) -> AsyncGenerator[Sequence[Row]]:
    """Yield the pages of ListJobs; where a page's token has expired, those from the first one on again."""
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
                    "AWS's tokens for the next page of jobs expire at once",
                    why=error.why,
                    backend=BACKEND,
                    operation="ListJobs",
                ) from error
            continue
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
    """Return the rows of up to a hundred jobs and nodes by id; unknown ones are left out."""
    answer = await connection.call("batch", "DescribeJobs", "jobs", jobs=list(ids))
    return {row["jobId"]: row for row in answer["jobs"]}


async def mark_deleted(connection: AWSConnection, row: Row) -> None:
    """Let a job be taken for one that does not exist, by everybody who uses asyncsched."""
    await connection.call("batch", "TagResource", resourceArn=row["jobArn"], tags=TOMBSTONE.mark())
