"""Why an app has ended as it did, in one line."""

from __future__ import annotations

from collections import Counter
from signal import Signals

from asyncsched.specs.state import AppState, AppStatus, FailureCause, ReplicaStatus
from asyncsched.views.replicas import reason_of

__all__ = ["signal_of", "why_ended"]

MOST_REASONS = 3


def why_ended(status: AppStatus) -> str:
    """Return why an app has ended so: of several replicas, how many have failed and of what."""
    replicas = [replica for role in status.roles for replica in role.replicas]
    failed = [replica for replica in replicas if replica.state is AppState.FAILED]
    if status.state is not AppState.FAILED or len(replicas) < 2 or not failed:
        return reason_of(status.msg, replicas)
    reasons = Counter(map(_reason, failed)).most_common()
    if len(reasons) == 1:
        return f"{len(failed)} of {len(replicas)} failed: {reasons[0][0]}"
    told = [f"{reason} ({count})" for reason, count in reasons[:MOST_REASONS]]
    more = sum(count for _, count in reasons[MOST_REASONS:])
    return f"{len(failed)} of {len(replicas)} failed: {', '.join(told)}{f', others ({more})' if more else ''}"


def _reason(replica: ReplicaStatus) -> str:
    if replica.cause is FailureCause.OOM:
        return "out of memory"
    if number := signal_of(replica):
        return f"signal {_signal_name(number)}"
    if replica.exit_code:
        return f"exit code {replica.exit_code}"
    return replica.reason or "for a reason that is not known"


def signal_of(replica: ReplicaStatus) -> int:
    """Return the signal that has ended a replica; some services tell it as an exit code below zero."""
    return replica.signal or -min(replica.exit_code or 0, 0)


def _signal_name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:
        return str(number)
