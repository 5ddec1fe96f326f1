"""Ending jobs: all that are to be ended at the same time with as few calls as AWS Batch allows."""

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
"""Ids in one TerminateJobs, as AWS Batch accepts them."""

Waiting = dict[str, list[asyncio.Future[bool]]]


class AWSEndings:
    """Terminates jobs. Who asks while a call is on its way is served by the next one, together with all others."""

    def __init__(self) -> None:
        self._waiting: dict[AWSConnection, Waiting] = {}
        self._tasks: dict[AWSConnection, asyncio.Task[None]] = {}
        self._closed = False
        self._one_by_one: set[str] = set()  # operations that the service, or the SDK, turns out not to know in bulk

    async def end(self, connection: AWSConnection, job_id: str) -> bool:
        """Terminate a job unless it has ended; who is cancelled while waiting may have ended it.

        Returns:
            Whether there is such a job, and it is not deleted.
        """
        if self._closed:
            raise _closed_error()
        told: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(connection, {}).setdefault(job_id, []).append(told)
        if connection not in self._tasks:
            self._tasks[connection] = asyncio.get_running_loop().create_task(
                self._serve(connection), name="aws_batch: ending jobs", context=contextvars.Context()
            )
        return await told

    async def aclose(self) -> None:
        """End the tasks; what they have not asked for yet is not asked for."""
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
                except Exception as error:  # noqa: BLE001 - whatever it is, it is told to those who wait
                    _fail(taken, error)
                else:
                    _tell(taken, there)
        finally:
            del self._tasks[connection]
            for left in (taken, self._waiting.pop(connection, {})):
                _cancel(left)

    def _take(self, connection: AWSConnection) -> Waiting:
        """Take those who wait, but for those who have been cancelled meanwhile."""
        waiting, taken = self._waiting.get(connection, {}), Waiting()
        for job_id in list(waiting):
            if len(taken) == MAX_IDS:
                break
            alive = [told for told in waiting.pop(job_id) if not told.done()]
            if alive:
                taken[job_id] = alive
        return taken

    async def _end_all(self, connection: AWSConnection, job_ids: list[str]) -> set[str]:
        """Terminate jobs; returns those that there are."""
        rows = await fetch_rows(connection, job_ids)
        there = {job_id: row for job_id, row in rows.items() if TOMBSTONE.existing(row) is not None}
        alive = [job_id for job_id, row in there.items() if not job_state(row).is_terminal()]
        await self._each(connection, "TerminateJob", alive, REASON_CANCELLED)
        return set(there)

    async def give_up(self, connection: AWSConnection, job_ids: Sequence[str], reason: str) -> None:
        """Cancel those of these jobs that have not started: AWS leaves alone what starts meanwhile."""
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
        """Do it in bulk; returns the jobs for which it has to be done one by one."""
        try:
            answer = await connection.call("batch", f"{operation}s", jobs=list(job_ids), reason=reason)
        except (AttributeError, InvalidRequestError, PermissionDeniedError):
            self._one_by_one.add(operation)  # An older SDK, or a policy that knows only the operation for one job.
            return job_ids
        # One by one they tell their reasons as errors of their own.
        return [row["job"] for row in answer.get("errors", ())]


async def cancel_one(app_id: str, names: JobNames, endings: AWSEndings) -> None:
    """Terminate the job of an app; an unknown or ended one is left alone."""
    known = await names.find(app_id)
    if known is None or await endings.end(names.connection(known), known.job_id):
        return
    if names.stale([app_id]):  # Another job may have got the name that is remembered for one that is gone.
        again = await names.find(app_id)
        if again is not None:
            await endings.end(names.connection(again), again.job_id)


async def give_up_all(late: Iterable[LateApp], names: JobNames, endings: AWSEndings) -> None:
    """Cancel the jobs of apps that are over their time to start, those that have waited for the same together."""
    together: dict[tuple[AWSConnection, str], list[str]] = {}
    for app in late:
        known = await names.find(app.app_id)  # It was submitted here: that takes no call.
        if known is not None:
            reason = pending_reason(app.limit, app.msg)
            together.setdefault((names.connection(known), reason), []).append(known.job_id)
    for (connection, reason), job_ids in together.items():
        await endings.give_up(connection, job_ids, reason)


async def cancel_all(
    app_ids: Collection[str], names: JobNames, endings: AWSEndings
) -> Mapping[str, SchedulerError | None]:
    """Terminate the jobs of these apps; unknown and ended ones are left alone.

    Returns:
        For each app None, or why its job could not be terminated.

    Raises:
        MalformedHandleError: One of the ids has none of the accepted forms; nothing was terminated.
    """
    told: dict[str, SchedulerError | None] = {}
    gone = await _cancel_found(app_ids, names, endings, told)
    if again := names.stale(gone):
        await _cancel_found(again, names, endings, told)
    return told


async def _cancel_found(
    app_ids: Collection[str], names: JobNames, endings: AWSEndings, told: dict[str, SchedulerError | None]
) -> list[str]:
    """Terminate the jobs of these apps, and return the apps whose jobs are not there."""
    gone: list[str] = []

    async def one(app_id: str, known: KnownJob) -> None:
        try:
            if not await endings.end(names.connection(known), known.job_id):
                gone.append(app_id)
        except SchedulerError as error:
            told[app_id] = error

    found: dict[str, KnownJob] = {}
    async with aclosing(names.find_all(app_ids)) as answers:
        async for answer in answers:
            for app_id, known in answer.items():
                told[app_id] = known if isinstance(known, SchedulerError) else None
                if isinstance(known, KnownJob):
                    found[app_id] = known
                elif isinstance(known, AsyncSchedError) and not isinstance(known, SchedulerError):
                    raise known
    ends = await asyncio.gather(*(one(app_id, known) for app_id, known in found.items()), return_exceptions=True)
    for error in ends:
        if error is not None:
            raise error
    return gone


def _tell(waiting: Waiting, there: set[str]) -> None:
    for job_id, each in waiting.items():
        for told in each:
            if not told.done():
                told.set_result(job_id in there)


def _fail(waiting: Waiting, error: Exception) -> None:
    for told in (told for each in waiting.values() for told in each):
        if not told.done():
            told.set_exception(for_one(error))


def _cancel(waiting: Waiting) -> None:
    _fail(waiting, _closed_error())


def _closed_error() -> SchedulerError:
    return SchedulerError("the scheduler was closed before the job was ended", backend=BACKEND, operation="cancel")
