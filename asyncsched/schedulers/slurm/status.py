"""From an app's record, its replicas' files and the cluster's word to states: no I/O."""

from __future__ import annotations

import logging
import signal as signals
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from asyncsched.logs.line import utc
from asyncsched.schedulers._common.roles import read_app_note
from asyncsched.schedulers._common.untrusted import Once, shown, well_formed
from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse
from asyncsched.schedulers.slurm.status_records import AppRecord, Attempt, JobRow, ReplicaRecord
from asyncsched.specs.app import NONE
from asyncsched.specs.handle import make_app_handle
from asyncsched.specs.state import AppState, FailureCause, ReplicaStatus, RoleStatus, combine, find_cause

__all__ = ["Evidence", "alive", "describe_app", "list_row"]

_once = Once(logging.getLogger("asyncsched.schedulers.slurm"))


class _Meaning(NamedTuple):
    state: AppState
    cause: FailureCause | None = None


_WAITS, _RUNS = _Meaning(AppState.PENDING), _Meaning(AppState.RUNNING)
_CANCELLED = _Meaning(AppState.CANCELLED, FailureCause.CANCELLED)


def _failed(cause: FailureCause | None) -> _Meaning:
    return _Meaning(AppState.FAILED, cause)


JOB_STATES: Mapping[str, _Meaning] = {
    "PENDING": _WAITS,
    "CONFIGURING": _WAITS,
    "REQUEUED": _WAITS,
    "REQUEUE_FED": _WAITS,
    "REQUEUE_HOLD": _WAITS,
    "RESV_DEL_HOLD": _WAITS,
    "SPECIAL_EXIT": _WAITS,
    "RUNNING": _RUNS,
    "COMPLETING": _RUNS,
    "RESIZING": _RUNS,
    "SIGNALING": _RUNS,
    "STAGE_OUT": _RUNS,
    "STOPPED": _RUNS,
    "SUSPENDED": _RUNS,
    "COMPLETED": _Meaning(AppState.SUCCEEDED),
    "CANCELLED": _CANCELLED,
    "REVOKED": _CANCELLED,
    "FAILED": _failed(None),
    "LAUNCH_FAILED": _failed(FailureCause.CONFIG),
    "RECONFIG_FAIL": _failed(FailureCause.NODE),
    "BOOT_FAIL": _failed(FailureCause.NODE),
    "NODE_FAIL": _failed(FailureCause.NODE),
    "DEADLINE": _failed(FailureCause.TIMEOUT),
    "TIMEOUT": _failed(FailureCause.TIMEOUT),
    "OUT_OF_MEMORY": _failed(FailureCause.OOM),
    "PREEMPTED": _failed(FailureCause.PREEMPTED),
}
"""What the cluster's states mean; any other is UNKNOWN."""

_LATE = _failed(FailureCause.UNSCHEDULABLE)
"""An app that was ended because it had not run in time."""
LATE = "it did not run within its pending_timeout"

_BEGUN_AGAIN = frozenset({"NODE_FAIL", "PREEMPTED", "BOOT_FAIL"})
"""States from which the cluster starts a job again that was submitted with `requeue`."""

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
    }
)
"""Reasons for which a job does not start before somebody changes it, or the cluster."""

