"""Many replicas in few words: counts, groups of equal ones, strips, the first that failed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from signal import Signals
from typing import NamedTuple

from asyncsched.specs.state import AppState, AppStatus, FailureCause, ReplicaStatus

__all__ = [
    "PER_ROW",
    "ReplicaGroup",
    "Tally",
    "alike",
    "first_failure",
    "groups",
    "numbers",
    "replicas_of",
    "rows",
    "signal_name",
    "signal_of",
    "why",
]

PER_ROW = 40
"""How many replicas one row of a strip shows."""

_FAR = datetime.max.replace(tzinfo=UTC)
# What a reader looks for first.
_ORDER = (
    AppState.FAILED,
    AppState.UNKNOWN,
    AppState.PENDING,
    AppState.SUBMITTED,
    AppState.UNSUBMITTED,
    AppState.RUNNING,
    AppState.CANCELLED,
    AppState.SUCCEEDED,
)


class Tally(NamedTuple):
    """How many replicas are in which state.

    Attributes:
        of: All of them.
        done: Those that have succeeded.
        failed: Those that have failed.
        running: Those that run.
        cancelled: Those that were cancelled.
    """

    of: int = 0
    done: int = 0
    failed: int = 0
    running: int = 0
    cancelled: int = 0

    def __str__(self) -> str:
        """Write the number alone while all are alike, and otherwise who is how far: ``5/8 done, 1 failed``."""
        told = {"done": self.done, "failed": self.failed, "running": self.running, "cancelled": self.cancelled}
        if not self.of or self.of in told.values() or not any(told.values()):
            return f"{self.of or ''}"
        if self.done or self.failed:  # who reads how far it has come does not ask how many run
            del told["running"]
        (first, count), *others = [(word, count) for word, count in told.items() if count]
        return ", ".join([f"{count}/{self.of} {first}", *(f"{count} {word}" for word, count in others)])


NO_REPLICAS = Tally()


def tally(replicas: Iterable[ReplicaStatus]) -> Tally:
    """Count replicas."""
    states = Counter(replica.state for replica in replicas)
    return Tally(
        of=states.total(),
        done=states[AppState.SUCCEEDED],
        failed=states[AppState.FAILED],
        running=states[AppState.RUNNING],
        cancelled=states[AppState.CANCELLED],
    )


class ReplicaGroup(NamedTuple):
    """Replicas of one role of which the same is to be told.

    Attributes:
        role: Their role.
        state: Their state.
        why: Why they failed or wait; "" where nothing is to be told.
        ids: Their numbers in the role, in order.
        restarts: How often they were started again, all together.
    """

    role: str
    state: AppState
    why: str
    ids: tuple[int, ...]
    restarts: int = 0

    @property
    def name(self) -> str:
        """Who they are, such as ``worker/0-3,7``."""
        return f"{self.role}/{numbers(self.ids)}"


def replicas_of(status: AppStatus) -> list[ReplicaStatus]:
    """Return the replicas of all roles, in order."""
    return [replica for role in status.roles for replica in role.replicas]


def groups(replicas: Iterable[ReplicaStatus]) -> list[ReplicaGroup]:
    """Put replicas together of which the same is to be told: role by role, those first that failed or wait."""
    found: dict[tuple[str, AppState, str], list[ReplicaStatus]] = {}
    roles: dict[str, int] = {}
    for replica in replicas:
        roles.setdefault(replica.role, len(roles))
        found.setdefault((replica.role, replica.state, why(replica)), []).append(replica)
    made = [
        ReplicaGroup(*key, tuple(sorted(each.id for each in alike)), sum(each.num_restarts or 0 for each in alike))
        for key, alike in found.items()
    ]
    return sorted(made, key=lambda group: (roles[group.role], _ORDER.index(group.state), -len(group.ids)))


def why(replica: ReplicaStatus) -> str:
    """Return why a replica failed or waits, in one line; its exit code or signal is always among it."""
    reason = " ".join(replica.reason.split())
    cause = replica.cause if replica.state is AppState.FAILED else None
    if not reason and cause is FailureCause.OOM:
        reason = "out of memory"
    if (number := signal_of(replica)) and (replica.exit_code or 0) <= 0:
        if not re.search(rf"\b{number}\b|SIG[A-Z]", reason):
            return f"signal {signal_name(number)}{f', {reason}' if reason else ''}"
    elif replica.exit_code and str(replica.exit_code) not in re.findall(r"-?\d+", reason):
        return f"exit code {replica.exit_code}{f', {reason}' if reason else ''}"
    return reason or (str(cause) if cause not in (None, FailureCause.UNKNOWN) else "")


def signal_of(replica: ReplicaStatus) -> int:
    """Return the signal that has ended a replica; some services tell it as an exit code below zero."""
    return replica.signal or -min(replica.exit_code or 0, 0)


def signal_name(number: int) -> str:
    """Return what a signal is called; its number where this machine has no name for it."""
    try:
        return Signals(number).name
    except ValueError:
        return str(number)


def numbers(ids: Iterable[int], most: int = 6) -> str:
    """Write numbers and ranges as the command line takes them, such as ``0-3,7``; of very many the first.

    Args:
        ids: The numbers, in order.
        most: How many ranges are written.
    """
    ranges = [*_ranges(ids)]
    told = [f"{first}-{last}" if last > first else f"{first}" for first, last in ranges[:most]]
    return ",".join([*told, *(["…"] if len(ranges) > most else [])])


def _ranges(ids: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for number in ids:
        if first is None or last is None or number != last + 1:
            if first is not None and last is not None:
                yield first, last
            first = number
        last = number
    if first is not None and last is not None:
        yield first, last


def first_failure(replicas: Iterable[ReplicaStatus]) -> ReplicaStatus | None:
    """Return the replica that failed before all others; of those whose times are not known the first."""
    failed = [replica for replica in replicas if replica.state is AppState.FAILED]
    return min(failed, key=lambda replica: replica.finished_at or _FAR, default=None)


def alike(replicas: Sequence[ReplicaStatus]) -> list[ReplicaGroup]:
    """Put replicas together that stand beside each other in a strip and are in the same state."""
    runs: list[list[ReplicaStatus]] = []
    for replica in replicas:
        if runs and (runs[-1][-1].role, runs[-1][-1].state) == (replica.role, replica.state):
            runs[-1].append(replica)
        else:
            runs.append([replica])
    return [ReplicaGroup(run[0].role, run[0].state, "", tuple(each.id for each in run)) for run in runs]


def rows(replicas: Sequence[ReplicaStatus], most: int, width: int = PER_ROW) -> list[Sequence[ReplicaStatus]]:
    """Return a strip of replicas, wrapped.

    Args:
        replicas: All of them.
        most: How many are shown.
        width: How many stand in one row.
    """
    shown = replicas[:most]
    return [shown[start : start + width] for start in range(0, len(shown), width)]
