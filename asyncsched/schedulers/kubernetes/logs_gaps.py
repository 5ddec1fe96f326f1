"""Explain missing lines, and make some refusals retryable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from asyncsched.errors import SchedulerError, UnavailableError
from asyncsched.schedulers.kubernetes.errors import BACKEND
from asyncsched.schedulers.kubernetes.status_replicas import STOPPED
from asyncsched.specs.state import AppState, FailureCause

if TYPE_CHECKING:
    from asyncsched.schedulers.kubernetes.logs_runs import Lost, Run
    from asyncsched.specs.state import ReplicaStatus

__all__ = ["NEVER_BEGUN", "ROTATED", "once_more", "why_broken", "why_lost", "why_missing"]

ROTATED = (
    "the log was rotated while it was not being read, and a node serves only the newest file of a log: lines written "
    "to the previous file after the last line that was read, if any, are lost"
)
"""The reason of a gap where the last line that was read is not sent again.

A rotation before the first read cannot be detected. A program may write its first line at any time, so comparing that
line's time with the container's `startedAt` proves nothing; a kubelet sends the newest file as if it were the whole
log; `limitBytes`, `sinceTime` and `tailLines` apply to that file too; and the pod's status has no log size. A gap at
each late read would nearly always be false.
"""
NEVER_BEGUN = frozenset({FailureCause.CONFIG, FailureCause.IMAGE, FailureCause.QUOTA, FailureCause.UNSCHEDULABLE})
"""Causes that mean that the program of a replica without a pod never ran, so no lines can be missing."""


def why_lost(lost: Lost, attempts: Sequence[int]) -> str:
    """Return why unread attempts can no longer be read."""
    which = f"attempt {attempts[0]}" if len(attempts) == 1 else f"the attempts {attempts[0]} to {attempts[-1]}"
    if lost.why == "deleted":
        return f"the pod of {which} was deleted before its log was read, and the log with it"
    return f"the node keeps only the last two runs of a container, and {which} came earlier"


def why_missing(status: ReplicaStatus) -> str:
    """Return why the log of an ended replica cannot be read."""
    if status.state is not AppState.CANCELLED:
        return "the pod was deleted, and its log with it"
    why = "after another replica failed" if status.reason == STOPPED else "when the app was cancelled"
    return f"the pod was deleted {why}, and its log, if any, with it"


def why_broken(run: Run, *, begun: bool) -> str:
    """Return why the log of a run cannot be read to its end."""
    what = "the rest of its log" if begun else "its log"
    if run.gone:
        return f"the pod {run.pod.name} was deleted before {what} was read, and the log with it"
    return f"the node has removed the container of {run.pod.name} before {what} was read"


def once_more(error: SchedulerError) -> SchedulerError:
    """Return a retryable error for a refusal that will pass."""
    again = UnavailableError("the log cannot be read now", why=error.why, backend=BACKEND, operation="log_iter")
    again.__cause__ = error.__cause__
    return again
