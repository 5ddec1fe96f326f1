"""Submit a job exactly once: Google recognises a repeated request by its id, and a job by its name."""

from __future__ import annotations

import asyncio
import contextlib
import re

from asyncsched.clock import Clock
from asyncsched.errors import AsyncSchedError, ConflictError, NotFoundError, SchedulerError
from asyncsched.schedulers.gcp_batch.client import GoogleClient
from asyncsched.schedulers.gcp_batch.ending import remove
from asyncsched.schedulers.gcp_batch.errors import BACKEND, may_have_happened
from asyncsched.schedulers.gcp_batch.lookup import GCPJobs
from asyncsched.schedulers.gcp_batch.names import label_value
from asyncsched.schedulers.gcp_batch.names_note import make_note
from asyncsched.schedulers.gcp_batch.request import GCPBatchJob, to_wire
from asyncsched.schedulers.gcp_batch.request_limits import check_size
from asyncsched.schedulers.gcp_batch.status import digest_of, request_of
from asyncsched.schedulers.gcp_batch.status_rows import Row
from asyncsched.schedulers.request_checks import other_app
from asyncsched.specs.dryrun import AppDryRunInfo
from asyncsched.workspace.image_names import host_of, token_login

__all__ = ["GOOGLE_REGISTRIES", "GCPSubmission", "google_login"]

GOOGLE_REGISTRIES = re.compile(r"[a-z0-9-]+-docker\.pkg\.dev|([a-z]+\.)?gcr\.io")
"""The hosts of Artifact Registry and its predecessor, which accept a Google token."""

TOKEN_USER = "oauth2accesstoken"  # noqa: S105 - a name, not a password

_LOOK_AGAIN = 0.5


async def google_login(image: str, client: GoogleClient, hosts: re.Pattern[str]) -> str | None:
    """Return the login for a registry of Google, which is a token; None for another registry.

    Args:
        image: The image, or its repository.
        client: The client of Google Cloud.
        hosts: Google's registry hosts.

    Raises:
        AuthError: The credentials yield no token.
    """
    if hosts.fullmatch(host_of(image)) is None:
        return None
    return token_login(image, TOKEN_USER, await client.token())


class GCPSubmission:
    """The submit of one job.

    Args:
        client: The client of Google Cloud.
        jobs: Reads jobs.
        info: The dry-run to submit.
        session: The session that submits it.
        clock: The time source.
    """

    def __init__(
        self, client: GoogleClient, jobs: GCPJobs, info: AppDryRunInfo[GCPBatchJob], *, session: str, clock: Clock
    ) -> None:
        self._client, self._jobs, self._clock = client, jobs, clock
        self._job, self._digest = info.request, info.digest
        name = info.app.name if info.app is not None else info.request.name
        limit = info.request.pending_timeout
        note = make_note(info.app, name=name, session=session, pending_timeout=limit)
        self._wire = to_wire(self._job, digest=info.digest, note=note)
        check_size(self._wire)  # the request may have been edited
        self._sending: asyncio.Task[None] | None = None

    async def exists(self) -> bool:
        """Return whether the job was submitted before.

        Raises:
            ConflictError: Another job has its name.
        """
        job = await self._jobs.read(self._job.ref)
        if job is not None:
            self._check_same(job.row)
        return job is not None

    async def send(self) -> None:
        """Submit the job. Cancelling this does not cancel the request, so that `undo` can learn its outcome."""
        self._sending = asyncio.get_running_loop().create_task(self._send(), name=f"submitting {self._job.name}")
        await asyncio.shield(self._sending)

    async def undo(self) -> None:
        """Delete the job of an interrupted submit, if it exists, and wait until it is gone.

        The job exists once the submit has ended, or once it is found by its name while the answer is pending. A job
        that another submit created under this name is kept.
        """
        sending = self._sending
        if sending is None:
            return
        try:
            if await self._is_there(sending):
                await remove(self._client, self._jobs, self._job.ref, clock=self._clock)
        finally:
            sending.cancel()  # a later retry would create the job again

    async def _is_there(self, sending: asyncio.Task[None]) -> bool:
        """Wait until it is known whether this submit created a job, and stop sending."""
        pause = _LOOK_AGAIN
        while not await self._ends_within(sending, pause):
            with contextlib.suppress(SchedulerError):  # the pending answer will report it
                if await self._is_ours():
                    sending.cancel()
                    await asyncio.wait([sending])
                    return True
            pause = min(pause * 1.5, 2.0)
        try:
            await sending
        except AsyncSchedError as error:
            if not may_have_happened(error):
                return False
        return await self._is_ours()

    async def _ends_within(self, sending: asyncio.Task[None], seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with self._clock.deadline(seconds):
                await asyncio.wait([sending])
        return sending.done()

    async def _is_ours(self) -> bool:
        job = await self._jobs.read(self._job.ref)
        return job is not None and request_of(job.row) == label_value(self._job.request_id)

    async def _send(self) -> None:
        job = self._job
        query = {"jobId": job.name, "requestId": job.request_id}
        try:
            row = await self._client.request(
                "POST",
                f"{job.ref.parent}/jobs",
                query=query,
                body=self._wire,
                operation="jobs.create",
                project=job.project,
            )
        except ConflictError:
            # The job exists: created by a try whose answer was lost, or by another submit.
            if not await self.exists():
                raise
        except NotFoundError as error:
            raise self._named(error) from error.__cause__
        else:
            self._check_same(row)

    def _check_same(self, row: Row) -> None:
        if digest_of(row) not in ("", label_value(self._digest)):
            raise other_app(self._job.ref.app_id, BACKEND)

    def _named(self, error: NotFoundError) -> SchedulerError:
        return NotFoundError(
            f"project {self._job.project} does not exist, or Batch is not available in {self._job.location}",
            why=error.why,
            fix="correct the run options project and location",
            backend=BACKEND,
            operation="jobs.create",
        )
