"""What an attempt's end means for its job: pure."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from asyncsched.specs.state import AppState, AppStatus, FailureCause

__all__ = ["End", "JobCounts", "Verdict", "counts", "judge"]


class End(Enum):
    """What comes after an attempt."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """A failure that trying again would not help."""
    AGAIN = "again"
    """A failure that `retries` are for."""
    PREEMPTED = "preempted"
    """It lost its host: it is started again, and that does not count."""
    CANCELLED = "cancelled"
    """Ended because the group, or the job's owner, asked for it."""


class Verdict(NamedTuple):
    """How an attempt has ended.

    Attributes:
        end: What comes after it.
        status: Its status, as the job's owner sees it.
        timed_out: Whether it ran longer than it was allowed to.
    """

    end: End
    status: AppStatus
    timed_out: bool = False


class JobCounts(NamedTuple):
    """How many jobs of a group are where; they sum to its number of jobs.

    Attributes:
        done: Succeeded.
        failed: Failed for good.
        cancelled: Ended, or never started, because the group was.
        running: Launched, or being launched.
        waiting: Waiting for a slot, or to be started again.
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


def counts(status: AppStatus) -> bool:
    """Tell whether an attempt that has ended so is one of those that `retries` are for."""
    return status.state is AppState.FAILED and status.cause is not FailureCause.PREEMPTED


def judge(status: AppStatus, *, gone: bool, asked: bool, late: float | None) -> Verdict:
    """Judge the end of an attempt.

    Args:
        status: Its last status.
        gone: Whether its scheduler does not know it any more.
        asked: Whether the group, or the job's owner, has asked for its end.
        late: The time limit in seconds, if it ran longer and was ended for that.
    """
    state = status.state
    if state is AppState.SUCCEEDED:
        return Verdict(End.SUCCEEDED, status)
    if late is not None and not asked:
        why = f"it ran longer than its timeout of {late:g} s"
        told = replace(status, state=AppState.FAILED, msg=why, cause=FailureCause.TIMEOUT)
        return Verdict(End.AGAIN, told, timed_out=True)
    if asked and state is not AppState.FAILED:
        return Verdict(End.CANCELLED, status if state.is_terminal() else replace(status, state=AppState.CANCELLED))
    if state is AppState.FAILED:
        timed_out = status.cause is FailureCause.TIMEOUT
        end = End.PREEMPTED if status.cause is FailureCause.PREEMPTED else End.AGAIN
        return Verdict(end, status, timed_out)
    return Verdict(End.FAILED, status)