_LOST = "the cluster knows nothing of its job any more, and it has not written down its own end"
_BY_SIGNAL = 128  # a shell's convention: this and the signal's number


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was found of an app, beside its record.

    Attributes:
        job_id: The number of its job; empty before it has one.
        runs: The runs of each replica, in the order of the record.
        is_cancelled: Whether its end was asked for.
        is_late: Whether it was ended because it had not run in time.
        is_cut_off: Whether its submit was cut off before it had a job.
        errors: What replicas have reported by themselves, by their place in the record.
    """

    job_id: str = ""
    runs: Sequence[Sequence[Attempt]] = ()
    is_cancelled: bool = False
    is_late: bool = False
    is_cut_off: bool = False
    errors: Mapping[int, str] = field(default_factory=dict[int, str])


def describe_app(record: AppRecord, found: Evidence, job: JobRow | None) -> DescribeAppResponse:
    """Describe an app.

    Args:
        record: Its record.
        found: What its directory tells.
        job: What the cluster tells of its job; None if it knows nothing of it.
    """
    meaning = _meaning(record, found, job)
    groups: dict[str, list[ReplicaStatus]] = {}
    for place, replica in enumerate(record.replicas):
        runs = found.runs[place] if place < len(found.runs) else ()
        error = found.errors.get(place, NONE)
        groups.setdefault(replica.role, []).append(_replica(replica, runs, meaning, found, job, error))
    replicas = [each for group in groups.values() for each in group]
    state = combine(replicas, cancelled=found.is_cancelled) if meaning is None else meaning.state
    if meaning is None and state is AppState.CANCELLED and all(r.state is AppState.SUCCEEDED for r in replicas):
        state = AppState.SUCCEEDED  # it had ended before it could be cancelled
    roles, metadata = read_app_note(record.note)
    cause = find_cause(state, replicas)
    if state in (AppState.FAILED, AppState.PENDING) and (cause is None or cause is FailureCause.UNKNOWN):
        cause = (meaning.cause if meaning is not None else None) or _cause_of_waiting(state, job) or cause
    first = _first_failed(replicas)
    return DescribeAppResponse(
        app_id=record.app_id,
        state=state,
        num_restarts=job.restarts if job is not None else 0,
        msg=_message(state, first, found, job),
        structured_error_msg=first.structured_error_msg if first is not None else NONE,
        roles_statuses=[RoleStatus(role, group) for role, group in groups.items()],
        roles=roles,
        name=record.name,
        session=record.session,
        created_at=utc(record.created_ns),
        started_at=_started(found),
        finished_at=_finished(state, found, job),
        metadata=metadata,
        cause=cause,
        native_id=found.job_id,
        native=record,
    )


def alive(rows: Iterable[JobRow]) -> dict[str, str]:
    """Return the numbers of the jobs that have not ended, by name; of two of one name, that of the newer."""
    living = (row for row in rows if not JOB_STATES.get(row.state, _RUNS).state.is_terminal())
    return {row.name: row.job_id for row in sorted(living, key=lambda row: int(row.job_id))}


def list_row(app: DescribeAppResponse) -> ListAppResponse:
    """Make an app's row in a list."""
    return ListAppResponse(
        app_id=app.app_id,
        state=app.state,
        app_handle=make_app_handle("slurm", app.session, app.app_id),
        name=app.name,
        session=app.session,
        created_at=app.created_at,
    )


def _meaning(record: AppRecord, found: Evidence, job: JobRow | None) -> _Meaning | None:
    """Return the cluster's verdict; None if it has none."""
    has_ended = bool(found.job_id) if job is None else job.state == "CANCELLED"
    if found.is_late and has_ended and not (found.is_cancelled or any(found.runs)):
        return _LATE
    if job is None:
        if found.job_id:
            return None
        return _failed(FailureCause.UNKNOWN) if found.is_cut_off else _Meaning(AppState.SUBMITTED)
    if record.requeue and job.state in _BEGUN_AGAIN:
        return _WAITS
    meaning = JOB_STATES.get(job.state)
    if meaning is None:
        _once.warn(job.state, "slurm tells a state that is not known here: %s", shown(job.state))
        return _Meaning(AppState.UNKNOWN)
    return meaning


def _replica(
    record: ReplicaRecord,
    runs: Sequence[Attempt],
    meaning: _Meaning | None,
    found: Evidence,
    job: JobRow | None,
    error: str,
) -> ReplicaStatus:
    last = runs[-1] if runs else None
    state, cause, reason = _state(record, runs, meaning, found, job)
    code = last.code if last is not None and state is not AppState.PENDING else None
    return ReplicaStatus(
        id=record.k,
        state=state,
        role=record.role,
        hostname=well_formed(last.node) if last is not None else "",
        structured_error_msg=error if state is AppState.FAILED else NONE,
        exit_code=code,
        signal=_signal(code),
        reason=reason,
        num_restarts=max(len(runs) - 1, 0),
        started_at=None if last is None else utc(last.started_ns),
        finished_at=None if last is None or last.ended_ns is None or not state.is_terminal() else utc(last.ended_ns),
        cause=cause,
    )


