"""Ending jobs: all that are to be ended at the same time with as few calls as AWS Batch allows."""

from __future__ import annotations

import asyncio
import contextvars

from asyncsched._streams import for_one
from asyncsched._tasks import outlast
from asyncsched.errors import InvalidRequestError, PermissionDeniedError, SchedulerError
from asyncsched.schedulers.aws_batch.client import Connection
from asyncsched.schedulers.aws_batch.errors import BACKEND
from asyncsched.schedulers.aws_batch.lookup import Jobs
from asyncsched.schedulers.aws_batch.status import REASON_CANCELLED, job_state

__all__ = ["Endings"]

#: Ids in one TerminateJobs, as AWS Batch accepts them.
MAX_IDS = 50

Waiting = dict[str, list[asyncio.Future[None]]]


class Endings:
    """Terminates jobs. Who asks while a call is on its way is served by the next one, together with all others.

    Args:
        jobs: Where jobs are read.
    """

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._waiting: dict[Connection, Waiting] = {}
        self._tasks: dict[Connection, asyncio.Task[None]] = {}
        self._in_bulk = True  # until the service, or the SDK, turns out not to know how

    async def end(self, connection: Connection, job_id: str) -> None:
        """Terminate a job unless it has ended; who is cancelled while waiting may have ended it."""
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(connection, {}).setdefault(job_id, []).append(told)
        if connection not in self._tasks:
            self._tasks[connection] = asyncio.get_running_loop().create_task(
                self._serve(connection), name="aws_batch: ending jobs", context=contextvars.Context()
            )
        await told

    async def aclose(self) -> None:
        """End the tasks; what they have not asked for yet is not asked for."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await outlast(tasks, 5.0)

    async def _serve(self, connection: Connection) -> None:
        taken: Waiting = {}
        try:
            while taken := self._take(connection):
                try:
                    await self._end_all(connection, list(taken))
                except Exception as error:  # noqa: BLE001 - whatever it is, it is told to those who wait
                    _tell(taken, error)
                else:
                    _tell(taken, None)
        finally:
            del self._tasks[connection]
            for left in (taken, self._waiting.pop(connection, {})):
                _cancel(left)

    def _take(self, connection: Connection) -> Waiting:
        """Take those who wait, but for those who have been cancelled meanwhile."""
        waiting, taken = self._waiting.get(connection, {}), Waiting()
        for job_id in list(waiting):
            if len(taken) == MAX_IDS:
                break
            alive = [told for told in waiting.pop(job_id) if not told.done()]
            if alive:
                taken[job_id] = alive
        return taken

    async def _end_all(self, connection: Connection, job_ids: list[str]) -> None:
        rows = await self._jobs.rows(connection, job_ids)
        alive = [job_id for job_id, row in rows.items() if not job_state(row).is_terminal()]
        if len(alive) > 1 and self._in_bulk:
            alive = await self._in_one_call(connection, alive)
        for job_id in alive:
            await connection.call("batch", "TerminateJob", jobId=job_id, reason=REASON_CANCELLED)

    async def _in_one_call(self, connection: Connection, job_ids: list[str]) -> list[str]:
        """Terminate jobs in bulk; returns those that have to be terminated one by one."""
        try:
            answer = await connection.call("batch", "TerminateJobs", jobs=job_ids, reason=REASON_CANCELLED)
        except (AttributeError, InvalidRequestError, PermissionDeniedError):
            self._in_bulk = False  # An older SDK, or a policy that knows only the operation for one job.
            return job_ids
        # One by one they tell their reasons as errors of their own.
        return [row["job"] for row in answer.get("errors", ())]


def _tell(waiting: Waiting, error: Exception | None) -> None:
    for told in (told for each in waiting.values() for told in each):
        if told.done():
            continue
        if error is None:
            told.set_result(None)
        else:
            told.set_exception(for_one(error))


def _cancel(waiting: Waiting) -> None:
    closed = SchedulerError("the scheduler was closed before the job was ended", backend=BACKEND, operation="cancel")
    _tell(waiting, closed)
