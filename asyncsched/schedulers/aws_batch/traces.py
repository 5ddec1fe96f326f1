"""Removing what is left of an app that has ended."""

from __future__ import annotations

from collections.abc import Mapping

from asyncsched.errors import NotFoundError
from asyncsched.schedulers.aws_batch.client import Connection
from asyncsched.schedulers.aws_batch.logs_streams import LogPlaces
from asyncsched.schedulers.aws_batch.lookup_calls import DELETED_TAG
from asyncsched.schedulers.aws_batch.status_rows import Row

__all__ = ["mark_deleted", "remove_traces"]


async def remove_traces(connection: Connection, row: Row, nodes: Mapping[str, Row]) -> None:
    """Delete a job's log streams, then mark the job: AWS Batch itself forgets it some days later.

    In this order, so that a delete that is broken off can be done again.
    """
    places = LogPlaces(row, nodes)
    for (role, replica), place in places:
        group = places.group(role, replica)
        try:
            await connection.call("logs", "DeleteLogStream", logGroupName=group, logStreamName=place.stream)
        except NotFoundError:
            pass  # It never wrote a line, or it was deleted before.
    await mark_deleted(connection, row)


async def mark_deleted(connection: Connection, row: Row) -> None:
    """Let a job be taken for one that does not exist, by everybody who uses asyncsched."""
    await connection.call("batch", "TagResource", resourceArn=row["jobArn"], tags={DELETED_TAG: "true"})
