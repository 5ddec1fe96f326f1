"""Compute states from an app's record, its replicas' files and the cluster's rows: no I/O."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from asyncsched._typing import NamedTuple
from asyncsched.logs.line import utc
from asyncsched.schedulers._common.app_notes import read_app_note
from asyncsched.schedulers._common.exit_codes import BY_SIGNAL, cause_of_code, signal_name, signal_of
from asyncsched.schedulers._common.untrusted import Once, shown, well_formed
from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse
from asyncsched.schedulers.slurm.names import NOT_OURS
from asyncsched.schedulers.slurm.status_records import (
    OVER_MEMORY,
    PROLOG_FAILED,
    JobRow,
    ReplicaRun,
    SlurmAppRecord,
    SlurmReplicaRecord,
)
from asyncsched.specs.app import NONE
from asyncsched.specs.handle import make_app_handle
from asyncsched.specs.state import AppState, FailureCause, ReplicaStatus, RoleStatus, combine, find_cause

__all__ = ["Evidence", "alive", "describe_app", "is_over", "list_row", "newest"]

_once = Once(logging.getLogger("asyncsched.schedulers.slurm"))


class _Verdict(NamedTuple):
    """An app's state, as far as its replicas' own files do not decide it.

    Attributes:
        state: The state.
        cause: Why it failed, or waits.
        reason: The same in words.
        is_told: Whether the cluster reports it; otherwise the replicas' own ends decide.
    """

    state: AppState
    cause: FailureCause | None = None
    reason: str = ""
    is_told: bool = True


JOB_STATES: Mapping[str, tuple[AppState, FailureCause | None]] = {
    name: (state, cause)
    for state, cause, named in (
        (AppState.PENDING, None, "PENDING CONFIGURING REQUEUED REQUEUE_FED REQUEUE_HOLD RESV_DEL_HOLD SPECIAL_EXIT"),
        (AppState.RUNNING, None, "RUNNING COMPLETING RESIZING SIGNALING STAGE_OUT STOPPED SUSPENDED"),
        (AppState.SUCCEEDED, None, "COMPLETED"),
        (AppState.CANCELLED, FailureCause.CANCELLED, "CANCELLED REVOKED"),
        (AppState.FAILED, FailureCause.UNKNOWN, "FAILED"),
        (AppState.FAILED, FailureCause.CONFIG, "LAUNCH_FAILED"),
        (AppState.FAILED, FailureCause.NODE, "RECONFIG_FAIL BOOT_FAIL NODE_FAIL"),
        (AppState.FAILED, FailureCause.TIMEOUT, "DEADLINE TIMEOUT"),
        (AppState.FAILED, FailureCause.OOM, "OUT_OF_MEMORY"),
        (AppState.FAILED, FailureCause.PREEMPTED, "PREEMPTED"),
    )
    for name in named.split()
}
"""The meaning of the cluster's states; any other is UNKNOWN."""

_BEGUN_AGAIN = frozenset({"NODE_FAIL", "PREEMPTED", "BOOT_FAIL"})
"""States after which the cluster restarts a job that was submitted with `requeue`."""

_QUOTAS = ("QOS", "Assoc")
_NEVER = frozenset(
    {
        "PartitionConfig",
        "PartitionNodeLimit",
        "PartitionTimeLimit",
        "BadConstraints",
        "ReqNodeNotAvail",
        "PartitionDown",
        "PartitionInactive",
        "DependencyNeverSatisfied",
        "InvalidAccount",
        "InvalidQOS",
        "launch failed requeued held",
    }
)
"""Reasons for which a job does not start until its owner or an administrator changes something."""

_BY_ITSELF = "DependencyNeverSatisfied"
"""The reason for which the cluster itself cancels a job, with `--kill-on-invalid-dep=yes`."""

_LOST = "the cluster no longer knows its job, and it has not recorded its own end"

