"""Why a job failed or does not start: one table over the reasons that AWS Batch, ECS and EC2 give."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from asyncsched.schedulers._common.exit_codes import cause_of_code
from asyncsched.specs.state import AppState, FailureCause

__all__ = ["REASON_PENDING", "cause_of", "read_cause"]

REASON_PENDING = "asyncsched: did not run within its pending_timeout"
"""What the reason of a job begins with that was cancelled for this: it is FAILED, and not CANCELLED."""

CAUSES: tuple[tuple[re.Pattern[str], FailureCause], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), cause)
    for pattern, cause in (
        (f"^{REASON_PENDING}", FailureCause.UNSCHEDULABLE),
        (r"attempt duration exceeded timeout", FailureCause.TIMEOUT),
        (r"OutOfMemory", FailureCause.OOM),
        (r"Spot Task was interrupted|SpotInterruption|reclaimed spot", FailureCause.PREEMPTED),
        (r"Host EC2", FailureCause.NODE),
        (r"quota|VcpuLimitExceeded|MaxSpotInstanceCountExceeded", FailureCause.QUOTA),
        (r"^(MISCONFIGURATION|CAPACITY):", FailureCause.UNSCHEDULABLE),
        (r"unable to pull secrets or registry auth", FailureCause.CONFIG),
        (r"CannotPull|CannotInspectContainer|pull access denied|manifest unknown", FailureCause.IMAGE),
        (r"CannotStart.*(executable file not found|no such file or directory)", FailureCause.IMAGE),
        (r"Cannot(Start|Create)\w*Error|ResourceInitialization", FailureCause.CONFIG),
        (r"Container Overrides length", FailureCause.CONFIG),
        (r"ContainerRuntime\w*Error|DockerTimeoutError|^InternalError|ServerException", FailureCause.NODE),
    )
)
"""What is found in a reason, and the cause that it tells; the first that is found counts."""

_KEEPS_WAITING = frozenset({FailureCause.UNSCHEDULABLE, FailureCause.QUOTA})


def cause_of(
    state: AppState, reasons: Iterable[str], code: int | None, *, on_spot: bool = False
) -> FailureCause | None:
    """Return why a job or a node is in this state; None while nothing is wrong.

    Args:
        state: Its state.
        reasons: What AWS says, the job's own reason first.
        code: The exit code of its last run.
        on_spot: Whether it was submitted for Spot: there a host that is terminated was taken back, as a rule.
    """
    if state is AppState.CANCELLED:
        return FailureCause.CANCELLED
    if state is AppState.FAILED:
        told = _told(reasons)
        if told is FailureCause.NODE and on_spot:
            return FailureCause.PREEMPTED
        return told or cause_of_code(code)
    if state in (AppState.SUBMITTED, AppState.PENDING) and (told := _told(reasons)) in _KEEPS_WAITING:
        return told
    return None


def _told(reasons: Iterable[str]) -> FailureCause | None:
    return next((cause for reason in reasons if (cause := read_cause(reason)) is not None), None)


@functools.lru_cache(maxsize=1024)  # Thousands of jobs end with the same few words.
def read_cause(reason: str) -> FailureCause | None:
    """Return the cause that AWS's words tell; None if they tell nothing but that it ended."""
    return next((cause for pattern, cause in CAUSES if pattern.search(reason)), None)
