"""Derive states from an app's record, without I/O."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from asyncsched.logs.line import utc
from asyncsched.schedulers._common.app_notes import read_app_note
from asyncsched.schedulers._common.exit_codes import signal_name
from asyncsched.schedulers.local.status_record import BACKEND, AppRecord, ReplicaRecord
from asyncsched.schedulers.local.supervisor.formats import NOT_EXECUTED
from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse
from asyncsched.specs.app import NONE
from asyncsched.specs.handle import make_app_handle
from asyncsched.specs.state import AppState, FailureCause, ReplicaStatus, RoleStatus, combine, find_cause

__all__ = ["SupervisorState", "describe_app", "list_row"]


class SupervisorState(Enum):
    """What is known about the supervisor of an app."""

    LED = "its supervisor is running"
    LOST = "its supervisor is gone, and there is no record of how the app ended"
    ELSEWHERE = "it runs on another machine, or in another container"


_ASKED = {
    "cancel": "cancelled",
    "kill": "killed",
    "owner": "stopped because the process that submitted it ended",
    "close": "stopped because the scheduler that submitted it was closed",
    "terminated": "stopped because its supervisor was terminated",
    "supervisor": "stopped because its supervisor was killed",
    "removed": "stopped because its record was removed while it ran, and could not be written again",
}
"""What ended an app, by the causes that make it a cancelled one."""

LOST = "its supervisor was killed, so its end was not recorded"


def describe_app(
    record: AppRecord, supervisor_state: SupervisorState, is_alive: Callable[[ReplicaRecord], bool] = lambda _: False
) -> DescribeAppResponse:
    """Describe an app.

    Args:
        record: Its record.
        supervisor_state: The state of its supervisor.
        is_alive: Tells, for an app without a supervisor, whether a replica's first process is still running.
    """
    statuses: dict[str, list[ReplicaStatus]] = {}
    for replica in record.replicas:
        statuses.setdefault(replica.role, []).append(_replica(record, replica, supervisor_state, is_alive))
    replicas = [each for group in statuses.values() for each in group]
    state = combine(replicas, cancelled=record.ended_by in _ASKED and _took_effect(record))
    roles, metadata = read_app_note(record.spec)
    return DescribeAppResponse(
        app_id=record.app_id,
        state=state,
        num_restarts=0,
        msg=_message(record, replicas, state, supervisor_state),
        structured_error_msg=_first_error(record),
        ui_url=f"file://{record.log_dir}" if record.log_dir else None,
        roles_statuses=[RoleStatus(role, group) for role, group in statuses.items()],
        roles=roles,
        name=record.name,
        session=record.session,
        created_at=utc(record.created_ns),
        started_at=None if record.started_ns is None else utc(record.started_ns),
        finished_at=_finished(record, state),
        metadata=metadata,
        cause=find_cause(state, replicas),
        native=record,
    )


def list_row(record: AppRecord, supervisor_state: SupervisorState) -> ListAppResponse:
    """Make an app's row in a list."""
    return ListAppResponse(
        app_id=record.app_id,
        state=describe_app(record, supervisor_state).state,
        app_handle=make_app_handle(BACKEND, record.session, record.app_id),
        name=record.name,
        session=record.session,
        created_at=utc(record.created_ns),
    )


def _took_effect(record: AppRecord) -> bool:
    return any(replica.stopped for replica in record.replicas)


def _replica(
    record: AppRecord,
    replica: ReplicaRecord,
    supervisor_state: SupervisorState,
    is_alive: Callable[[ReplicaRecord], bool],
) -> ReplicaStatus:
    state = _state(replica, supervisor_state, is_alive)
    return ReplicaStatus(
        id=replica.k,
        state=state,
        role=replica.role,
        hostname=record.host,
        structured_error_msg=NONE if replica.error is None else replica.error,
        exit_code=replica.exit_code,
        signal=replica.signal,
        reason=_reason(record, replica, state, supervisor_state),
        num_restarts=0,
        started_at=None if replica.started_ns is None else utc(replica.started_ns),
        finished_at=None if replica.finished_ns is None else utc(replica.finished_ns),
        cause=_cause(replica, state),
    )