_BARE = "its directory has lost its replicas' records, and the cluster no longer has a job of its name"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of an app, in addition to its record.

    Attributes:
        job_id: The number of its job; empty before it has one.
        runs: The runs of each replica, in the order of the record.
        is_cancelled: Whether its end was requested.
        is_late: Whether it was ended because it had not run in time.
        is_cut_off: Whether its submit was cut off before it had a job.
        is_bare: Whether the directory with its job's number and its replicas' runs is gone.
        errors: The errors that replicas have reported themselves, by their index in the record.
        log: The last line of the job's script, or of its node, unless the cluster reports success.
        silence: Why the accounts could not be asked about a job that the cluster has forgotten.
        begun: How often the cluster had restarted its job when the job last began.
        before: The reason if its job's script ends now, as long as no replica may start.
    """

    job_id: str = ""
    runs: Sequence[Sequence[ReplicaRun]] = ()
    is_cancelled: bool = False
    is_late: bool = False
    is_cut_off: bool = False
    is_bare: bool = False
    errors: Mapping[int, str] = field(default_factory=dict[int, str])
    log: str = ""
    silence: str = ""
    begun: int = 0
    before: str = ""


def describe_app(record: SlurmAppRecord, found: Evidence, job: JobRow | None) -> DescribeAppResponse:
    """Describe an app.

    Args:
        record: Its record.
        found: What is in its directory.
        job: The cluster's row for its job; None if it has none.
    """
    if job is not None and job.is_past and _is_alive(job.state):
        job = None  # the controller knows better: the accounts may learn of the end later, or never
    verdict = _without_row(found) if is_over(found) else _verdict(record, found, job)
    restarts = job.restarts if job is not None else 0
    is_next_round = any(runs and runs[-1].round.endswith("+") for runs in found.runs)
    groups: dict[str, list[ReplicaStatus]] = {}
    for place, replica in enumerate(record.replicas):
        runs = found.runs[place] if place < len(found.runs) else ()
        error = found.errors.get(place, NONE)
        groups.setdefault(replica.role, []).append(_replica(replica, runs, verdict, is_next_round, error))
    replicas = [each for group in groups.values() for each in group]
    state = verdict.state if verdict.is_told else _combined(replicas, found)
    roles, metadata = read_app_note(record.note)
    first = _first_failed(replicas)
    cause = find_cause(state, replicas if first is None else [first, *replicas])
    if state in (AppState.FAILED, AppState.PENDING) and cause in (None, FailureCause.UNKNOWN):
        cause = verdict.cause or cause
    msg = verdict.reason if state is verdict.state else ""
    return DescribeAppResponse(
        app_id=record.app_id,
        state=state,
        num_restarts=restarts,
        msg=f"{first.role}/{first.id}: {first.reason}" if state is AppState.FAILED and first is not None else msg,
        structured_error_msg=first.structured_error_msg if first is not None else NONE,
        roles_statuses=[RoleStatus(role, group) for role, group in groups.items()],
        roles=roles,
        name=record.name,
        session=record.session,
        created_at=utc(record.created_ns) if record.created_ns else None,
        started_at=_started(found),
        finished_at=_finished(state, found, job),
        metadata=metadata,
        cause=cause,
        native_id=found.job_id,
        native=record,
    )


def alive(rows: Iterable[JobRow]) -> dict[str, str]:
    """Return the numbers of the jobs that have not ended, by name; of two with one name, the newer."""
    return newest(row for row in rows if _is_alive(row.state) or row.state not in JOB_STATES)


def newest(rows: Iterable[JobRow]) -> dict[str, str]:
    """Return the numbers of jobs by name; of two with one name, the newer."""
    return {row.name: row.job_id for row in sorted(rows, key=lambda row: int(row.job_id))}


def list_row(app: DescribeAppResponse) -> ListAppResponse:
    """Return an app's row in a list."""
    return ListAppResponse(
        app_id=app.app_id,
        state=app.state,
        app_handle=make_app_handle("slurm", app.session, app.app_id),
        name=app.name,
        session=app.session,
        created_at=app.created_at,
        native_id=app.native_id,
    )


def _is_alive(state: str) -> bool:
    return state in JOB_STATES and not JOB_STATES[state][0].is_terminal()


