"""Track the runs of a replica, their order, and which are still to be read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from asyncsched.schedulers.kubernetes.status_pods import ContainerRecord, PodRecord

__all__ = ["Lost", "Run", "Runs", "has_run", "restarts"]

_EARLY = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True, eq=False)
class Run:
    """One run of the app's container: a pod, and the container's restart count in it.

    Attributes:
        pod: The pod as last seen.
        number: The container's restart count in this run.
        attempt: The number of the run within the replica, counted from 0, as far as known.
        gone: Whether the pod has been deleted.
    """

    pod: PodRecord
    number: int
    attempt: int
    gone: bool = False

    @property
    def is_previous(self) -> bool:
        """Whether the container has been restarted since; its log must be requested as the previous one."""
        return not self.gone and restarts(self.pod) > self.number

    @property
    def ended(self) -> bool:
        """Whether the run can write no more."""
        return self.gone or self.is_previous or self.pod.ended or _waits_to_restart(self.pod)

    def record(self) -> ContainerRecord | None:
        """Return the kubelet's status of this run."""
        pod = self.pod
        found = pod.container
        if found is None or not (self.is_previous or found.phase == "waiting"):
            return found
        return pod.last


@dataclass(frozen=True, slots=True)
class Lost:
    """Unread attempts whose log is gone.

    Attributes:
        first: The first attempt.
        last: The last attempt.
        why: What removed the log.
        before: When the pod after them was created.
    """

    first: int
    last: int
    why: Literal["deleted", "restarted"]
    before: datetime | None = None


@dataclass(slots=True, eq=False)
class _Pod:
    """The state of one pod of the replica."""

    record: PodRecord
    base: int  # the attempt of its container's first run
    read: int = 0  # how many of its runs have been read or lost
    gone: bool = False
    checked: bool = False  # whether attempts before it were checked for losses


class Runs:
    """The runs of one replica.

    A pod that replaces another has the same name or a new one, but always a new uid. Its attempt is the one that the
    controller gives, or else the one after the pod seen before.
    """

    def __init__(self) -> None:
        self._pods: dict[str, _Pod] = {}
        self._next_attempt = 0

    @property
    def seen(self) -> bool:
        """Whether a pod of the replica was ever seen."""
        return bool(self._pods)

    def update(self, records: Iterable[PodRecord]) -> None:
        """Record the current pods."""
        current = sorted(records, key=_order)
        if current:  # an earlier job of this name is another app
            current = [pod for pod in current if pod.owner == current[-1].owner]
        by_uid = {pod.uid: pod for pod in current}
        for uid, known in self._pods.items():
            known.gone = uid not in by_uid
        last = list(self._pods.values())[-1:]
        for uid, record in by_uid.items():
            if uid not in self._pods:
                after = last[0].base + restarts(last[0].record) + 1 if last else 0
                last = [_Pod(record, max(record.attempt, after))]
                self._pods[uid] = last[0]
            self._pods[uid].record = record

    def next(self) -> Run | Lost | None:
        """Return the next run to read, or the attempts lost before it; None if there is nothing to read.

        The same run is returned until `done` is called for it.
        """
        for pod in self._pods.values():
            while pod.read <= restarts(pod.record):
                attempt = pod.base + pod.read
                if not pod.checked:
                    pod.checked = True
                    if attempt > self._next_attempt:
                        lost = Lost(self._next_attempt, attempt - 1, "deleted", pod.record.created_at)
                        self._next_attempt = attempt
                        return lost
                if pod.gone:
                    lost_pod = self._lose(pod, restarts(pod.record) + 1 - pod.read, "deleted")
                    if has_run(pod.record):
                        return lost_pod
                    break
                if pod.read < restarts(pod.record) - 1:
                    return self._lose(pod, restarts(pod.record) - 1 - pod.read, "restarted")
                if pod.record.phase in ("Succeeded", "Failed") and not has_run(pod.record):
                    self._skip(pod)
                    break
                if not pod.record.scheduled:
                    break
                return Run(pod.record, pod.read, attempt)
        return None

    def now(self, run: Run) -> Run:
        """Return the current state of a run."""
        known = self._pods.get(run.pod.uid)
        if known is None:
            return run
        return Run(known.record, run.number, run.attempt, gone=known.gone)

    def done(self, run: Run) -> None:
        """Mark a run as read, as far as it can be."""
        known = self._pods[run.pod.uid]
        known.read = max(known.read, run.number + 1)
        self._next_attempt = max(self._next_attempt, run.attempt + 1)

    def _lose(self, pod: _Pod, count: int, why: Literal["deleted", "restarted"]) -> Lost:
        first = pod.base + pod.read
        pod.read += count
        self._next_attempt = max(self._next_attempt, first + count)
        return Lost(first, first + count - 1, why)

    def _skip(self, pod: _Pod) -> None:
        """Skip a pod that ended before its container could start."""
        pod.read = restarts(pod.record) + 1
        self._next_attempt = max(self._next_attempt, pod.base + 1)


def has_run(pod: PodRecord) -> bool:
    """Return whether the app's container has ever run in a pod, according to the kubelet."""
    container = pod.container
    return container is not None and (
        container.phase == "running"
        or container.restart_count > 0
        or pod.last is not None
        or (container.phase == "terminated" and container.reason != "ContainerStatusUnknown")
    )


def restarts(pod: PodRecord) -> int:
    """Return how often the app's container was restarted in a pod."""
    return 0 if pod.container is None else pod.container.restart_count


def _waits_to_restart(pod: PodRecord) -> bool:
    """Return whether the container has ended and waits for its restart, which is when its count rises."""
    return pod.container is not None and pod.container.phase == "waiting" and pod.last is not None


def _order(pod: PodRecord) -> tuple[datetime, int, str]:
    return pod.created_at or _EARLY, pod.attempt, pod.uid
