"""Convert a job of Google Cloud Batch to the description of an app, without I/O."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import cast

from asyncsched.schedulers._common.roles import role_of_command
from asyncsched.schedulers._common.untrusted import Once, well_formed
from asyncsched.schedulers.gcp_batch.errors import BACKEND
from asyncsched.schedulers.gcp_batch.names import DIGEST_LABEL, OURS_LABEL, REQUEST_LABEL, GCPJobRef
from asyncsched.schedulers.gcp_batch.names_note import NOTE_ENV, AppNote, read_note
from asyncsched.schedulers.gcp_batch.status_causes import cause_of
from asyncsched.schedulers.gcp_batch.status_rows import (
    Row,
    counts_of,
    environment_of,
    last_event,
    part,
    program_of,
    status_events,
    task_count,
    text,
    time_of,
)
from asyncsched.schedulers.gcp_batch.status_tasks import replicas_of, task_state
from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse
from asyncsched.specs.app import Role
from asyncsched.specs.handle import make_app_handle
from asyncsched.specs.not_kept import NOT_KEPT, NotKept
from asyncsched.specs.secret import Secret
from asyncsched.specs.secret_ref import SecretRef
from asyncsched.specs.state import AppState, FailureCause, ReplicaStatus, RoleStatus, find_cause

__all__ = [
    "JOB_STATES",
    "describe_app",
    "digest_of",
    "is_deleted",
    "is_ours",
    "job_state",
    "list_row",
    "note_of",
    "request_of",
    "role_name",
]

_once = Once(logging.getLogger("asyncsched.schedulers.gcp_batch"))

JOB_STATES: Mapping[str, AppState] = {
    "STATE_UNSPECIFIED": AppState.UNKNOWN,
    "QUEUED": AppState.SUBMITTED,
    "SCHEDULED": AppState.PENDING,
    "RUNNING": AppState.RUNNING,
    "SUCCEEDED": AppState.SUCCEEDED,
    "FAILED": AppState.FAILED,
    "DELETION_IN_PROGRESS": AppState.RUNNING,
    "CANCELLATION_IN_PROGRESS": AppState.RUNNING,
    "CANCELLED": AppState.CANCELLED,
}

_ON_ITS_WAY: Mapping[str, str] = {
    "DELETION_IN_PROGRESS": "it is being deleted",
    "CANCELLATION_IN_PROGRESS": "it is being cancelled",
}
_ENDED_TASKS = frozenset({"SUCCEEDED", "FAILED", "UNEXECUTED"})
_FROM = re.compile(r"from (\w+) to DELETION_IN_PROGRESS")

LATE = "it did not start within its pending_timeout of {:g} s"


def _state_name(row: Row) -> str:
    return text(part(row, "status"), "state") or "STATE_UNSPECIFIED"


def job_state(row: Row) -> AppState:
    """Return the state of a job.

    A job that is queued because of a quota or lack of capacity is PENDING: Batch has already considered it.
    """
    name = _state_name(row)
    state = JOB_STATES.get(name)
    if state is None:
        _once.warn(name, "Google Cloud Batch reported an unknown state of a job: %s", name)
        return AppState.UNKNOWN
    if state is AppState.CANCELLED and _was_late(row):
        return AppState.FAILED
    if state is AppState.SUBMITTED and cause_of(state, next(_events_of_trouble(row), "")) is not None:
        return AppState.PENDING
    return state


def is_ours(row: Row) -> bool:
    """Return whether a job was submitted by asyncsched."""
    return OURS_LABEL in part(row, "labels")


def digest_of(row: Row) -> str:
    """Return the digest of the request, as far as a label can hold it."""
    return text(part(row, "labels"), DIGEST_LABEL)


def request_of(row: Row) -> str:
    """Return the id of the request that created a job, as far as a label can hold it."""
    return text(part(row, "labels"), REQUEST_LABEL)


def note_of(row: Row) -> AppNote:
    """Return the note in a job."""
    return read_note(text(row, "name"), environment_of(row).get(NOTE_ENV))


def is_deleted(row: Row) -> bool:
    """Return whether a job that had ended is being deleted, which takes Google a while; it counts as gone."""
    if _state_name(row) != "DELETION_IN_PROGRESS":
        return False
    before = next(
        (found[1] for event in reversed(status_events(row)) if (found := _FROM.search(text(event, "description")))), ""
    )
    if before:
        return JOB_STATES.get(before, AppState.UNKNOWN).is_terminal()
    counts = counts_of(row)
    return bool(counts) and not counts.keys() - _ENDED_TASKS


def _was_late(row: Row) -> bool:
    """Return whether a job was cancelled after its `pending_timeout` without having run.

    Google stores no reason for a cancel. A job that never ran and was cancelled after that time has exceeded it,
    whoever cancelled it.
    """
    limit = note_of(row).pending_timeout
    created, ended = time_of(row.get("createTime")), _cancelled_at(row)
    if limit is None or created is None or ended is None or _first_run(row) is not None:
        return False
    return not counts_of(row).keys() - {"PENDING", "ASSIGNED", "UNEXECUTED"} and (
        (ended - created).total_seconds() >= limit
    )


def _cancelled_at(row: Row) -> datetime | None:
    for event in status_events(row):
        if "CANCELLATION_IN_PROGRESS" in text(event, "description") or "CANCELLED" in text(event, "description"):
            return time_of(event.get("eventTime"))
    return None


def _first_run(row: Row) -> datetime | None:
    """Return when a job first ran on a VM."""
    events = (e for e in status_events(row) if re.search(r"to RUNNING\b", text(e, "description")))
    return next((time_of(event.get("eventTime")) for event in events), None)


def describe_app(ref: GCPJobRef, row: Row, tasks: Sequence[Row] = ()) -> DescribeAppResponse:
    """Describe an app.

    Args:
        ref: The name of its job.
        row: The job.
        tasks: The tasks that were read.
    """
    state, note = job_state(row), note_of(row)
    message = _message(row, state, note)
    role, cancelled = role_name(row), state is AppState.CANCELLED
    why = message if state in (AppState.FAILED, AppState.PENDING, AppState.SUBMITTED) else ""
    replicas = replicas_of(role, task_count(row), tasks, _unread(row, state, tasks), cancelled=cancelled, why=why)
    cause = FailureCause.UNSCHEDULABLE if _is_late(row, state) else cause_of(state, message)
    if cause is FailureCause.UNSCHEDULABLE and state is AppState.FAILED:
        for replica in replicas:
            replica.state, replica.cause = AppState.FAILED, cause
    if state is AppState.FAILED and (of_replicas := find_cause(state, replicas)) not in (None, FailureCause.UNKNOWN):
        cause = of_replicas
    return DescribeAppResponse(
        app_id=ref.app_id,
        state=state,
        num_restarts=max((replica.num_restarts or 0 for replica in replicas), default=0),
        msg=message or _first_reason(state, replicas),
        ui_url=_console(ref),
        roles_statuses=[RoleStatus(role, replicas)],
        roles=[_role(row, role, note)],
        name=note.name or well_formed(ref.name),
        session=note.session,
        created_at=time_of(row.get("createTime")),
        started_at=_first_run(row) if state.is_started() else None,
        finished_at=_finished(row) if state.is_terminal() else None,
        metadata=note.metadata,
        cause=cause,
        native_id=text(row, "uid"),
    )


def list_row(ref: GCPJobRef, row: Row) -> ListAppResponse:
    """Return the list row of an app."""
    note = note_of(row)
    return ListAppResponse(
        ref.app_id,
        job_state(row),
        make_app_handle(BACKEND, note.session, ref.app_id),
        name=note.name or well_formed(ref.name),
        session=note.session,
        created_at=time_of(row.get("createTime")),
        native_id=text(row, "uid"),
    )


def role_name(row: Row) -> str:
    """Return the name of a job's one role."""
    program = program_of(row)
    return well_formed(text(program, "displayName")) or "task"


