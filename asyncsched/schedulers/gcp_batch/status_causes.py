"""Find out why a task or a job failed or waits, from Batch's exit codes and messages."""

from __future__ import annotations

import re
from collections.abc import Mapping

from asyncsched.schedulers._common.exit_codes import cause_of_code
from asyncsched.specs.state import AppState, FailureCause

__all__ = ["RESERVED", "cause_of", "cause_of_task", "cause_of_text"]

RESERVED: Mapping[int, tuple[str, FailureCause]] = {
    50000: ("Batch could not run the task", FailureCause.NODE),
    50001: ("its Spot VM was preempted", FailureCause.PREEMPTED),
    50002: ("its VM stopped reporting to Batch", FailureCause.NODE),
    50003: ("its VM was restarted", FailureCause.NODE),
    50004: ("it did not respond, or could not be cancelled", FailureCause.NODE),
    50005: ("it exceeded its timeout", FailureCause.TIMEOUT),
    50006: ("its VM was recreated", FailureCause.NODE),
}
"""Exit codes that Batch sets for a task, and their meaning."""

_TEXTS: tuple[tuple[re.Pattern[str], FailureCause], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), cause)
    for pattern, cause in (
        (r"quota|CODE_GCE_QUOTA_EXCEEDED", FailureCause.QUOTA),
        (r"ZONE_RESOURCE_POOL_EXHAUSTED|stockout|resource availability", FailureCause.UNSCHEDULABLE),
        (r"Spot Preemption|preempted", FailureCause.PREEMPTED),
        (r"max_?run_?duration|exceeded.*(duration|timeout)", FailureCause.TIMEOUT),
        (r"pull.*image|image.*(not found|denied|pull)", FailureCause.IMAGE),
        (r"permission|service account|secret|PERMISSION_DENIED", FailureCause.CONFIG),
    )
)

_KEEPS_WAITING = frozenset({FailureCause.QUOTA, FailureCause.UNSCHEDULABLE})


def cause_of_task(code: int | None) -> FailureCause:
    """Return the cause for an exit code of a task."""
    return RESERVED[code][1] if code is not None and code in RESERVED else cause_of_code(code)


def cause_of_text(words: str) -> FailureCause | None:
    """Return the cause for a message of Batch, if any."""
    return next((cause for pattern, cause in _TEXTS if pattern.search(words)), None)


def cause_of(state: AppState, words: str) -> FailureCause | None:
    """Return the cause of a job's state according to its message; None if nothing is wrong."""
    if state is AppState.CANCELLED:
        return FailureCause.CANCELLED
    if state is AppState.FAILED:
        return cause_of_text(words) or FailureCause.UNKNOWN
    if state in (AppState.SUBMITTED, AppState.PENDING) and (cause := cause_of_text(words)) in _KEEPS_WAITING:
        return cause
    return None
