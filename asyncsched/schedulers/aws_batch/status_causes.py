"""Find out why a job failed or waits, with a table of the reasons of AWS Batch, ECS and EC2."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from asyncsched.schedulers._common.exit_codes import cause_of_code
from asyncsched.specs.state import AppState, FailureCause

__all__ = ["REASON_PENDING", "cause_of", "read_cause"]

REASON_PENDING = "asyncsched: did not run within its pending_timeout"
"""The prefix of the reason of a job that was cancelled by `pending_timeout`: it is FAILED, not CANCELLED."""

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
"""Patterns of reasons, and their causes; the first match counts."""

_KEEPS_WAITING = frozenset({FailureCause.UNSCHEDULABLE, FailureCause.QUOTA})


def cause_of(
    state: AppState, reasons: Iterable[str], code: int | None, *, on_spot: bool = False
) -> FailureCause | None:
    """Return the cause of the state of a job or a node; None if nothing is wrong.

    Args:
        state: Its state.
        reasons: The reasons from AWS, the job's first.
        code: The exit code of its last run.
        on_spot: Whether it was submitted for Spot, where a terminated host usually means a preemption.
    """
    if state is AppState.CANCELLED:
        return FailureCause.CANCELLED
    if state is AppState.FAILED:
        cause = _first_cause(reasons)
        if cause is FailureCause.NODE and on_spot:
            return FailureCause.PREEMPTED
        return cause or cause_of_code(code)
    if state in (AppState.SUBMITTED, AppState.PENDING) and (cause := _first_cause(reasons)) in _KEEPS_WAITING:
        return cause
    return None


def _first_cause(reasons: Iterable[str]) -> FailureCause | None:
    return next((cause for reason in reasons if (cause := read_cause(reason)) is not None), None)


@functools.lru_cache(maxsize=1024)  # Thousands of jobs have the same few reasons.
def read_cause(reason: str) -> FailureCause | None:
    """Return the cause for a reason from AWS, if any."""
    return next((cause for pattern, cause in CAUSES if pattern.search(reason)), None)