def _is_late(row: Row, state: AppState) -> bool:
    return state is AppState.FAILED and _state_name(row) == "CANCELLED"


def _unread(row: Row, state: AppState, tasks: Sequence[Row]) -> AppState:
    """Return the state of the tasks that were not read: their common state, or one derived from their job.

    With several states it is unknown which task has which; once the job has ended, they are UNKNOWN.
    """
    rest = Counter(counts_of(row))
    rest.subtract(text(part(task, "status"), "state") for task in tasks)
    names = [name for name, many in rest.items() if many > 0]
    if _is_late(row, state):
        return state
    if len(names) == 1:
        only = task_state(names[0])
        return AppState.CANCELLED if state is AppState.CANCELLED and only is AppState.FAILED else only
    if len(names) > 1 and state.is_terminal():
        return AppState.UNKNOWN
    return AppState.PENDING if state is AppState.RUNNING and not names else state


def _message(row: Row, state: AppState, note: AppNote) -> str:
    """Return why a job failed, or what it waits for."""
    name = _state_name(row)
    if name in _ON_ITS_WAY:
        return _ON_ITS_WAY[name]
    if _is_late(row, state):
        late = LATE.format(note.pending_timeout or 0)
        return "; ".join(filter(None, [late, next(_events_of_trouble(row), "")]))
    if state in (AppState.SUBMITTED, AppState.PENDING):
        return next(_events_of_trouble(row), "")
    if state is AppState.FAILED and not counts_of(row).get("FAILED"):
        return next((text(event, "description") for event in reversed(status_events(row))), "")
    if (counts := counts_of(row)) and state is AppState.RUNNING and task_count(row) > 1 and len(counts) > 1:
        return ", ".join(f"{many} {name.lower()}" for name, many in sorted(counts.items()))
    return ""


