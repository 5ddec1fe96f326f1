"""Why a task or a job failed, or does not start: Batch's own exit codes and its words."""

from __future__ import annotations

import re
from collections.abc import Mapping

from asyncsched.schedulers._common.exit_codes import cause_of_code
from asyncsched.specs.state import AppState, FailureCause

__all__ = ["RESERVED", "cause_of", "cause_of_task", "cause_of_text"]

RESERVED: Mapping[int, tuple[str, FailureCause]] = {
    50000: ("Batch could not run the task", FailureCause.NODE),
    50001: ("its Spot VM was taken away", FailureCause.PREEMPTED),
    50002: ("its VM stopped reporting to Batch", FailureCause.NODE),
    50003: ("its VM was restarted", FailureCause.NODE),
    50004: ("it did not react, or could not be cancelled", FailureCause.NODE),
    50005: ("it ran longer than it may", FailureCause.TIMEOUT),
    50006: ("its VM was made anew", FailureCause.NODE),
}
"""Exit codes that Batch gives a task, and what they mean."""

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
    """Return why a task with this exit code failed."""
    return RESERVED[code][1] if code is not None and code in RESERVED else cause_of_code(code)


def cause_of_text(words: str) -> FailureCause | None:
    """Return the cause that Batch's words tell; None if they tell nothing."""
    return next((cause for pattern, cause in _TEXTS if pattern.search(words)), None)


def cause_of(state: AppState, words: str) -> FailureCause | None:
    """Return why a job is in this state, as far as its own words tell; None while nothing is wrong."""
    if state is AppState.CANCELLED:
        return FailureCause.CANCELLED
    if state is AppState.FAILED:
        return cause_of_text(words) or FailureCause.UNKNOWN
    if state in (AppState.SUBMITTED, AppState.PENDING) and (told := cause_of_text(words)) in _KEEPS_WAITING:
        return told
    return None
