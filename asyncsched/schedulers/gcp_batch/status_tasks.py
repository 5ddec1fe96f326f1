"""Convert tasks of Batch to the states of replicas, without I/O."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from asyncsched.schedulers._common.exit_codes import signal_of
from asyncsched.schedulers._common.untrusted import Once
from asyncsched.schedulers.gcp_batch.status_causes import RESERVED, cause_of_task, cause_of_text
from asyncsched.schedulers.gcp_batch.status_rows import Row, number, part, status_events, text, time_of
from asyncsched.specs.state import AppState, FailureCause, ReplicaStatus

__all__ = ["TASK_STATES", "replicas_of", "task_index", "task_state"]

_once = Once(logging.getLogger("asyncsched.schedulers.gcp_batch"))

TASK_STATES: Mapping[str, AppState] = {
    "STATE_UNSPECIFIED": AppState.UNKNOWN,
    "PENDING": AppState.PENDING,
    "ASSIGNED": AppState.PENDING,
    "RUNNING": AppState.RUNNING,
    "FAILED": AppState.FAILED,
    "SUCCEEDED": AppState.SUCCEEDED,
    "UNEXECUTED": AppState.CANCELLED,
}

_INSTANCE = re.compile(r"zones/[\w-]+/instances/([\w-]+)")


def task_state(name: str) -> AppState:
    """Return the state of a replica for a state of its task."""
    state = TASK_STATES.get(name or "STATE_UNSPECIFIED")
    if state is None:
        _once.warn(name, "Google Cloud Batch reported an unknown state of a task: %s", name)
        return AppState.UNKNOWN
    return state


def task_index(task: Row) -> int:
    """Return a task's index; -1 if its name has none."""
    return number(text(task, "name").rpartition("/")[2], -1)


def replicas_of(
    role: str, count: int, tasks: Iterable[Row], others: AppState, *, cancelled: bool, why: str = ""
) -> list[ReplicaStatus]:
    """Return the status of each replica of a job.

    Args:
        role: The role.
        count: How many replicas it has.
        tasks: The tasks that were read.
        others: The state of the tasks that were not read.
        cancelled: Whether the job was cancelled.
        why: Why the job failed or waits, for the tasks that were not read.
    """
    read = {task_index(task): task for task in tasks}
    cause = _cause_of_others(others, why)
    return [
        _replica(index, task, role, cancelled=cancelled)
        if (task := read.get(index)) is not None
        else ReplicaStatus(
            index, others, role, "", exit_code=0 if others is AppState.SUCCEEDED else None, reason=why, cause=cause
        )
        for index in range(count)
    ]


def _cause_of_others(state: AppState, why: str) -> FailureCause | None:
    if state is AppState.CANCELLED:
        return FailureCause.CANCELLED
    if state is AppState.FAILED:
        return cause_of_text(why) or FailureCause.UNKNOWN
    return None


def _replica(index: int, task: Row, role: str, *, cancelled: bool) -> ReplicaStatus:
    state = task_state(text(part(task, "status"), "state"))
    events = status_events(task)
    codes = _exit_codes(events)
    code = _code_of(state, codes)
    if cancelled and state is AppState.FAILED:
        state = AppState.CANCELLED
    return ReplicaStatus(
        index,
        state,
        role,
        _host(events),
        exit_code=code,
        signal=signal_of(code),
        reason=_reason(state, code, codes, events),
        num_restarts=_restarts(state, events, codes),
        started_at=_started(events),
        finished_at=_ended(events) if state.is_terminal() else None,
        cause=_cause(state, code, events),
    )


def _exit_codes(events: Sequence[Row]) -> list[int]:
    """Return the reported exit codes of a task's attempts, in order."""
    return [number(part(event, "taskExecution").get("exitCode")) for event in events if part(event, "taskExecution")]


def _code_of(state: AppState, codes: Sequence[int]) -> int | None:
    """Return the exit code of the last attempt; the state shows whether the last reported code is its code."""
    if state is AppState.SUCCEEDED:
        return 0  # the last code in the events may be of an earlier attempt
    return codes[-1] if state is AppState.FAILED and codes else None


def _cause(state: AppState, code: int | None, events: Sequence[Row]) -> FailureCause | None:
    if state is AppState.CANCELLED:
        return FailureCause.CANCELLED
    if state is not AppState.FAILED:
        return None
    cause = cause_of_text(text(events[-1], "description")) if events and not code else None
    return cause or cause_of_task(code)


def _restarts(state: AppState, events: Sequence[Row], codes: Sequence[int]) -> int:
    """Return how often a task was retried, from its runs or, if these are missing, from their exit codes."""
    runs = sum(text(event, "taskState") == "RUNNING" for event in events)
    ended = len([code for code in codes if code]) - (state in (AppState.FAILED, AppState.CANCELLED))
    return max(0, runs - 1, ended)


def _reason(state: AppState, code: int | None, codes: Sequence[int], events: Sequence[Row]) -> str:
    if state is AppState.FAILED:
        if code is not None and code in RESERVED:
            return f"{RESERVED[code][0]} (exit code {code})"
        return f"exit code {code}" if code else _words(events)
    before = [code for code in codes if code in RESERVED]
    if before and state in (AppState.SUCCEEDED, AppState.RUNNING, AppState.PENDING):
        return f"an earlier attempt ended: {RESERVED[before[-1]][0]} (exit code {before[-1]})"
    return ""


def _words(events: Sequence[Row]) -> str:
    return text(events[-1], "description") if events else ""


def _started(events: Sequence[Row]) -> datetime | None:
    return next(
        (time_of(each.get("eventTime")) for each in reversed(events) if text(each, "taskState") == "RUNNING"), None
    )


def _ended(events: Sequence[Row]) -> datetime | None:
    return time_of(events[-1].get("eventTime")) if events else None


def _host(events: Sequence[Row]) -> str:
    """Return the last VM of a task, according to its events."""
    found = (_INSTANCE.search(text(event, "description")) for event in reversed(events))
    return next((match[1] for match in found if match), "")
