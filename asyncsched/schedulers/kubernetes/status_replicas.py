"""Determine a replica's status from its pod and its job."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Sequence
from dataclasses import dataclass

from asyncsched.schedulers.kubernetes.status_jobs import EventRecord, JobRecord
from asyncsched.schedulers.kubernetes.status_pods import PodRecord, integer
from asyncsched.schedulers.kubernetes.status_reasons import NOTHING, Reason, signal_of, why_failed, why_waiting
from asyncsched.schedulers.kubernetes.status_states import job_state, pod_state
from asyncsched.specs.app import RetryPolicy, Role
from asyncsched.specs.state import AppState, FailureCause, ReplicaStatus

__all__ = ["GIVEN_UP", "NOT_BEGUN", "STOPPED", "Around", "is_in", "replica_status"]

STOPPED = "ended because another replica failed"
"""The reason of a replica that was ended without having failed."""
_DELETED = "it failed again, and Volcano deleted its pod"
NOT_BEGUN = Reason("it did not start within its pending_timeout", FailureCause.UNSCHEDULABLE)
"""The reason of an app and its replicas that were ended by `pending_timeout`."""
GIVEN_UP = Reason(
    "Volcano ended it before all of its pods existed; the cause is no longer known, because a cluster forgets its "
    "events after an hour",
    FailureCause.UNKNOWN,
)
"""The reason if nothing else explains the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What a replica's status depends on besides its pod.

    Attributes:
        jobs: The app's jobs, the first one first.
        app_state: The app's state.
        cancelled: Whether the app was cancelled.
        events: Events of any objects.
        alone: Whether it is the app's only replica.
        never_begun: Why the app was ended before all its pods existed, if it was.
        missing: How many replicas have no pod.
    """

    jobs: Sequence[JobRecord]
    app_state: AppState
    cancelled: bool
    events: Sequence[EventRecord]
    alone: bool
    never_begun: Reason = NOTHING
    missing: int = 0

    def job_of(self, role_index: int) -> JobRecord | None:
        """Return the job that runs a role; None if it does not exist yet."""
        if self.jobs[0].kind == "volcano":
            return self.jobs[0]
        return next((job for job in self.jobs if job.role_index == role_index), None)

    def verdict_of(self, job: JobRecord) -> AppState:
        """Return the state that decides about a job's replicas: the job's, if it is one of several."""
        return self.app_state if len(self.jobs) == 1 or self.app_state.is_terminal() else job_state(job)


def replica_status(role: Role, role_index: int, number: int, pod: PodRecord | None, around: Around) -> ReplicaStatus:
    """Return the status of a replica.

    Args:
        role: Its role.
        role_index: The role's index.
        number: The replica's id.
        pod: Its current pod, if any.
        around: What else the status depends on.
    """
    job = around.job_of(role_index)
    if job is None:
        state = AppState.CANCELLED if around.app_state.is_terminal() else AppState.PENDING
        return ReplicaStatus(
            number, state, role.name, "", cause=FailureCause.CANCELLED if state.is_terminal() else None
        )
    if pod is None:
        return _without_pod(role, number, job, around)
    state = _state(role, pod, job, around)
    reason = _reason(pod, state, around)
    container = pod.container
    ended = container is not None and container.phase == "terminated"
    return ReplicaStatus(
        number,
        state,
        role.name,
        f"{pod.hostname}.{pod.app}" if not around.alone else pod.hostname,
        exit_code=container.exit_code if container is not None else None,
        signal=signal_of(container),
        reason=reason.text,
        num_restarts=_restarts(role, pod, job, around),
        started_at=container.started_at if container is not None else None,
        finished_at=container.finished_at if container is not None and ended else None,
        cause=reason.cause,
    )


def _without_pod(role: Role, number: int, job: JobRecord, around: Around) -> ReplicaStatus:
    state, reason = AppState.PENDING, ""
    cause: FailureCause | None = None
    verdict = around.verdict_of(job)
    if is_in(job.completed_indexes, number) or AppState.SUCCEEDED in (verdict, job_state(job)):
        state = AppState.SUCCEEDED
    elif is_in(job.failed_indexes, number):
        state, reason, cause = AppState.FAILED, "its pod is gone", FailureCause.UNKNOWN
    elif verdict.is_terminal() or _is_ending(job):
        state, cause = AppState.CANCELLED, FailureCause.CANCELLED
        reason = STOPPED if verdict is not AppState.CANCELLED and not around.cancelled else "its pod is gone"
        if around.never_begun is not NOTHING:
            reason, cause = around.never_begun
        elif _was_last_failure(role, job, around):
            state, reason, cause = AppState.FAILED, _DELETED, FailureCause.UNKNOWN
    return ReplicaStatus(number, state, role.name, "", reason=reason, cause=cause)


def _is_ending(job: JobRecord) -> bool:
    """Return whether a job creates no more pods although it has not ended yet."""
    never_begun = job.unscheduled or not (job.started_at or job.phase)
    is_failing = job.condition("FailureTarget") is not None and not never_begun
    return is_failing or job.cancelled or job.phase in ("Aborting", "Aborted")


def _was_last_failure(role: Role, job: JobRecord, around: Around) -> bool:
    """Return whether a replica's pod is gone after its last failure: RestartPod deletes it even then."""
    given_up = job.kind == "volcano" and job.phase == "Failed" and job.retry_count >= job.max_retry > 1
    return given_up and role.max_retries > 0 and around.missing == 1