def _events_of_trouble(row: Row) -> Iterator[str]:
    """Yield Batch's messages other than changes of state, newest first: quota, capacity, permissions."""
    for event in reversed(status_events(row)):
        if text(event, "type") != "STATUS_CHANGED" and (words := text(event, "description")):
            yield words


def _first_reason(state: AppState, replicas: Sequence[ReplicaStatus]) -> str:
    if state is not AppState.FAILED:
        return ""
    failed = (replica for replica in replicas if replica.state is AppState.FAILED and replica.reason)
    return next((f"replica {replica.id}: {replica.reason}" for replica in failed), "")


def _finished(row: Row) -> datetime | None:
    return time_of(last_event(row).get("eventTime")) or time_of(row.get("updateTime"))


def _console(ref: GCPJobRef) -> str:
    place = f"{ref.location}/jobs/{ref.name}/details?project={ref.project}"
    return f"https://console.cloud.google.com/batch/jobsDetail/regions/{place}"


def _role(row: Row, name: str, note: AppNote) -> Role:
    """Return a job's role from its note, or without one from Google's data.

    Google's data has macros filled in for this job: such a role can be shown, but not submitted again.
    """
    if note.roles and note.roles[0].entrypoint:
        (role, *_) = note.roles
        role.name = name
        return role
    program = program_of(row)
    container, environment = part(program, "container"), part(program, "environment")
    commands = container.get("commands")
    words = [str(word) for word in cast("list[object]", commands)] if isinstance(commands, list) else []
    # Google does not show which of them were secrets.
    env: dict[str, str] = {key: Secret(str(value)) for key, value in part(environment, "variables").items()}
    env |= {key: SecretRef(str(value)) for key, value in part(environment, "secretVariables").items() if value}
    role = role_of_command(
        name, text(container, "imageUri"), [text(container, "entrypoint"), *words], env, task_count(row)
    )
    why = "env and args are shown as sent to Google Cloud Batch: the job's note does not contain the originals"
    if note.is_by_hand or not is_ours(row):
        why = "the job was written by hand: its resource, mounts and other fields are not part of a role"
    role.env = {**role.env, NOT_KEPT: NotKept(why)}
    return role
