"""Reduce pods to slim records. The input is untrusted.

A record is about two kilobytes smaller than its pod, so that a reflector can hold fifty thousand.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, cast

from asyncsched.schedulers._common.untrusted import MOST_DIGITS, well_formed
from asyncsched.schedulers.kubernetes import names

__all__ = [
    "ContainerRecord",
    "PodRecord",
    "Raw",
    "integer",
    "items",
    "moment",
    "pod_record",
    "section",
    "shared_text",
    "text",
]

Raw = Mapping[str, object]
"""The JSON of an API object."""

_LONGEST = 4096
_NEVER = 1970
_RESTARTS = ("volcano.sh/job-retry-count", "batch.kubernetes.io/job-index-failure-count")
_VOLCANO_JOB = "volcano.sh/job-name"
_INDEXES = (names.REPLICA, "volcano.sh/task-index", "batch.kubernetes.io/job-completion-index")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRecord:
    """A container as last reported by the kubelet.

    Attributes:
        name: Its name.
        phase: Its phase.
        reason: Why it waits or has ended, in one word.
        message: Why it waits or has ended, as a sentence, or the program's termination message.
        exit_code: Its exit code.
        signal: The number of the signal that ended it, if the runtime reports one.
        started_at: When it started.
        finished_at: When it ended.
        restart_count: How often it was restarted in this pod.
        ready: Whether it is ready.
    """

    name: str = names.CONTAINER
    phase: Literal["waiting", "running", "terminated"] = "waiting"
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    signal: int | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    restart_count: int = 0
    ready: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRecord:
    """A pod of an app.

    Attributes:
        namespace: Its namespace.
        app: The name of its app.
        name: Its name; a pod that replaces it may have the same one.
        uid: Its unique id.
        owner: The uid of its job.
        role: The role's name.
        task: The role's task name.
        replica: The id of its replica in the role.
        attempt: The number of the run within its replica, counted from 0, if the controller reports it; Volcano's
            RestartPod does not.
        created_at: When it was created.
        deleted_at: When its deletion was requested.
        phase: Pending, Running, Succeeded, Failed or Unknown.
        reason: The reason in its status, such as Evicted or DeadlineExceeded.
        message: The message in its status.
        hostname: Its name for the other pods.
        scheduled: Whether it has a node.
        unscheduled: Why it has none: reason and message of its condition PodScheduled.
        disrupted: Why it is evicted: reason and message of its condition DisruptionTarget.
        container: The main container, if the kubelet has reported it.
        last: The main container's previous run, if it was restarted in this pod.
        init: The first init container that failed or waits, if there is one.
    """

    namespace: str
    app: str
    name: str
    uid: str
    owner: str = ""
    role: str = ""
    task: str = ""
    replica: int = 0
    attempt: int = 0
    created_at: datetime | None = None
    deleted_at: datetime | None = None
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    hostname: str = ""
    scheduled: bool = False
    unscheduled: tuple[str, str] = ("", "")
    disrupted: tuple[str, str] | None = None
    container: ContainerRecord | None = None
    last: ContainerRecord | None = None
    init: ContainerRecord | None = None

    @property
    def ended(self) -> bool:
        """Whether the main container or the whole pod has ended; sidecars do not count."""
        return self.phase in ("Succeeded", "Failed") or (
            self.container is not None and self.container.phase == "terminated"
        )

    @property
    def started(self) -> bool:
        """Whether the main container has started; a pod can fail before that."""
        if self.container is None:
            return self.phase in ("Running", "Succeeded")
        return self.container.phase in ("running", "terminated")


def pod_record(raw: object) -> PodRecord | None:
    """Return the record of a pod; None for a pod that does not belong to an asyncsched app.

    Never raises: values of an unexpected form are replaced by defaults.
    """
    metadata = section(raw, "metadata")
    labels, annotations = section(metadata, "labels"), section(metadata, "annotations")
    app, name, uid = text(labels.get(names.APP)), text(metadata.get("name")), text(metadata.get("uid"))
    task = text(labels.get(names.ROLE))
    replica = _replica(labels, annotations, name)
    if not (app and name and uid and task) or replica is None:
        return None
    spec, status = section(raw, "spec"), section(raw, "status")
    conditions = {text(each.get("type")): each for each in items(status.get("conditions"))}
    container, last = _own_container(status)
    return PodRecord(
        namespace=shared_text(metadata.get("namespace")) or "default",
        app=sys.intern(app),
        name=name,
        uid=uid,
        owner=_owner(metadata),
        role=shared_text(annotations.get(names.ROLE)) or sys.intern(task),
        task=sys.intern(task),
        replica=replica,
        attempt=max(integer(annotations.get(key)) or 0 for key in _RESTARTS),
        created_at=moment(metadata.get("creationTimestamp")),
        deleted_at=moment(metadata.get("deletionTimestamp")),
        phase=shared_text(status.get("phase")) or "Pending",
        reason=shared_text(status.get("reason")),
        message=text(status.get("message")),
        hostname=text(spec.get("hostname")) or name,
        scheduled=bool(text(spec.get("nodeName"))),
        unscheduled=_said_not(conditions.get("PodScheduled"), "False") or ("", ""),
        disrupted=_said_not(conditions.get("DisruptionTarget"), "True"),
        container=container,
        last=last,
        init=_init_that_holds_up(status),
    )


def _replica(labels: Raw, annotations: Raw, name: str) -> int | None:
    """Return a replica's id; older versions of Volcano have it only in the pod's name."""
    written = (source.get(key) for key in _INDEXES for source in (labels, annotations))
    if (found := next((each for each in written if each is not None), None)) is not None:
        return integer(found)
    return integer(name.rpartition("-")[2]) if _VOLCANO_JOB in labels else None


def _owner(metadata: Raw) -> str:
    owners = [each for each in items(metadata.get("ownerReferences")) if each.get("controller") is True]
    return shared_text(owners[0].get("uid")) if owners else ""


def _said_not(condition: Raw | None, status: str) -> tuple[str, str] | None:
    if condition is None or condition.get("status") != status:
        return None
    return shared_text(condition.get("reason")), text(condition.get("message"))


def _own_container(status: Raw) -> tuple[ContainerRecord | None, ContainerRecord | None]:
    for each in items(status.get("containerStatuses")):
        if each.get("name") == names.CONTAINER:
            before = section(each, "lastState")
            return _container(each, section(each, "state")), _container(each, before) if before else None
    return None, None


def _init_that_holds_up(status: Raw) -> ContainerRecord | None:
    """Return the first init container that is neither done nor healthy."""
    for each in items(status.get("initContainerStatuses")):
        last = section(section(each, "lastState"), "terminated")
        record = _container(each, section(each, "state"))
        if record.phase == "waiting" and last:
            return _in_phase(each, "terminated", last)  # it restarts repeatedly
        failed = record.phase == "terminated" and record.exit_code != 0
        waits = record.phase == "waiting" and record.reason not in ("", "PodInitializing")
        if failed or waits or (record.restart_count and record.phase != "terminated" and not record.ready):
            return record
    return None


def _container(status: Raw, state: Raw) -> ContainerRecord:
    for phase in ("terminated", "running"):
        if phase in state:
            return _in_phase(status, phase, section(state, phase))
    return _in_phase(status, "waiting", section(state, "waiting"))


def _in_phase(status: Raw, phase: Literal["waiting", "running", "terminated"], state: Raw) -> ContainerRecord:
    return ContainerRecord(
        name=shared_text(status.get("name")),
        phase=phase,
        reason=shared_text(state.get("reason")),
        message=text(state.get("message")),
        exit_code=integer(state.get("exitCode")) if phase == "terminated" else None,
        signal=integer(state.get("signal")) or None,
        started_at=moment(state.get("startedAt")),
        finished_at=moment(state.get("finishedAt")),
        restart_count=integer(status.get("restartCount")) or 0,
        ready=status.get("ready") is True,
    )


# Reading untrusted values


def section(raw: object, key: str) -> Raw:
    """Return the object under a key; an empty one if there is none."""
    value = cast("Raw", raw).get(key) if isinstance(raw, Mapping) else None
    return cast("Raw", value) if isinstance(value, Mapping) else {}


def items(value: object) -> Sequence[Raw]:
    """Return the objects in a list."""
    if not isinstance(value, list):
        return ()
    return [cast("Raw", item) for item in cast("list[object]", value) if isinstance(item, Mapping)]


def text(value: object) -> str:
    """Return a text, shortened to a bounded length and safe to encode; empty if `value` is not a text."""
    return well_formed(value[:_LONGEST]) if isinstance(value, str) else ""


def shared_text(value: object) -> str:
    """Return a text that many records share, interned."""
    found = text(value)
    return sys.intern(found) if found else ""


def integer(value: object) -> int | None:
    """Return a whole number of at most nine digits, which may be written as text as in annotations."""
    if isinstance(value, str) and len(value) <= MOST_DIGITS and value.isascii() and value.isdigit():
        return int(value)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return cast("int", value) if is_number and abs(cast("int", value)) < 10**MOST_DIGITS else None


def moment(value: object) -> datetime | None:
    """Return an aware UTC time; None if `value` is not a time."""
    if not isinstance(value, str) or len(value) > len("2026-11-22T12:00:00.000000000+00:00"):
        return None
    try:
        found = datetime.fromisoformat(value)
        # Go's zero time means never.
        return found.astimezone(UTC) if found.tzinfo is not None and found.year > _NEVER else None
    except (ValueError, OverflowError):  # not a time, or one before the year 1
        return None
