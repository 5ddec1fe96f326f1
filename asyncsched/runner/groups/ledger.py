"""The bookkeeping of a group: its jobs and their phases. It never waits."""

from __future__ import annotations

from typing import Protocol

from asyncsched._streams import for_one
from asyncsched.errors import ConfigError
from asyncsched.runner.groups.job import Job, JobCounts, Phase
from asyncsched.runner.groups.settings import check_label
from asyncsched.specs.state import AppStatus

__all__ = ["Ledger"]

_LONGEST_STEM = 80


class Wakeful(Protocol):
    """Something that checks a group again when it is woken."""

    def wake(self) -> None:
        """Look again, in this step."""
        ...


class Ledger:
    """The jobs of a group.

    Attributes:
        jobs: All jobs, in the order in which they were started.
        ended: The ended jobs, in the order in which they ended.
        failed: The failed jobs.
        waiters: Woken at each change, for example steps of streams.
    """

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.ended: list[Job] = []
        self.failed: list[Job] = []
        self.waiters: set[Wakeful] = set()
        self._names: set[str] = set()
        self._counts = dict.fromkeys(Phase, 0)

    def new_name(self, app_name: str, name: str | None) -> str:
        """Return the unique name of a new job; by default its app's name and its number."""
        if name is None:
            number, stem = len(self.jobs), app_name[:_LONGEST_STEM]
            while f"{stem}-{number}" in self._names:  # somebody has given it to a job
                number += 1
            return f"{stem}-{number}"
        check_label("name", name)
        if name in self._names:
            raise ConfigError(f"name must be unique in the group, got {name!r} twice", fix="give each job another name")
        return name

    def add(self, job: Job) -> None:
        """Add a job."""
        self._names.add(job.name)
        self.jobs.append(job)
        self._counts[job._phase] += 1

    def move(self, job: Job, phase: Phase) -> None:
        """Record the phase of a job."""
        self._counts[job._phase] -= 1
        self._counts[phase] += 1
        job._phase = phase

    def end(self, job: Job, phase: Phase, status: AppStatus) -> None:
        """Mark a job as ended, and notify its waiters."""
        job._last = status
        self.move(job, phase)
        self.ended.append(job)
        if phase is Phase.FAILED:
            self.failed.append(job)
        waiters, job._waiters = job._waiters, None
        for waiter in waiters or ():
            if not waiter.done():
                waiter.set_result(None)
        self.wake()

    def fail(self, error: Exception) -> None:
        """Pass an error to the waiters of a job."""
        for job in self.jobs:
            for waiter in job._waiters or ():
                if not waiter.done():
                    waiter.set_exception(for_one(error))
        self.wake()

    def wake(self) -> None:
        """Wake the waiters."""
        for waiter in [*self.waiters]:  # it may leave them
            waiter.wake()

    @property
    def is_idle(self) -> bool:
        """Whether all jobs have ended."""
        return len(self.ended) == len(self.jobs)

    @property
    def counts(self) -> JobCounts:
        """The number of jobs by phase."""
        counts = self._counts
        return JobCounts(
            done=counts[Phase.DONE],
            failed=counts[Phase.FAILED],
            cancelled=counts[Phase.CANCELLED],
            running=counts[Phase.LAUNCHING] + counts[Phase.RUNNING],
            waiting=counts[Phase.WAITING] + counts[Phase.PAUSED],
        )
