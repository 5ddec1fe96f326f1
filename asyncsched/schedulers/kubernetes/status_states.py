"""Map phases and conditions to states, with a total table for each kind of job and for pods."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from asyncsched.schedulers._common.untrusted import Once
from asyncsched.schedulers.kubernetes.status_jobs import JobRecord
from asyncsched.schedulers.kubernetes.status_pods import PodRecord
from asyncsched.specs.state import AppState

__all__ = ["JOB_STATUS", "POD_PHASES", "VOLCANO_PHASES", "is_ending", "job_state", "pod_state", "state_of_phase"]

_once = Once(logging.getLogger("asyncsched.schedulers.kubernetes"))

VOLCANO_PHASES: Mapping[str, AppState] = {
    "": AppState.SUBMITTED,
    "Pending": AppState.PENDING,
    "Aborting": AppState.RUNNING,
    "Aborted": AppState.CANCELLED,
    "Running": AppState.RUNNING,
    "Restarting": AppState.RUNNING,
    "Completing": AppState.RUNNING,
    "Completed": AppState.SUCCEEDED,
    "Terminating": AppState.RUNNING,
    "Terminated": AppState.FAILED,
    "Failed": AppState.FAILED,
}
"""All documented phases of Volcano; a job that its controller has not seen yet has none."""

JOB_STATUS: Mapping[str, AppState] = {
    "Running": AppState.RUNNING,
    "Complete": AppState.SUCCEEDED,
    "Failed": AppState.FAILED,
    "FailureTarget": AppState.RUNNING,
    "SuccessCriteriaMet": AppState.RUNNING,
    "Suspended": AppState.PENDING,
    "Terminating": AppState.RUNNING,
}
"""All values of the column Status in a Job's Table."""

POD_PHASES: Mapping[str, AppState] = {
    "Pending": AppState.PENDING,
    "Running": AppState.RUNNING,
    "Succeeded": AppState.SUCCEEDED,
    "Failed": AppState.FAILED,
    "Unknown": AppState.UNKNOWN,
}
"""All phases of a pod."""


def state_of_phase(table: Mapping[str, AppState], phase: str, what: str) -> AppState:
    """Return the state of a phase; log a phase that is not in the table once, and return UNKNOWN."""
    state = table.get(phase)
    if state is None:
        _once.warn((what, phase), "Kubernetes reported an unknown phase of a %s: %r", what, phase)
        return AppState.UNKNOWN
    return state


def job_state(job: JobRecord) -> AppState:
    """Return the state of a job without regard to its pods."""
    if job.kind == "volcano":
        return state_of_phase(VOLCANO_PHASES, job.phase, "Volcano job")
    if job.condition("Complete"):
        return AppState.SUCCEEDED
    if job.condition("Failed"):
        return AppState.FAILED
    is_left = job.active or job.terminating or job.ready
    if job.suspended and (job.cancelled or job.unscheduled):
        if is_left:
            return AppState.RUNNING
        return AppState.CANCELLED if job.cancelled else AppState.FAILED
    if job.ready or job.succeeded or job.failed or job.condition("FailureTarget"):
        return AppState.RUNNING
    return AppState.PENDING if job.conditions or job.active or job.suspended or job.started_at else AppState.SUBMITTED


def is_ending(job: JobRecord) -> bool:
    """Return whether a job was cancelled."""
    return job.cancelled or job.phase in ("Aborting", "Aborted")


def pod_state(pod: PodRecord) -> AppState:
    """Return the state of a replica by its pod; only the main container counts."""
    container = pod.container
    if container is not None and container.phase == "terminated":
        return AppState.SUCCEEDED if container.exit_code == 0 else AppState.FAILED
    if pod.phase != "Running":
        return state_of_phase(POD_PHASES, pod.phase, "pod")
    return AppState.RUNNING if container is None or container.phase == "running" else AppState.PENDING
