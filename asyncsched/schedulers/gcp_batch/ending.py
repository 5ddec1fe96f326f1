"""Cancel jobs, which keeps them, and delete ended ones."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import uuid4

from asyncsched._tasks import gather_bounded
from asyncsched.clock import Clock
from asyncsched.errors import ConflictError, InvalidRequestError, NotFoundError
from asyncsched.schedulers._common.pending import LateApp
from asyncsched.schedulers.ending import not_ended
from asyncsched.schedulers.gcp_batch.client import GoogleClient
from asyncsched.schedulers.gcp_batch.errors import BACKEND
from asyncsched.schedulers.gcp_batch.lookup import GCPJobs
from asyncsched.schedulers.gcp_batch.names import GCPJobRef, parse_app_id
from asyncsched.schedulers.gcp_batch.status import job_state
from asyncsched.schedulers.gcp_batch.status_rows import Row, part, text
from asyncsched.specs.state import AppState

__all__ = ["cancel_app", "delete_app", "give_up", "remove"]

_ENDING = {"CANCELLATION_IN_PROGRESS", "DELETION_IN_PROGRESS"}
_LOOK_AGAIN = 0.2
AT_ONCE = 16


async def cancel_app(app_id: str, client: GoogleClient, jobs: GCPJobs) -> None:
    """Cancel an app's job; an unknown or ended job is left alone."""
    ref = parse_app_id(app_id)
    try:
        await client.request(
            "POST",
            f"{ref.resource}:cancel",
            body={"requestId": str(uuid4())},
            operation="jobs.cancel",
            project=ref.project,
        )
    except NotFoundError:
        return
    except (InvalidRequestError, ConflictError):
        # Google does not document its answer for a job that has ended or is ending, so check the job's state.
        job = await jobs.read(ref)
        if job is not None and not job_state(job.row).is_terminal() and _state(job.row) not in _ENDING:
            raise


async def delete_app(app_id: str, client: GoogleClient, jobs: GCPJobs) -> None:
    """Delete the job of an ended app. Google takes a while; the app counts as gone immediately.

    Raises:
        ConflictError: The app has not ended.
    """
    job = await jobs.look(app_id)
    if job is None:
        return
    if not job_state(job.row).is_terminal():
        raise not_ended(app_id, BACKEND)
    await _delete(client, job.ref)


async def remove(client: GoogleClient, jobs: GCPJobs, ref: GCPJobRef, *, clock: Clock) -> None:
    """Delete a job, even if it is running, and wait until it is gone."""
    await _delete(client, ref)
    pause = _LOOK_AGAIN
    while await jobs.read(ref) is not None:
        await clock.sleep(pause)
        pause = min(pause * 1.5, 2.0)


async def give_up(late: Iterable[LateApp], client: GoogleClient, jobs: GCPJobs) -> None:
    """Cancel the jobs of apps that exceeded their `pending_timeout`, unless they have started by now."""

    async def one(app: LateApp) -> None:
        job = await jobs.look(app.app_id)
        if job is not None and job_state(job.row) in (AppState.SUBMITTED, AppState.PENDING):
            await cancel_app(app.app_id, client, jobs)

    await gather_bounded(one, late, AT_ONCE)


async def _delete(client: GoogleClient, ref: GCPJobRef) -> None:
    try:
        await client.request(
            "DELETE",
            ref.resource,
            query={"requestId": str(uuid4())},
            operation="jobs.delete",
            project=ref.project,
        )
    except NotFoundError:
        return


def _state(row: Row) -> str:
    return text(part(row, "status"), "state")
