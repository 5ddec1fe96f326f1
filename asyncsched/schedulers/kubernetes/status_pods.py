"""Pods as slim records: what is kept of each, and nothing else. Anybody may have written what is read here.

A record is some two kilobytes smaller than the pod that it is made from, so that a reflector can hold fifty thousand.
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
"""An object of the API, as its JSON has it."""

_LONGEST = 4096
_NEVER = 1970
_RESTARTS = ("volcano.sh/job-retry-count", "batch.kubernetes.io/job-index-failure-count")
_VOLCANO_JOB = "volcano.sh/job-name"
_INDEXES = (names.REPLICA, "volcano.sh/task-index", "batch.kubernetes.io/job-completion-index")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRecord:
    """A container as the kubelet last told of it.

    Attributes:
        name: Its name.
        phase: What it does.
        reason: Why it waits or has ended, as one word.
        message: The same as a sentence, or what the program has left as its termination message.
        exit_code: What it has ended with.
        signal: The number of the signal that has ended it, where the runtime tells.
        started_at: When it started.
        finished_at: When it ended.
        restart_count: How often it was started again in this pod.
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
        name: Its name, which a pod that replaces it may have too.
        uid: What tells it from every other pod.
        owner: The uid of the job that it belongs to.
        role: The role's name.
        task: The role's task name.
        replica: Its number in the role.
        attempt: Which run of its replica it is, counted from 0, as far as the controller tells; Volcano's RestartPod
            tells nothing.
        created_at: When it was made.
        deleted_at: When its deletion was asked for.
        phase: Pending, Running, Succeeded, Failed or Unknown.
        reason: Its status' reason, such as Evicted or DeadlineExceeded.
        message: Its status' message.
        hostname: Its name for the other pods.
        scheduled: Whether it has a node.
        unscheduled: Why it has none: the reason of its condition PodScheduled, and the sentence.
        disrupted: Why it is evicted: likewise of its condition DisruptionTarget.
        container: Our container, as far as the kubelet has told of it.
        last: Our container's run before, if it was started again in this pod.
        init: The first init container that fails or waits for something, if there is one.
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
        """Whether our container, or the whole pod, has come to its end: sidecars do not count."""
        return self.phase in ("Succeeded", "Failed") or (
            self.container is not None and self.container.phase == "terminated"
        )

    @property
    def started(self) -> bool:
        """Whether our container has started; a pod can fail before."""
        if self.container is None:
            return self.phase in ("Running", "Succeeded")
        return self.container.phase in ("running", "terminated")


def pod_record(raw: object) -> PodRecord | None:
    """Return what is kept of a pod; None for one that is not of an app of ours.

    Never raises, whatever it is given: what is not of the form that Kubernetes writes has its default.
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
    """Return a replica's number; an older Volcano tells it in the pod's name alone."""
    written = (source.get(key) for key in _INDEXES for source in (labels, annotations))
    if (told := next((each for each in written if each is not None), None)) is not None:
        return integer(told)
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
    """Return the first init container that is neither done nor well."""
    for each in items(status.get("initContainerStatuses")):
        last = section(section(each, "lastState"), "terminated")
        record = _container(each, section(each, "state"))
        if record.phase == "waiting" and last:
            return _in_phase(each, "terminated", last)  # it is started again and again
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


# Reading what may be of any form


def section(raw: object, key: str) -> Raw:
    """Return the object under a key; an empty one where there is none."""
    value = cast("Raw", raw).get(key) if isinstance(raw, Mapping) else None
    return cast("Raw", value) if isinstance(value, Mapping) else {}


def items(value: object) -> Sequence[Raw]:
    """Return the objects in a list."""
    if not isinstance(value, list):
        return ()
    return [cast("Raw", item) for item in cast("list[object]", value) if isinstance(item, Mapping)]


def text(value: object) -> str:
    """Return a text of bounded length that can be encoded; empty for what is not one."""
    return well_formed(value[:_LONGEST]) if isinstance(value, str) else ""


def shared_text(value: object) -> str:
    """Return a text that many records have in common: it is kept once."""
    found = text(value)
    return sys.intern(found) if found else ""


def integer(value: object) -> int | None:
    """Return a whole number of at most nine digits, which annotations write as a text."""
    if isinstance(value, str) and len(value) <= MOST_DIGITS and value.isascii() and value.isdigit():
        return int(value)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return cast("int", value) if is_number and abs(cast("int", value)) < 10**MOST_DIGITS else None


def moment(value: object) -> datetime | None:
    """Return a time, aware UTC; None for what is not one."""
    if not isinstance(value, str) or len(value) > len("2026-11-22T12:00:00.000000000+00:00"):
        return None
    try:
        found = datetime.fromisoformat(value)
        # The beginning of time stands for what has never been.
        return found.astimezone(UTC) if found.tzinfo is not None and found.year > _NEVER else None
    except (ValueError, OverflowError):  # not a time, or one before the year 1
        return None