def is_over(found: Evidence) -> bool:
    """Return whether the replicas' own ends decide, whatever the cluster says about the job now or later.

    A controller that was killed may believe that an ended job runs, or that its node failed. Replicas that were asked
    to end, or were killed, do not know why: the cluster does, unless their end was requested here.
    """
    ends = [runs[-1] if runs else None for runs in found.runs]
    rounds = {None if end is None or end.code is None else end.round.rstrip("-") for end in ends}
    if len(rounds) != 1 or (round_ := rounds.pop()) is None or not round_ or round_.endswith("+"):
        return False
    return found.is_cancelled or all(
        end is not None and not end.round.endswith("-") and (end.code or 0) <= BY_SIGNAL for end in ends
    )


def _verdict(record: SlurmAppRecord, found: Evidence, job: JobRow | None) -> _Verdict:
    is_taken = bool(found.job_id) if job is None else job.state == "CANCELLED"
    has_ended = is_taken or (job is not None and job.state in ("COMPLETED", "FAILED"))
    if has_ended and not found.is_cancelled:
        if is_taken and found.is_late and not any(found.runs):
            return _Verdict(AppState.FAILED, FailureCause.UNSCHEDULABLE, "it did not run within its pending_timeout")
        if is_taken and any(words in found.log for words in PROLOG_FAILED):
            return _Verdict(AppState.FAILED, FailureCause.NODE, f"a node could not prepare for it: {found.log}")
        if found.before and (job is None or not is_taken):
            words = well_formed(": ".join(filter(None, (f"{found.before}, so no replica was started", found.log))))
            return _Verdict(AppState.FAILED, FailureCause.CONFIG, words)
    return _without_row(found) if job is None else _of_the_cluster(record, found, job)


def _without_row(found: Evidence) -> _Verdict:
    """Return the state of an app if the cluster has no row for its job."""
    if not found.job_id and found.is_bare:
        return _Verdict(AppState.UNKNOWN, None, _BARE)
    if not found.job_id and found.is_cut_off:
        return _Verdict(AppState.FAILED, FailureCause.UNKNOWN, "its submit was cut off")
    if not found.job_id:
        return _Verdict(AppState.SUBMITTED, None, "its submit has not been answered yet")
    if found.is_cancelled:
        return _Verdict(AppState.CANCELLED, FailureCause.CANCELLED, "cancelled", is_told=False)
    if found.silence:
        return _Verdict(AppState.UNKNOWN, None, found.silence, is_told=False)
    return _Verdict(AppState.FAILED, FailureCause.UNKNOWN, _LOST, is_told=False)


def _of_the_cluster(record: SlurmAppRecord, found: Evidence, job: JobRow) -> _Verdict:
    if job.state not in JOB_STATES:
        _once.warn(job.state, "slurm reports an unknown state: %s", shown(job.state))
    state, cause = JOB_STATES.get(job.state, (AppState.UNKNOWN, None))
    if job.state == "FAILED" and OVER_MEMORY in found.log:
        cause = FailureCause.OOM
    elif job.state == "FAILED" and (_is_unstarted(job, found) or found.log.endswith(NOT_OURS)):
        cause = FailureCause.CONFIG
    is_begun_again = job.state in _BEGUN_AGAIN and job.restarts > found.begun and not job.is_past
    if state is AppState.PENDING or (record.requeue and is_begun_again):
        return _waiting(record, job)
    if state is AppState.CANCELLED:
        is_by_itself = job.reason == _BY_ITSELF and not found.is_cancelled
        return _Verdict(state, cause, f"cancelled: {_BY_ITSELF}" if is_by_itself else "cancelled")
    return _Verdict(state, cause, _words(job, found) if state in (AppState.FAILED, AppState.UNKNOWN) else "")


def _waiting(record: SlurmAppRecord, job: JobRow) -> _Verdict:
    """Return what a job waits for: Slurm's reason, or that its several components each need nodes."""
    cause = FailureCause.UNSCHEDULABLE if job.reason in _NEVER else None
    cause = FailureCause.QUOTA if job.reason.startswith(_QUOTAS) else cause
    reason = well_formed(job.reason)
    if job.reason == "Resources" and record.components > 1:
        reason = f"Resources: its {record.components} components each need their own nodes, all at once"
    return _Verdict(AppState.PENDING, cause, reason)