def _state(role: Role, pod: PodRecord, job: JobRecord, around: Around) -> AppState:
    state = pod_state(pod)
    if state is AppState.SUCCEEDED:
        return state
    verdict = around.verdict_of(job)
    if state is not AppState.FAILED:
        return AppState.CANCELLED if verdict.is_terminal() else state
    if _was_killed(pod) and (around.cancelled or pod.deleted_at is not None):
        # The cluster ended it, for a cancel or because of another replica.
        return AppState.CANCELLED if around.cancelled or verdict.is_terminal() else AppState.PENDING
    return AppState.PENDING if not verdict.is_terminal() and _will_restart(role, pod, job) else AppState.FAILED


def _was_killed(pod: PodRecord) -> bool:
    return pod.container is None or signal_of(pod.container) is not None or pod.container.phase != "terminated"


def _will_restart(role: Role, pod: PodRecord, job: JobRecord) -> bool:
    if role.max_retries <= 0:
        return False
    if job.kind == "volcano":
        counted = job.phase == "Restarting"
        return job.retry_count + (0 if counted else 1) < job.max_retry
    given_up = job.condition("FailureTarget") or job.condition("Failed") or is_in(job.failed_indexes, pod.replica)
    return not given_up and pod.attempt < role.max_retries


def _reason(pod: PodRecord, state: AppState, around: Around) -> Reason:
    failed = pod_state(pod) is AppState.FAILED
    if state is AppState.FAILED:
        return why_failed(pod)
    if state is AppState.PENDING and failed:
        why = why_failed(pod)
        return Reason(f"waiting to restart after {why.text}", why.cause)
    if state is AppState.PENDING:
        return why_waiting(pod, around.events)
    if state is AppState.CANCELLED and around.never_begun is not NOTHING:
        return around.never_begun
    if state is AppState.CANCELLED:
        return Reason("cancelled" if around.cancelled else STOPPED, FailureCause.CANCELLED)
    return NOTHING


def _restarts(role: Role, pod: PodRecord, job: JobRecord, around: Around) -> int | None:
    """Return how often a replica was restarted, if known: Volcano's RestartPod does not count per replica."""
    if job.kind == "job" or role.max_retries <= 0:
        return pod.attempt
    restarts = min(job.retry_count, max(job.max_retry - 1, 0))
    if role.retry_policy is RetryPolicy.APPLICATION or around.alone or restarts == 0:
        return restarts
    return pod.attempt or None


def is_in(indexes: str, number: int) -> bool:
    """Return whether a number is in a Job's list of indexes, such as ``1,3-5``."""
    ranges = _ranges(indexes)
    place = bisect.bisect_right(ranges, number, key=lambda each: each[0])
    return place > 0 and number <= ranges[place - 1][1]


@functools.lru_cache(maxsize=64)  # Called for each replica of a Job.
def _ranges(indexes: str) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for part in indexes.split(",") if indexes else ():
        first, dash, last = part.partition("-")
        start, end = integer(first), integer(last if dash else first)
        if start is not None and end is not None:
            found.append((start, end))
    return tuple(sorted(found))
