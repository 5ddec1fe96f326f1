"""Which runs a replica has had, in what order, and which of them are still to be read."""

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
    """One run of our container: a pod, and how often the container had been started in it before.

    Attributes:
        pod: The pod as it is known now, or was when it was seen last.
        number: The container's restart count in this run.
        attempt: Which run of the replica it is, counted from 0, as far as that is known.
        gone: Whether the pod is there no more.
    """

    pod: PodRecord
    number: int
    attempt: int
    gone: bool = False

    @property
    def is_previous(self) -> bool:
        """Whether the container was started again since: its log has to be asked for as that of the run before."""
        return not self.gone and restarts(self.pod) > self.number

    @property
    def ended(self) -> bool:
        """Whether nothing more will be written."""
        return self.gone or self.is_previous or self.pod.ended or _waits_to_restart(self.pod)

    def record(self) -> ContainerRecord | None:
        """Return what the kubelet has told of this run."""
        pod = self.pod
        found = pod.container
        if found is None or not (self.is_previous or found.phase == "waiting"):
            return found
        return pod.last


@dataclass(frozen=True, slots=True)
class Lost:
    """Attempts whose log cannot be had any more, and that nobody has read.

    Attributes:
        first: The first of them.
        last: The last of them.
        why: What became of them.
        before: When what is there was made.
    """

    first: int
    last: int
    why: Literal["deleted", "restarted"]
    before: datetime | None = None


@dataclass(slots=True, eq=False)
class _Pod:
    """What is known of one pod of the replica."""

    record: PodRecord
    base: int  # the attempt of its container's first run
    read: int = 0  # so many runs of it have been read, or are lost
    gone: bool = False
    told: bool = False  # whether what stands before it has been looked at


class Runs:
    """The runs of one replica.

    A pod that replaces another has its name or a new one, and always a new uid. Which attempt it is the controller
    tells, or it is the one after the pod that was seen before it.
    """

    def __init__(self) -> None:
        self._pods: dict[str, _Pod] = {}
        self._next_attempt = 0

    @property
    def seen(self) -> bool:
        """Whether a pod of the replica was ever seen."""
        return bool(self._pods)

    def update(self, records: Iterable[PodRecord]) -> None:
        """Take note of the pods that there are now."""
        there = sorted(records, key=_order)
        if there:  # a job that had this name before is another app
            there = [pod for pod in there if pod.owner == there[-1].owner]
        by_uid = {pod.uid: pod for pod in there}
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
        """Return the run to read now, or what is lost before it; None while there is nothing to read.

        A run comes again until `done` is called for it.
        """
        for pod in self._pods.values():
            while pod.read <= restarts(pod.record):
                attempt = pod.base + pod.read
                if not pod.told:
                    pod.told = True
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
        """Return a run as it is known by now."""
        known = self._pods.get(run.pod.uid)
        if known is None:
            return run
        return Run(known.record, run.number, run.attempt, gone=known.gone)

    def done(self, run: Run) -> None:
        """Take note that a run has been read as far as it can be."""
        known = self._pods[run.pod.uid]
        known.read = max(known.read, run.number + 1)
        self._next_attempt = max(self._next_attempt, run.attempt + 1)

    def _lose(self, pod: _Pod, count: int, why: Literal["deleted", "restarted"]) -> Lost:
        first = pod.base + pod.read
        pod.read += count
        self._next_attempt = max(self._next_attempt, first + count)
        return Lost(first, first + count - 1, why)

    def _skip(self, pod: _Pod) -> None:
        """Pass over a pod that has ended before its container could start."""
        pod.read = restarts(pod.record) + 1
        self._next_attempt = max(self._next_attempt, pod.base + 1)


def has_run(pod: PodRecord) -> bool:
    """Tell whether our container has ever run in a pod, as far as the kubelet has told."""
    container = pod.container
    return container is not None and (
        container.phase == "running"
        or container.restart_count > 0
        or pod.last is not None
        or (container.phase == "terminated" and container.reason != "ContainerStatusUnknown")
    )


def restarts(pod: PodRecord) -> int:
    """Return how often our container was started again in a pod."""
    return 0 if pod.container is None else pod.container.restart_count


def _waits_to_restart(pod: PodRecord) -> bool:
    """Tell whether the container has ended and waits to be started again; its count rises only then."""
    return pod.container is not None and pod.container.phase == "waiting" and pod.last is not None


def _order(pod: PodRecord) -> tuple[datetime, int, str]:
    return pod.created_at or _EARLY, pod.attempt, pod.uid
