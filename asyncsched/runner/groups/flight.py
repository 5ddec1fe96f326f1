"""An attempt that occupies a slot of its group."""

from __future__ import annotations

from asyncsched.clock import TimerHandle
from asyncsched.runner.groups.job import Job
from asyncsched.specs.handle import AppHandle
from asyncsched.specs.state import AppStatus

__all__ = ["Flight"]


class Flight:
    """An attempt that occupies a slot: its app was launched and has not ended.

    Attributes:
        of: The job that it belongs to. A job of an earlier run that was not started again is not one of the group's.
        job: That job, if it follows this attempt; None if it was not started again, or ended because its launch failed
            and left an app.
    """

    __slots__ = ("asked", "attempt", "deadline", "handle", "job", "late", "lost", "of", "status")

    def __init__(self, handle: AppHandle, of: Job, attempt: int) -> None:
        self.handle = handle
        self.of = of
        self.job: Job | None = None
        self.attempt = attempt
        self.deadline: TimerHandle | None = None
        self.lost: TimerHandle | None = None
        self.late: float | None = None
        self.asked = False  # for its end
        self.status: AppStatus | None = None

    def rest(self) -> None:
        """Cancel its timers."""
        for timer in (self.deadline, self.lost):
            if timer is not None:
                timer.cancel()
        self.deadline = self.lost = None
