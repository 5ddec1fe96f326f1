"""End jobs, with as few calls as AWS Batch allows for concurrent requests."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import aclosing

from asyncsched._streams import for_one
from asyncsched._tasks import outlast
from asyncsched.errors import AsyncSchedError, InvalidRequestError, PermissionDeniedError, SchedulerError
from asyncsched.schedulers._common.pending import LateApp
from asyncsched.schedulers.aws_batch.client import AWSConnection
from asyncsched.schedulers.aws_batch.errors import BACKEND
from asyncsched.schedulers.aws_batch.lookup_calls import TOMBSTONE, fetch_rows
from asyncsched.schedulers.aws_batch.lookup_names import JobNames, KnownJob
from asyncsched.schedulers.aws_batch.status import REASON_CANCELLED, job_state, pending_reason

__all__ = ["AWSEndings", "cancel_all", "cancel_one", "give_up_all"]

MAX_IDS = 50
"""Most ids in one TerminateJobs."""

Waiting = dict[str, list[asyncio.Future[bool]]]


class AWSEndings:
    """Terminates jobs; requests that arrive during a call are combined in the next call."""

    def __init__(self) -> None:
        self._waiting: dict[AWSConnection, Waiting] = {}
        self._tasks: dict[AWSConnection, asyncio.Task[None]] = {}
        self._closed = False
        self._one_by_one: set[str] = set()  # operations without a bulk form in the service or the SDK

    async def end(self, connection: AWSConnection, job_id: str) -> bool:
        """Terminate a job unless it has ended; if this is cancelled, the job may have been terminated.

        Returns:
            Whether the job exists and is not deleted.
        """
        if self._closed:
            raise _closed_error()
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(connection, {}).setdefault(job_id, []).append(done)
        if connection not in self._tasks:
            self._tasks[connection] = asyncio.get_running_loop().create_task(
                self._serve(connection), name="aws_batch: ending jobs", context=contextvars.Context()
            )
        return await done

    async def aclose(self) -> None:
        """Cancel the tasks; pending requests are not sent."""
        self._closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await outlast(tasks, 5.0)

    async def _serve(self, connection: AWSConnection) -> None:
        taken: Waiting = {}
        try:
            while taken := self._take(connection):
                try:
                    there = await self._end_all(connection, list(taken))
                except Exception as error:  # noqa: BLE001 - any error goes to the waiting callers
                    _fail(taken, error)
                else:
                    _resolve(taken, there)
        finally:
            del self._tasks[connection]
            for left in (taken, self._waiting.pop(connection, {})):
                _cancel(left)

    def _take(self, connection: AWSConnection) -> Waiting:
        """Take the waiting requests, except cancelled ones."""
        waiting, taken = self._waiting.get(connection, {}), Waiting()
        for job_id in list(waiting):
            if len(taken) == MAX_IDS:
                break
            alive = [done for done in waiting.pop(job_id) if not done.done()]
            if alive:
                taken[job_id] = alive
        return taken

    async def _end_all(self, connection: AWSConnection, job_ids: list[str]) -> set[str]:
        """Terminate jobs; return the ids of those that exist."""
        rows = await fetch_rows(connection, job_ids)
        there = {job_id: row for job_id, row in rows.items() if TOMBSTONE.existing(row) is not None}
        alive = [job_id for job_id, row in there.items() if not job_state(row).is_terminal()]
        await self._each(connection, "TerminateJob", alive, REASON_CANCELLED)
        return set(there)

    async def give_up(self, connection: AWSConnection, job_ids: Sequence[str], reason: str) -> None:
        """Cancel these jobs if they have not started; AWS leaves a job alone that has."""
        for start in range(0, len(job_ids), MAX_IDS):
            await self._each(connection, "CancelJob", job_ids[start : start + MAX_IDS], reason)

    async def _each(self, connection: AWSConnection, operation: str, job_ids: Sequence[str], reason: str) -> None:
        left = job_ids
        if len(left) > 1 and operation not in self._one_by_one:
            left = await self._in_one_call(connection, operation, left, reason)
        for job_id in left:
            await connection.call("batch", operation, jobId=job_id, reason=reason)

    async def _in_one_call(
        self, connection: AWSConnection, operation: str, job_ids: Sequence[str], reason: str
    ) -> Sequence[str]:
        """Call the bulk form of an operation; return the jobs that need single calls."""
        try:
            answer = await connection.call("batch", f"{operation}s", jobs=list(job_ids), reason=reason)
        except (AttributeError, InvalidRequestError, PermissionDeniedError):
            self._one_by_one.add(operation)  # An older SDK, or a policy that allows only the single form.
            return job_ids
        # Single calls raise the errors of these jobs.
        return [row["job"] for row in answer.get("errors", ())]


async def cancel_one(app_id: str, names: JobNames, endings: AWSEndings) -> None:
    """Terminate the job of an app; an unknown or ended job is left alone."""
    known = await names.find(app_id)
    if known is None or await endings.end(names.connection(known), known.job_id):
        return
    if names.stale([app_id]):  # The job is gone, and another job may have its name.
        again = await names.find(app_id)
        if again is not None:
            await endings.end(names.connection(again), again.job_id)


async def give_up_all(late: Iterable[LateApp], names: JobNames, endings: AWSEndings) -> None:
    """Cancel the jobs of apps that exceeded their `pending_timeout`, those with the same reason in one call."""
    together: dict[tuple[AWSConnection, str], list[str]] = {}
    for app in late:
        known = await names.find(app.app_id)  # It was submitted here, so this makes no call.
        if known is not None:
            reason = pending_reason(app.limit, app.msg)
            together.setdefault((names.connection(known), reason), []).append(known.job_id)
    for (connection, reason), job_ids in together.items():
        await endings.give_up(connection, job_ids, reason)


async def cancel_all(
    app_ids: Collection[str], names: JobNames, endings: AWSEndings
) -> Mapping[str, SchedulerError | None]:
    """Terminate the jobs of these apps; unknown and ended jobs are left alone.

    Returns:
        For each app None, or why its job could not be terminated.

    Raises:
        MalformedHandleError: One of the ids is malformed; nothing was terminated.
    """
    outcomes: dict[str, SchedulerError | None] = {}
    gone = await _cancel_found(app_ids, names, endings, outcomes)
    if again := names.stale(gone):
        await _cancel_found(again, names, endings, outcomes)
    return outcomes


async def _cancel_found(
    app_ids: Collection[str], names: JobNames, endings: AWSEndings, outcomes: dict[str, SchedulerError | None]
) -> list[str]:
    """Terminate the jobs of these apps, record the outcomes, and return the apps whose jobs do not exist."""
    gone: list[str] = []

    async def one(app_id: str, known: KnownJob) -> None:
        try:
            if not await endings.end(names.connection(known), known.job_id):
                gone.append(app_id)
        except SchedulerError as error:
            outcomes[app_id] = error

    found: dict[str, KnownJob] = {}
    async with aclosing(names.find_all(app_ids)) as answers:
        async for answer in answers:
            for app_id, known in answer.items():
                outcomes[app_id] = known if isinstance(known, SchedulerError) else None
                if isinstance(known, KnownJob):
                    found[app_id] = known
                elif isinstance(known, AsyncSchedError) and not isinstance(known, SchedulerError):
                    raise known
    ends = await asyncio.gather(*(one(app_id, known) for app_id, known in found.items()), return_exceptions=True)
    for error in ends:
        if error is not None:
            raise error
    return gone


def _resolve(waiting: Waiting, existing: set[str]) -> None:
    for job_id, each in waiting.items():
        for done in each:
            if not done.done():
                done.set_result(job_id in existing)


def _fail(waiting: Waiting, error: Exception) -> None:
    for done in (done for each in waiting.values() for done in each):
        if not done.done():
            done.set_exception(for_one(error))


def _cancel(waiting: Waiting) -> None:
    _fail(waiting, _closed_error())


def _closed_error() -> SchedulerError:
    return SchedulerError("the scheduler was closed before the job was ended", backend=BACKEND, operation="cancel")