def _state(
    replica: ReplicaRecord, supervisor_state: SupervisorState, is_alive: Callable[[ReplicaRecord], bool]
) -> AppState:
    if not replica.over:
        if supervisor_state is SupervisorState.LED:
            return AppState.RUNNING
        if supervisor_state is SupervisorState.ELSEWHERE:
            return AppState.UNKNOWN
        if replica.exit_code is None and is_alive(replica):
            return AppState.RUNNING
    if replica.stopped:
        return AppState.CANCELLED
    return AppState.SUCCEEDED if replica.exit_code == 0 and not replica.timed_out else AppState.FAILED


def _cause(replica: ReplicaRecord, state: AppState) -> FailureCause | None:
    if state is AppState.CANCELLED:
        return FailureCause.CANCELLED
    if state is not AppState.FAILED:
        return None
    if replica.timed_out:
        return FailureCause.TIMEOUT
    if replica.reason.startswith(NOT_EXECUTED):
        return FailureCause.CONFIG
    if replica.exit_code is None:
        return FailureCause.UNKNOWN  # it ended with its supervisor
    return FailureCause.EXIT if replica.signal is None else FailureCause.SIGNAL


def _reason(record: AppRecord, replica: ReplicaRecord, state: AppState, supervisor_state: SupervisorState) -> str:
    if replica.reason:
        return replica.reason
    if state is AppState.UNKNOWN:
        return f"runs on {record.host}"
    if not state.is_terminal() or state is AppState.SUCCEEDED:
        return ""
    ending = (
        _ending(replica) if replica.exit_code is not None else LOST if supervisor_state is SupervisorState.LOST else ""
    )
    if state is AppState.CANCELLED:
        by_another = f"stopped because {record.blames} failed" if record.blames else "stopped"
        asked = _ASKED.get(record.ended_by, by_another)
        return f"{asked}; {ending}" if ending else asked
    return ending


def _ending(replica: ReplicaRecord) -> str:
    if replica.signal is None:
        return f"exit code {replica.exit_code}"
    return f"killed by {signal_name(replica.signal)}"


def _message(
    record: AppRecord, replicas: Sequence[ReplicaStatus], state: AppState, supervisor_state: SupervisorState
) -> str:
    """Return why the app failed, or what it waits for."""
    if supervisor_state is SupervisorState.ELSEWHERE and not state.is_terminal():
        return f"runs on {record.host}"
    if record.disk_full and not state.is_terminal():
        return "the disk of its logs is full: its output waits until there is free space"
    blamed = {AppState.FAILED, AppState.RUNNING} if record.ended_by == "timeout" else {AppState.FAILED}
    for replica in replicas:
        if replica.state in blamed and replica.reason and state is not AppState.CANCELLED:
            return f"{replica.role}/{replica.id}: {replica.reason}"
    return _ASKED.get(record.ended_by, "") if state is AppState.CANCELLED else ""


def _finished(record: AppRecord, state: AppState) -> Any:
    if not state.is_terminal():
        return None
    ends = [replica.finished_ns for replica in record.replicas if replica.finished_ns is not None]
    latest = record.finished_ns or max(ends, default=None)
    return None if latest is None else utc(latest)


def _first_error(record: AppRecord) -> str:
    """Return the error file of the replica that failed first, by the time in the file or else by its end."""
    errors = [
        (_error_time(replica.error), replica.finished_ns or 0, replica.error)
        for replica in record.replicas
        if replica.error
    ]
    return min(errors)[2] if errors else NONE


def _error_time(text: str) -> float:
    try:
        stamp = float(json.loads(text)["message"]["extraInfo"]["timestamp"])
        return float("inf") if math.isnan(stamp) else stamp  # NaN does not compare
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return float("inf")
