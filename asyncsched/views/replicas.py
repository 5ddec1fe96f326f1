"""Summaries of many replicas: counts, groups of similar ones, strips, the first failure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from signal import Signals

from asyncsched._typing import NamedTuple
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
"""Replicas in one row of a strip."""

_FAR = datetime.max.replace(tzinfo=UTC)
# The states in the order of interest.
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
    """The number of replicas in each state.

    Attributes:
        of: All replicas.
        done: Replicas that have succeeded.
        failed: Replicas that have failed.
        running: Running replicas.
        cancelled: Cancelled replicas.
    """

    of: int = 0
    done: int = 0
    failed: int = 0
    running: int = 0
    cancelled: int = 0

    def __str__(self) -> str:
        """Return only the number while all are in one state, else the counts: ``5/8 done, 1 failed``."""
        told = {"done": self.done, "failed": self.failed, "running": self.running, "cancelled": self.cancelled}
        if not self.of or self.of in told.values() or not any(told.values()):
            return f"{self.of or ''}"
        if self.done or self.failed:  # then the number of running replicas is not needed
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
    """Replicas of one role with the same state and reason.

    Attributes:
        role: Their role.
        state: Their state.
        why: Why they failed or wait; "" if there is nothing to say.
        ids: Their numbers in the role, in order.
        restarts: The sum of their restarts.
    """

    role: str
    state: AppState
    why: str
    ids: tuple[int, ...]
    restarts: int = 0

    @property
    def name(self) -> str:
        """Their names, such as ``worker/0-3,7``."""
        return f"{self.role}/{numbers(self.ids)}"


def replicas_of(status: AppStatus) -> list[ReplicaStatus]:
    """Return the replicas of all roles, in order."""
    return [replica for role in status.roles for replica in role.replicas]


def groups(replicas: Iterable[ReplicaStatus]) -> list[ReplicaGroup]:
    """Group replicas with the same state and reason, role by role; failed and waiting ones first."""
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
    """Return why a replica failed or waits, in one line, always with its exit code or signal."""
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
    """Return the signal that ended a replica; some services report it as a negative exit code."""
    return replica.signal or -min(replica.exit_code or 0, 0)


def signal_name(number: int) -> str:
    """Return the name of a signal; its number if this machine has no name for it."""
    try:
        return Signals(number).name
    except ValueError:
        return str(number)


def numbers(ids: Iterable[int], most: int = 6) -> str:
    """Format numbers and ranges as the command line accepts them, such as ``0-3,7``, at most `most` ranges.

    Args:
        ids: The numbers, in order.
        most: The largest number of ranges.
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
    """Return the replica that failed first; without times, the first failed one."""
    failed = [replica for replica in replicas if replica.state is AppState.FAILED]
    return min(failed, key=lambda replica: replica.finished_at or _FAR, default=None)


def alike(replicas: Sequence[ReplicaStatus]) -> list[ReplicaGroup]:
    """Group adjacent replicas of a strip that are in the same state."""
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
        most: How many to show.
        width: How many to show in one row.
    """
    shown = replicas[:most]
    return [shown[start : start + width] for start in range(0, len(shown), width)]