def _combined(replicas: Sequence[ReplicaStatus], found: Evidence) -> AppState:
    """Return the state of an app from its replicas, if the cluster has no row for its job."""
    states = {replica.state for replica in replicas}
    if AppState.UNKNOWN in states:
        return AppState.UNKNOWN
    # It may have ended before the cancellation.
    return combine(states, cancelled=found.is_cancelled and states != {AppState.SUCCEEDED})


def _replica(
    record: SlurmReplicaRecord, runs: Sequence[ReplicaRun], verdict: _Verdict, is_next_round: bool, error: str
) -> ReplicaStatus:
    last = runs[-1] if runs else None
    state, cause, reason = _state(last, verdict, is_next_round)
    code = last.code if last is not None and state is not AppState.PENDING else None
    code = None if code and state is AppState.SUCCEEDED else code  # of an earlier run, if the last is not recorded
    return ReplicaStatus(
        id=record.k,
        state=state,
        role=record.role,
        hostname=well_formed(last.node) if last is not None else "",
        structured_error_msg=error if state is AppState.FAILED else NONE,
        exit_code=code,
        signal=signal_of(code),
        reason=reason,
        num_restarts=max(len(runs) - 1, 0),
        started_at=None if last is None else utc(last.started_ns),
        finished_at=None if last is None or last.ended_ns is None or not state.is_terminal() else utc(last.ended_ns),
        cause=cause,
    )


def _state(
    last: ReplicaRun | None, verdict: _Verdict, is_next_round: bool
) -> tuple[AppState, FailureCause | None, str]:
    """Return a replica's state, its cause, and the reason in words."""
    code = last.code if last is not None else None
    goes_on = verdict.is_told and not verdict.state.is_terminal()
    waits = goes_on and verdict.state is AppState.PENDING
    if (code == 0 and not waits) or verdict.state is AppState.SUCCEEDED:
        return AppState.SUCCEEDED, None, ""
    if waits or (goes_on and last is None):
        return AppState.PENDING if verdict.state is AppState.RUNNING else verdict.state, None, ""
    if goes_on and code is None:
        return AppState.RUNNING, None, ""
    if (
        last is None
        or code is None
        or (code > BY_SIGNAL and not goes_on and verdict.cause not in (None, FailureCause.UNKNOWN))
    ):
        return verdict[:3]
    number = signal_of(code)
    ending = f"exit code {code}" if number is None else f"killed by {signal_name(number)}"
    if goes_on and (is_next_round or not last.round):
        return AppState.PENDING, None, f"{ending}, to be started again"
    if last.is_nowhere:
        return AppState.FAILED, FailureCause.CONFIG, f"{ending}: the directory to start in is missing on its node"
    return AppState.FAILED, cause_of_code(code), ending


def _is_unstarted(job: JobRow, found: Evidence) -> bool:
    """Return whether a job's script was not started; Slurm uses the same word for one that was killed."""
    return job.reason == "JobLaunchFailure" and not found.log


def _words(job: JobRow, found: Evidence) -> str:
    """Return why a job ended, with Slurm's reason."""
    words = job.state if job.reason in ("", job.state) else f"{job.state} ({job.reason})"
    if _is_unstarted(job, found):
        words += ": its node could not start its script: check whether the nodes share its directory"
    elif job.state == "FAILED":
        words += f": its script ended with {job.signal or job.code}: {found.log or 'its batch.log is empty'}"
    return well_formed(words)


def _first_failed(replicas: Sequence[ReplicaStatus]) -> ReplicaStatus | None:
    """Return the replica that failed first, by the replicas' own times."""
    failed = [each for each in replicas if each.state is AppState.FAILED]
    ends = [(each.finished_at, place) for place, each in enumerate(failed) if each.finished_at is not None]
    return failed[min(ends)[1]] if ends else next(iter(failed), None)


def _started(found: Evidence) -> datetime | None:
    starts = [run.started_ns for runs in found.runs for run in runs]
    return utc(min(starts)) if starts else None


def _finished(state: AppState, found: Evidence, job: JobRow | None) -> datetime | None:
    if not state.is_terminal():
        return None
    ends = [run.ended_ns for runs in found.runs for run in runs if run.ended_ns is not None]
    latest = max(ends, default=job.ended_ns if job is not None else None)
    return None if latest is None else utc(latest)
