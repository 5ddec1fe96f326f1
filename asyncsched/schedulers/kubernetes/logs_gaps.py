"""What is said where lines are missing, and of refusals that are worth another try."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from asyncsched.errors import NotFoundError, SchedulerError, UnavailableError
from asyncsched.schedulers.kubernetes.errors import BACKEND
from asyncsched.schedulers.kubernetes.status_replicas import STOPPED
from asyncsched.specs.state import AppState, FailureCause

if TYPE_CHECKING:
    from asyncsched.schedulers.kubernetes.logs_runs import Lost, Run
    from asyncsched.specs.state import ReplicaStatus

__all__ = ["NEVER_BEGUN", "ROTATED", "once_more", "why_broken", "why_lost", "why_missing"]

ROTATED = (
    "the log was rotated while it was not being read, and a node serves the newest file of a log only: what was "
    "written to the file before it behind the last line that was read, if anything, is lost"
)
"""Why lines may be missing where the last one that was read did not come again.

Nothing tells it of a log that was rotated before its first read. A program may write its first line as late as it
likes, so that the time of the first line that comes proves nothing beside the container's `startedAt`; a kubelet sends
what is in the newest file as if it were all, with no word of others; `limitBytes`, `sinceTime` and `tailLines` count in
that file, too; and no size of a log stands in the pod's status. A gap at each late read would nearly always be false.
"""
NEVER_BEGUN = frozenset({FailureCause.CONFIG, FailureCause.IMAGE, FailureCause.QUOTA, FailureCause.UNSCHEDULABLE})
"""Why a replica without a pod has ended whose program has never run: nothing of it can be missing."""


def why_lost(lost: Lost, attempts: Sequence[int]) -> str:
    """Return why attempts that nobody has read cannot be read any more."""
    which = f"attempt {attempts[0]}" if len(attempts) == 1 else f"the attempts {attempts[0]} to {attempts[-1]}"
    if lost.why == "deleted":
        return f"the pod of {which} was deleted before its log was read, and the log with it"
    return f"the node keeps the last two runs of a container, and {which} came before them"


def why_missing(status: ReplicaStatus) -> str:
    """Return why there is nothing to read of a replica that has ended."""
    if status.state is not AppState.CANCELLED:
        return "the pod was deleted meanwhile, and its log with it"
    why = "when another replica had failed" if status.reason == STOPPED else "when the app was cancelled"
    return f"the pod was deleted {why}, and what it had written, if anything, with it"


def why_broken(run: Run, *, begun: bool) -> str:
    """Return why a run cannot be read to its end."""
    what = "the rest of its log" if begun else "its log"
    if run.gone:
        return f"the pod {run.pod.name} was deleted before {what} was read, and the log with it"
    return f"the node has removed the container of {run.pod.name} before {what} was read"


def once_more(error: SchedulerError) -> SchedulerError:
    """Return a refusal as one that is worth another try."""
    if not isinstance(error, NotFoundError):
        return error
    again = UnavailableError("the log cannot be read now", why=error.why, backend=BACKEND, operation="log_iter")
    again.__cause__ = error.__cause__
    return again
