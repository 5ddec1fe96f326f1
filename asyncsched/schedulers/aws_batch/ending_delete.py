"""Removing what is left of an app that has ended."""

from __future__ import annotations

from collections.abc import Mapping

from asyncsched.errors import NotFoundError
from asyncsched.schedulers.aws_batch.client import AWSConnection
from asyncsched.schedulers.aws_batch.errors import BACKEND
from asyncsched.schedulers.aws_batch.logs_streams import LogStreamRefs
from asyncsched.schedulers.aws_batch.lookup import AWSJobs
from asyncsched.schedulers.aws_batch.lookup_calls import mark_deleted
from asyncsched.schedulers.aws_batch.status import job_state
from asyncsched.schedulers.aws_batch.status_rows import Row
from asyncsched.schedulers.aws_batch.submit_definitions import Definitions
from asyncsched.schedulers.ending import not_ended

__all__ = ["delete_app"]


async def delete_app(app_id: str, jobs: AWSJobs, definitions: Definitions) -> None:
    """Remove an app's log streams and its own definition, and mark its job, which AWS itself forgets later.

    Raises:
        ConflictError: It has not ended.
    """
    job = await jobs.look(app_id)
    if job is None:
        return
    if not job_state(job.row).is_terminal():
        raise not_ended(app_id, BACKEND)
    connection = jobs.names.connection(job.known)
    await _remove_traces(connection, job.row, job.nodes)
    if definitions.is_leftover(job.row):
        await definitions.deregister(connection, job.row["jobDefinition"])
    jobs.names.forget(job.known.job_id)


async def _remove_traces(connection: AWSConnection, row: Row, nodes: Mapping[str, Row]) -> None:
    """Delete a job's log streams, then mark the job: AWS Batch itself forgets it some days later.

    In this order, so that a delete that is broken off can be done again.
    """
    places = LogStreamRefs(row, nodes)
    for (role, replica), place in places:
        group = places.group(role, replica)
        try:
            await connection.call("logs", "DeleteLogStream", logGroupName=group, logStreamName=place.stream)
        except NotFoundError:
            pass  # It never wrote a line, or it was deleted before.
    await mark_deleted(connection, row)
