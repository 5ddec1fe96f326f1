"""Submit a job exactly once, although SubmitJob has no idempotency token."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from asyncsched.clock import Clock
from asyncsched.errors import NotFoundError, SchedulerError
from asyncsched.schedulers._common.retry import retry
from asyncsched.schedulers.aws_batch.client import AWSConnection
from asyncsched.schedulers.aws_batch.errors import BACKEND, may_have_happened
from asyncsched.schedulers.aws_batch.lookup_calls import fetch_rows, mark_deleted
from asyncsched.schedulers.aws_batch.lookup_names import JobNames, newest
from asyncsched.schedulers.aws_batch.names import queue_name
from asyncsched.schedulers.aws_batch.names_note import note_tags
from asyncsched.schedulers.aws_batch.names_tags import BY_HAND_TAG, without_secrets
from asyncsched.schedulers.aws_batch.request import BatchJob, to_wire
from asyncsched.schedulers.aws_batch.request_limits import LATER_TAGS, MAX_SUBMIT_BYTES, MAX_TAGS, size_of
from asyncsched.schedulers.aws_batch.status_rows import Row, part
from asyncsched.schedulers.aws_batch.submit_definitions import Definitions
from asyncsched.schedulers.request_checks import other_app
from asyncsched.specs.dryrun import AppDryRunInfo

__all__ = ["DIGEST_TAG", "AWSSubmission"]

DIGEST_TAG = "asyncsched/digest"
REASON_UNFINISHED = "asyncsched: the submit was not finished"

_LOOKS = (1.0, 2.0)
"""Seconds between checks for a job whose submit was not answered: the list may lag behind."""


class AWSSubmission:
    """The submit of one job.

    If an answer is lost, the job is looked up by its unique name before it is submitted again.

    Attributes:
        job_id: The job's id, once known.
        open: Whether a request was sent and its outcome is unknown.
    """

    def __init__(self, connection: AWSConnection, info: AppDryRunInfo[BatchJob], clock: Clock) -> None:
        self._connection, self._clock = connection, clock
        self._job, self._digest, self._app = info.request, info.digest, info.app
        self.job_id: str | None = None
        self.open = False
        self._own_definition: str | None = None

    async def existing(self) -> str | None:
        """Return the id of the job that was already submitted under this name, if any.

        Raises:
            ConflictError: It is another job.
        """
        row = await self._look_up()
        if row is None:
            return None
        if part(row, "tags").get(DIGEST_TAG) not in (None, self._digest):
            raise other_app(self._job.name, BACKEND)
        return str(row["jobId"])

    async def name_dependencies(self, names: JobNames) -> None:
        """Replace the app ids in `depends_on` by job ids.

        Raises:
            NotFoundError: An app does not exist; nothing has been sent.
        """
        rows = cast("list[dict[str, str]]", self._job.submit.get("dependsOn", []))
        named: list[dict[str, str]] = []
        for row in rows:
            found = await names.find(row["jobId"]) if "jobId" in row else None
            if found is None and "jobId" in row:
                raise NotFoundError(
                    f"depends_on names {row['jobId']}, which does not exist",
                    fix="use the id of a submitted app",
                    backend=BACKEND,
                    operation="submit",
                )
            named.append(row if found is None else {**row, "jobId": found.job_id})
        if named:
            self._job = replace(self._job, submit={**self._job.submit, "dependsOn": named})

    async def send(self, definitions: Definitions, *, retry_for: float) -> str:
        """Submit the job and return its id; retry only calls that cannot have taken effect."""
        definition = await definitions.ensure(self._connection, self._job)
        self._own_definition = None if self._job.reuse else definition
        try:
            self.job_id = await self._repeated(definition, retry_for)
        except NotFoundError as error:
            if "inactive" not in error.why.lower() or not self._job.reuse:
                raise self._named(error) from error.__cause__
            definitions.forget(definition)  # It was deregistered elsewhere.
            definition = await definitions.ensure(self._connection, self._job)
            self.job_id = await self._repeated(definition, retry_for)
        return self.job_id

    async def _repeated(self, definition: str, retry_for: float) -> str:
        return await retry(lambda: self._once(definition), clock=self._clock, retry_for=retry_for)

    async def undo(self) -> None:
        """Terminate the job of an interrupted submit, if it exists, and deregister its own definition."""
        if self.job_id is None and self.open:
            self.job_id = await self._find_often()
        if self.job_id is not None:
            await self._connection.call("batch", "TerminateJob", jobId=self.job_id, reason=REASON_UNFINISHED)
            row = (await fetch_rows(self._connection, [self.job_id])).get(self.job_id)
            if row is not None:  # AWS keeps it for days; asyncsched treats it as gone.
                await mark_deleted(self._connection, row)
        if self._own_definition is not None:
            await self._connection.call("batch", "DeregisterJobDefinition", jobDefinition=self._own_definition)

    async def _once(self, definition: str) -> str:
        request = self._request(definition)
        self.open = True
        try:
            answer = await self._connection.try_once("batch", "SubmitJob", "jobId", **request)
        except SchedulerError as error:
            if may_have_happened(error) and (found := await self._found_again()) is not None:
                return found
            self.open = False
            raise
        return str(answer["jobId"])

    def _request(self, definition: str) -> dict[str, object]:
        request = to_wire(self._job, definition)
        tags = {**part(request, "tags"), DIGEST_TAG: self._digest}
        if self._app is not None:
            tags = without_secrets(tags, self._app)
        room = MAX_TAGS - LATER_TAGS - len(tags)
        by_hand = {BY_HAND_TAG: "true"} if room > 0 else {}
        notes = by_hand if self._app is None else note_tags(self._app, room)
        whole = {**request, "tags": tags | notes}
        return whole if size_of(whole) <= MAX_SUBMIT_BYTES else {**request, "tags": tags}

    async def _found_again(self) -> str | None:
        """Look for a job that may have been submitted; if that fails, raise an error that is not retried."""
        try:
            return await self._find_often()
        except SchedulerError as error:
            app_id = f"{queue_name(self._job.queue)}:{self._job.name}"
            raise SchedulerError(
                f"it is unknown whether AWS accepted {app_id}, and AWS does not answer",
                why=str(error),
                fix=f"describe or cancel {app_id} when AWS answers again",
                backend=BACKEND,
                operation="SubmitJob",
            ) from error

    async def _find_often(self) -> str | None:
        for pause in (*_LOOKS, 0.0):
            if (row := await self._look_up()) is not None:
                return str(row["jobId"])
            if pause:
                await self._clock.sleep(pause)
        return None

    async def _look_up(self) -> Row | None:
        return await newest(self._connection, self._job.queue, self._job.name)

    def _named(self, error: NotFoundError) -> NotFoundError:
        if queue_name(self._job.queue) not in error.why:
            return error
        return NotFoundError(
            f"the job queue {self._job.queue} does not exist",
            why=error.why,
            fix="aws batch describe-job-queues lists those of this account and region",
            backend=BACKEND,
            operation="SubmitJob",
        )
