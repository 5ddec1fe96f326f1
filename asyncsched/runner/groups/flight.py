"""An attempt that occupies a slot of its group."""

from __future__ import annotations

from asyncsched.clock import TimerHandle
from asyncsched.runner.groups.job import Job
from asyncsched.specs.handle import AppHandle
from asyncsched.specs.state import AppStatus

__all__ = ["Flight"]


class Flight:
    """An attempt that takes up a slot: its app is launched, and has not ended.

    Attributes:
        of: The job that it is of. Where an earlier run has launched it, and it was not started again, this job is not
            one of the group's.
        job: That job, if it follows this attempt: not where it was not started again, or is over since its launch
            failed and left an app.
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
        """Forget its timers."""
        for timer in (self.deadline, self.lost):
            if timer is not None:
                timer.cancel()
        self.deadline = self.lost = None
