"""What the end of an attempt means for its job: pure functions."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from asyncsched._typing import NamedTuple
from asyncsched.specs.state import AppState, AppStatus, FailureCause

__all__ = ["End", "Verdict", "counts", "judge"]


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
    """The outcome of an attempt.

    Attributes:
        end: What comes after it.
        status: Its status, as the job's user sees it.
        timed_out: Whether it exceeded its timeout.
    """

    end: End
    status: AppStatus
    timed_out: bool = False


def counts(status: AppStatus) -> bool:
    """Tell whether an attempt with this end counts towards `retries`."""
    return status.state is AppState.FAILED and status.cause is not FailureCause.PREEMPTED


def judge(status: AppStatus, *, gone: bool, asked: bool, late: float | None) -> Verdict:
    """Return what follows from the end of an attempt.

    Args:
        status: Its last status.
        gone: Whether its scheduler no longer knows it.
        asked: Whether the group or the user cancelled it.
        late: The time limit in seconds, if it was ended for exceeding it.
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
