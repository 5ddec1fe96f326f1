"""The requests of jobs to their group."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from asyncsched._streams import for_one
from asyncsched.errors import UsageError
from asyncsched.logs.query import LogArguments
from asyncsched.logs.stream import LogStream
from asyncsched.runner.groups.job import Job, Phase
from asyncsched.specs.state import AppState, AppStatus
from asyncsched.specs.to_plain import JsonValue

if TYPE_CHECKING:
    from asyncsched.runner.groups.engine import Engine

__all__ = ["JobRequests"]


class JobRequests:
    """Serves the requests of jobs to their group; it is their `Owner`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._end_group: Callable[[], Awaitable[None]] | None = None

    def serve_one(self, end_group: Callable[[], Awaitable[None]]) -> None:
        """End the whole group with its only job."""
        self._end_group = end_group

    def waiting_status(self, job: Job) -> AppStatus:
        """Return the status of a job without a running attempt."""
        if job._phase is Phase.LAUNCHING:
            return AppStatus(AppState.PENDING, msg="being launched")
        if job._phase is Phase.PAUSED:
            last = job._last.msg if job._last is not None else ""
            return AppStatus(AppState.PENDING, msg=f"waiting to be started again; its last attempt failed: {last}")
        used, limit = len(self._engine.flights) + len(self._engine.launching), self._engine.settings.limit
        why = f"a slot ({used} of {limit} in use)" if limit else "its launch"
        return AppStatus(AppState.PENDING, msg=f"waiting for {why}")

    async def results_of(self, job: Job) -> Mapping[tuple[str, int], JsonValue] | None:
        """Return the results of a job's last attempt."""
        self._engine.host.enter()
        if job.handle is None:
            return None
        return await (await self._engine.host.open(job.handle.scheduler)).results(job.handle.app_id)

    def job_lines(self, job: Job, query: LogArguments) -> LogStream:
        """Return the lines of a job's last attempt."""
        if job.handle is None:
            raise UsageError(
                f"the job {job.name} has not been launched", fix="wait for it, or ask the group for its lines"
            )
        return self._engine.host.log_lines(job.handle, query)

    def new_waiter(self) -> asyncio.Future[None]:
        """Return a future that is done when the job has ended."""
        self._engine.host.enter()
        if self._engine.error is not None:
            raise for_one(self._engine.error)
        return asyncio.get_running_loop().create_future()

    async def cancel_job(self, job: Job) -> None:
        """Cancel one job."""
        self._engine.host.enter()
        job._is_asked = True
        if job._phase is Phase.WAITING:
            self._engine.over(job, Phase.CANCELLED, "cancelled before it was started")
        elif job._phase is Phase.PAUSED:
            self._engine.pauses.pop(job).cancel()
            self._engine.over(job, Phase.CANCELLED, "cancelled between two attempts")
        elif job._phase is Phase.LAUNCHING:
            if (task := self._engine.launching.get(job)) is not None:
                task.cancel()
        elif job._phase is Phase.RUNNING and job.handle is not None:
            if (flight := self._engine.flights.get(job.handle)) is not None:
                flight.asked = True
            await self._engine.cancel([job.handle])

    async def leave_job(self, job: Job) -> None:
        """End a job whose block was left."""
        if self._end_group is not None:
            await self._end_group()
        elif not job.is_terminal():
            await self.cancel_job(job)
            await job