def _state(
    record: ReplicaRecord, runs: Sequence[Attempt], meaning: _Meaning | None, found: Evidence, job: JobRow | None
) -> tuple[AppState, FailureCause | None, str]:
    """Return a replica's state, its cause, and the reason in words."""
    code = runs[-1].code if runs else None
    goes_on = meaning is not None and not meaning.state.is_terminal()
    if code == 0 and not (goes_on and meaning is _WAITS):
        return AppState.SUCCEEDED, None, ""
    if goes_on:
        assert meaning is not None
        return _state_of_living(record, runs, meaning, job)
    if meaning is not None and meaning.state is AppState.SUCCEEDED:
        return AppState.SUCCEEDED, None, ""
    is_cancelled = found.is_cancelled if meaning is None else meaning.state is AppState.CANCELLED
    if is_cancelled and (code is None or code > _BY_SIGNAL):
        return AppState.CANCELLED, FailureCause.CANCELLED, "cancelled"
    if meaning is _LATE:
        return AppState.FAILED, _LATE.cause, LATE
    if meaning is not None and meaning.cause is not None and (code is None or code > _BY_SIGNAL):
        return AppState.FAILED, meaning.cause, _words(job) if job is not None else "its submit was cut off"
    if code is None:
        return AppState.FAILED, FailureCause.UNKNOWN, _words(job) if job is not None else _LOST
    return AppState.FAILED, FailureCause.EXIT if _signal(code) is None else FailureCause.SIGNAL, _ending(code)


def _state_of_living(
    record: ReplicaRecord, runs: Sequence[Attempt], meaning: _Meaning, job: JobRow | None
) -> tuple[AppState, FailureCause | None, str]:
    """Return the state of a replica whose job goes on."""
    if not runs or meaning is _WAITS:
        state = AppState.PENDING if meaning.state is AppState.RUNNING else meaning.state
        return state, None, ""
    code = runs[-1].code
    if code is None:
        return AppState.RUNNING, None, ""
    restarts = job.restarts if job is not None else 0
    if len(runs) <= record.retries + restarts:
        return AppState.PENDING, None, f"{_ending(code)}, to be started again"
    return AppState.FAILED, FailureCause.EXIT if _signal(code) is None else FailureCause.SIGNAL, _ending(code)


def _signal(code: int | None) -> int | None:
    return code - _BY_SIGNAL if code is not None and _BY_SIGNAL < code <= _BY_SIGNAL + signals.SIGRTMAX else None


def _ending(code: int) -> str:
    number = _signal(code)
    if number is None:
        return f"exit code {code}"
    try:
        return f"killed by {signals.Signals(number).name}"
    except ValueError:
        return f"killed by signal {number}"


def _words(job: JobRow) -> str:
    """Return why a job ended, in the cluster's words."""
    words = job.state if job.reason in ("", job.state) else f"{job.state} ({job.reason})"
    if job.state != "FAILED":
        return well_formed(words)
    return well_formed(f"{words}: its script ended with {job.signal or job.code}, see batch.log in its directory")


def _first_failed(replicas: Sequence[ReplicaStatus]) -> ReplicaStatus | None:
    """Return the replica whose failure came first, as far as the replicas' own times tell."""
    failed = [each for each in replicas if each.state is AppState.FAILED]
    ends = [(each.finished_at, place) for place, each in enumerate(failed) if each.finished_at is not None]
    return failed[min(ends)[1]] if ends else next(iter(failed), None)


def _message(state: AppState, first: ReplicaStatus | None, found: Evidence, job: JobRow | None) -> str:
    """Say why the app failed, or what it waits for."""
    if state is AppState.CANCELLED:
        return "cancelled"
    if state is AppState.SUBMITTED:
        return "its submit has not been answered yet"
    if state is AppState.FAILED and first is not None:
        return f"{first.role}/{first.id}: {first.reason}"
    if state in (AppState.FAILED, AppState.PENDING, AppState.UNKNOWN) and job is not None:
        return well_formed(job.reason) if state is AppState.PENDING else _words(job)
    return ""


def _cause_of_waiting(state: AppState, job: JobRow | None) -> FailureCause | None:
    if state is not AppState.PENDING or job is None:
        return None
    if job.reason.startswith(_QUOTAS):
        return FailureCause.QUOTA
    return FailureCause.UNSCHEDULABLE if job.reason in _NEVER else None


def _started(found: Evidence) -> datetime | None:
    starts = [run.started_ns for runs in found.runs for run in runs]
    return utc(min(starts)) if starts else None


def _finished(state: AppState, found: Evidence, job: JobRow | None) -> datetime | None:
    if not state.is_terminal():
        return None
    ends = [run.ended_ns for runs in found.runs for run in runs if run.ended_ns is not None]
    latest = max(ends, default=job.ended_ns if job is not None else None)
    return None if latest is None else utc(latest)
