"""Why an app has failed or waits, in one line; every part of asyncsched uses the same sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from asyncsched.specs.app import NONE
from asyncsched.specs.state import AppState, AppStatus, FailureCause, ReplicaStatus
from asyncsched.views.replicas import first_failure, signal_name, signal_of, why

__all__ = ["kind_of", "reason_of", "why_ended"]

MOST_REASONS = 3
"""Most reasons of replicas in a line; if there are more, they are shortened, and the others are counted."""
_NOT_KNOWN = "for a reason that is not known"


def why_ended(status: AppStatus) -> str:
    """Return why an app failed or waits; "" if there is nothing to say."""
    return reason_of(status.msg, [replica for role in status.roles for replica in role.replicas])


def reason_of(msg: str, replicas: Sequence[ReplicaStatus]) -> str:
    """Return why an app failed or waits; with several replicas, how many failed and why.

    A single replica is not named. A message of the service about the app itself is included.

    Args:
        msg: The service's message.
        replicas: All replicas of the app.
    """
    text = _own(msg, replicas)
    if (failed := first_failure(replicas)) is None:
        return text or _waiting(replicas)
    if len(replicas) == 1:
        return text or why(failed)
    counted = _counted(failed, [each for each in replicas if each.state is AppState.FAILED], len(replicas))
    return f"{counted}; {text}" if text else counted


def kind_of(msg: str, replicas: Sequence[ReplicaStatus]) -> str:
    """Return the same without counts and names of replicas: it is equal for apps that failed in the same way."""
    failed = first_failure(replicas)
    return _own(msg, replicas) or ("" if failed is None else why(failed))


def _own(msg: str, replicas: Sequence[ReplicaStatus]) -> str:
    """Return the service's message about the app itself; "" if it repeats that of a failed replica."""
    text = "" if msg == NONE else " ".join(msg.split())
    name, colon, rest = text.partition(": ")
    if colon and any(
        each.state is AppState.FAILED and name == f"{each.role}/{each.id}" and rest in " ".join(each.reason.split())
        for each in replicas
    ):
        return ""
    return text.removeprefix(f"{replicas[0].role}/{replicas[0].id}: ") if len(replicas) == 1 else text


def _waiting(replicas: Sequence[ReplicaStatus]) -> str:
    """Return why the first waiting replica waits."""
    waits = next((each for each in replicas if each.state is AppState.PENDING and each.reason), None)
    if waits is None or len(replicas) == 1:
        return "" if waits is None else why(waits)
    return f"{waits.role}/{waits.id}: {why(waits)}"


def _counted(first: ReplicaStatus, failed: Sequence[ReplicaStatus], count: int) -> str:
    """Return how many of `count` replicas have failed and why, with the name of the first if reasons differ."""
    head, name = f"{len(failed)} of {count} failed", f"{first.role}/{first.id}"
    tell = why if len({*map(why, failed)}) <= MOST_REASONS else _kind
    kinds = Counter(tell(each) or _NOT_KNOWN for each in failed)
    own = tell(first) or _NOT_KNOWN
    if len(kinds) == 1:
        return f"{head}{f', {name}' if len(failed) == 1 else ''}: {own}"
    ordered = sorted(kinds.items(), key=lambda item: (item[0] != own, -item[1]))
    told = [f"{number} x {kind}" if number > 1 else kind for kind, number in ordered[:MOST_REASONS]]
    others = sum(number for _, number in ordered[MOST_REASONS:])
    return f"{head}, {name} first: {', '.join([*told, *([f'{others} in other ways'] if others else [])])}"


def _kind(replica: ReplicaStatus) -> str:
    """Return why a replica failed, in few words, to count equal failures together."""
    if replica.cause is FailureCause.OOM:
        return "out of memory"
    if number := signal_of(replica):
        return f"signal {signal_name(number)}"
    if replica.exit_code:
        return f"exit code {replica.exit_code}"
    return why(replica)
