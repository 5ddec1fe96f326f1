"""`Job`: one app of a group, from waiting for a slot to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, Unpack

from asyncsched._loops import AsyncOnly
from asyncsched._typing import NamedTuple
from asyncsched.errors import AppStatusError
from asyncsched.specs.app import AppDef
from asyncsched.specs.handle import AppHandle
from asyncsched.specs.state import AppState, AppStatus
from asyncsched.specs.to_plain import JsonValue

if TYPE_CHECKING:
    from asyncsched.logs.query import LogArguments
    from asyncsched.logs.stream import LogStream
    from asyncsched.runner.groups.settings import JobSettings

__all__ = ["Job", "JobCounts", "Phase", "phase_of"]


class Phase(Enum):
    """The phase of a job."""

    WAITING = "waiting"
    LAUNCHING = "launching"
    RUNNING = "running"
    """Launched, in whatever state its scheduler reports."""
    PAUSED = "paused"
    """Between a failed attempt and the next one."""
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    def is_terminal(self) -> bool:
        """Tell whether this phase is the last one."""
        return self in (Phase.DONE, Phase.FAILED, Phase.CANCELLED)


def phase_of(state: AppState) -> Phase:
    """Return the phase of a job that ended in this state."""
    return {AppState.SUCCEEDED: Phase.DONE, AppState.CANCELLED: Phase.CANCELLED}.get(state, Phase.FAILED)


class JobCounts(NamedTuple):
    """The number of a group's jobs by phase; the counts sum to the number of jobs.

    Attributes:
        done: Succeeded.
        failed: Failed after all retries.
        cancelled: Cancelled, or never started because the group ended.
        running: Launched, or being launched.
        waiting: Waiting for a slot, or to be restarted.
    """

    done: int
    failed: int
    cancelled: int
    running: int
    waiting: int

    def __str__(self) -> str:
        total = sum(self)
        cancelled = f", {self.cancelled} cancelled" if self.cancelled else ""
        return (
            f"{self.done}/{total} done, {self.failed} failed{cancelled}, {self.running} running, {self.waiting} waiting"
        )


if TYPE_CHECKING:

    class Owner(Protocol):
        """The side of a group that its jobs see."""

        def waiting_status(self, job: Job) -> AppStatus:
            """Return the status of a job without a running attempt."""
            ...

        def new_waiter(self) -> asyncio.Future[None]:
            """Return a future for a waiter; raise if it would never be done."""
            ...

        async def cancel_job(self, job: Job) -> None: ...
        async def results_of(self, job: Job) -> Mapping[tuple[str, int], JsonValue] | None: ...
        async def leave_job(self, job: Job) -> None: ...
        def job_lines(self, job: Job, query: LogArguments) -> LogStream: ...


class Job(AsyncOnly):
    """One app of a group. Awaiting it, any number of times, returns its last status; a failure does not raise.

    Used with ``async with``, leaving the block early ends the job. Cancelling ``await job`` does not affect it.

    Attributes:
        name: The job's name, unique in the group.
        index: The job's number in the group.
        app: The app that it runs, a copy of the given one.
        attempts: The handles of its attempts; the last one is `handle`.
        error: The error of its launch, or None.
        timed_out: Whether its last attempt exceeded its timeout.
    """

    # A waiting job is only this object and a place in a queue: ten thousand of them must be cheap.
    __slots__ = (
        "_failures",
        "_is_asked",
        "_last",
        "_owner",
        "_phase",
        "_settings",
        "_waiters",
        "app",
        "attempts",
        "error",
        "index",
        "name",
        "timed_out",
    )

    def __init__(self, owner: Owner, name: str, index: int, app: AppDef, settings: JobSettings | None) -> None:
        self.name = name
        self.index = index
        self.app = app
        self._settings = settings
        self.attempts: tuple[AppHandle, ...] = ()
        self.error: Exception | None = None
        self.timed_out = False
        self._owner = owner
        self._phase = Phase.WAITING
        self._last: AppStatus | None = None
        self._failures = 0
        self._is_asked = False  # to end: no further attempt follows
        self._waiters: dict[asyncio.Future[None], None] | None = None

    @property
    def handle(self) -> AppHandle | None:
        """The handle of its last attempt; None before the first."""
        return self.attempts[-1] if self.attempts else None

    @property
    def status(self) -> AppStatus:
        """Its last known status; before its start, the message says what it waits for."""
        if self._last is not None and (self._phase is Phase.RUNNING or self._phase.is_terminal()):
            return self._last
        return self._owner.waiting_status(self)

    @property
    def state(self) -> AppState:
        """The state in `status`."""
        return self.status.state

    def is_terminal(self) -> bool:
        """Tell whether the job has ended, or will never start."""
        return self._phase.is_terminal()

    def __await__(self) -> Generator[object, None, AppStatus]:
        return self._wait().__await__()

    async def _wait(self) -> AppStatus:
        if not self._phase.is_terminal():
            waiter = self._owner.new_waiter()
            waiters = self._waiters = {} if self._waiters is None else self._waiters
            waiters[waiter] = None
            try:
                await waiter
            finally:
                waiters.pop(waiter, None)
        return self.status

    def raise_for_status(self) -> None:
        """Raise unless the job succeeded.

        Raises:
            AppStatusError: Its `status` is the job's.
        """
        status = self.status
        if status.state is not AppState.SUCCEEDED:
            where = f" ({self.handle})" if self.handle else ""
            from asyncsched.views.endings import why_ended  # imported late: only a job that failed needs it

            reason = why_ended(status)
            why = f"{status.state}{f': {reason}' if reason else ''}"
            if not self.is_terminal():
                what = f"the job {self.name}{where} is not over"
                raise AppStatusError(what, why=why, fix="await it first", status=status)
            raise AppStatusError(f"the job {self.name}{where} did not succeed", why=why, status=status) from self.error

    async def cancel(self) -> None:
        """Cancel the job without waiting for its end; the group continues. Does nothing if the job has ended."""
        await self._owner.cancel_job(self)

    async def results(self) -> Mapping[tuple[str, int], JsonValue] | None:
        """Return what the replicas of its last attempt wrote to ``$ASYNCSCHED_RESULT_FILE``.

        Returns:
            The results by role and replica number; None if it never started, or its scheduler cannot read results.
        """
        return await self._owner.results_of(self)

    def log_lines(self, **query: Unpack[LogArguments]) -> LogStream:
        """Return the log lines of its last attempt; the arguments are those of `Runner.log_lines`.

        Raises:
            UsageError: The job has not been launched.
        """
        return self._owner.job_lines(self, query)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._owner.leave_job(self)

    def __repr__(self) -> str:
        where = f" {self.handle}" if self.handle else ""
        return f"<Job {self.name} {self.state}{where}>"
