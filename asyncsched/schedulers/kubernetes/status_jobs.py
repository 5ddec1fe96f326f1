"""Reduce jobs of both kinds, PodGroups and events to slim records; like those of pods, this never raises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, cast

from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.status_pods import Raw, integer, items, moment, section, shared_text, text

__all__ = [
    "Condition",
    "EventRecord",
    "JobRecord",
    "Kind",
    "PodGroupRecord",
    "event_record",
    "job_record",
    "jobs_of_app",
    "pod_group_record",
]

Kind = Literal["volcano", "job"]

_MOST_TASKS = 4000
"""Most tasks of a job. A replica may be a separate task of at least 400 bytes, so an object cannot hold more."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A true condition of a job or a PodGroup.

    Attributes:
        type: Its type, such as ``Failed``.
        reason: The reason in one word.
        message: The reason as a sentence.
    """

    type: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job of one of the two kinds.

    Attributes:
        kind: Its kind.
        namespace: Its namespace.
        app: The name of its app.
        name: Its name: the app's name, except for the Jobs of later roles.
        uid: Its unique id.
        owners: The uids of its owners.
        created_at: When it was created.
        started_at: When it started, if the kind reports it.
        finished_at: When it ended, if the kind reports it.
        session: The session that submitted it.
        app_name: The name in the AppDef.
        digest: The digest of the request.
        note: The note of the roles, not parsed.
        queue: Its queue.
        cancelled: Whether asyncsched's annotation marks it as cancelled.
        unscheduled: Whether asyncsched's annotation marks it as ended for not starting in time.
        phase: Volcano's phase; empty at first, and for a Job.
        message: Volcano's message for the phase.
        conditions: The true conditions of a Job.
        suspended: Whether it is suspended.
        role_index: The role's index, for a Job of one role.
        tasks: Task names and numbers of replicas.
        succeeded: How many replicas have succeeded, if the kind reports it.
        failed: How many pods have failed.
        ready: How many pods are ready.
        active: How many pods exist and have not ended.
        terminating: How many pods are terminating.
        failed_indexes: The ids of replicas that finally failed, as written by the Job: ``1,3-5``.
        completed_indexes: The ids of replicas that succeeded, in the same form.
        retry_count: Volcano's count of restarts.
        max_retry: The count at which Volcano gives up.
        pending_limited: Whether Volcano ends it if it does not start in time.
        least: How many replicas must succeed, for a Volcano job without a policy for failures; else 0. A Table shows
            it whatever the policies.
        task_least: The same for each task; empty if read from a Table.
    """

    kind: Kind
    namespace: str
    app: str
    name: str
    uid: str
    owners: tuple[str, ...] = ()
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    session: str = ""
    app_name: str = ""
    digest: str = ""
    note: str = ""
    queue: str = ""
    cancelled: bool = False
    unscheduled: bool = False
    phase: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    suspended: bool = False
    role_index: int = 0
    tasks: tuple[tuple[str, int], ...] = ()
    succeeded: int = 0
    failed: int = 0
    ready: int = 0
    active: int = 0
    terminating: int = 0
    failed_indexes: str = ""
    completed_indexes: str = ""
    retry_count: int = 0
    max_retry: int = 0
    pending_limited: bool = False
    least: int = 0
    task_least: tuple[int, ...] = ()

    @property
    def app_id(self) -> str:
        """The id of its app."""
        return names.app_id(self.namespace, self.app)

    @property
    def is_first(self) -> bool:
        """Whether it is the app's first job, which has the app's name and the annotations, and owns the others.

        Anybody can set the label; only a submit by asyncsched writes the digest.
        """
        return self.name == self.app and bool(self.digest)

    def has_enough(self, succeeded: Mapping[str, int]) -> bool:
        """Return whether Volcano counts the job as successful although some of its replicas have failed.

        Args:
            succeeded: How many replicas of each task succeeded, once all have ended.
        """
        if not self.least or not self.task_least or sum(succeeded.values()) < self.least:
            return False
        names_and_least = zip(self.tasks, self.task_least, strict=False)
        return self.least < sum(self.task_least) or all(
            succeeded.get(name, 0) >= least for (name, _), least in names_and_least
        )

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of this type if it is true."""
        return next((each for each in self.conditions if each.type == kind), None)


def jobs_of_app(jobs: Iterable[JobRecord]) -> list[JobRecord]:
    """Return an app's first job and the jobs that it owns; none without the first one.

    Labels are not enough: anybody can copy a job's manifest. The first job has asyncsched's annotation and a unique
    name, and the Jobs of other roles have it as their owner.
    """
    jobs = list(jobs)
    first = next((job for job in jobs if job.is_first), None)
    if first is None:
        return []
    return [job for job in jobs if job is first or (job.kind == first.kind and first.uid in job.owners)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroupRecord:
    """The PodGroup of a Volcano job.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        uid: Its unique id.
        owner: The uid of its job.
        phase: Pending, Inqueue, Running, Unknown or Completed.
        conditions: The true conditions.
    """

    namespace: str
    name: str
    uid: str
    owner: str = ""
    phase: str = ""
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """An event.

    Attributes:
        uid: The uid of its object.
        about: The object's kind and name.
        kind: Normal or Warning.
        reason: What happened, in one word.
        message: What happened, as a sentence.
        seen_at: When it last happened.
    """

    uid: str
    about: str = ""
    kind: str = "Normal"
    reason: str = ""
    message: str = ""
    seen_at: datetime | None = None


def job_record(raw: object, kind: Kind) -> JobRecord | None:
    """Return the record of a job; None for a job that does not belong to an asyncsched app. Never raises."""
    metadata = section(raw, "metadata")
    labels, annotations = section(metadata, "labels"), section(metadata, "annotations")
    app, name, uid = text(labels.get(names.APP)), text(metadata.get("name")), text(metadata.get("uid"))
    if not (app and name and uid) or not names.is_subdomain(app):
        return None
    spec, status = section(raw, "spec"), section(raw, "status")
    state = section(status, "state")
    return JobRecord(
        kind=kind,
        namespace=shared_text(metadata.get("namespace")) or "default",
        app=app,
        name=name,
        uid=uid,
        owners=_owners(metadata),
        created_at=moment(metadata.get("creationTimestamp")),
        started_at=moment(status.get("startTime")),
        finished_at=_finished_at(status, state, kind),
        session=shared_text(annotations.get(names.SESSION)) or shared_text(labels.get(names.SESSION)),
        app_name=text(annotations.get(names.APP_NAME)) or app,
        digest=text(annotations.get(names.REQUEST)),
        note=_note(annotations),
        queue=shared_text(spec.get("queue")) or shared_text(labels.get(names.KUEUE_QUEUE)),
        cancelled=names.CANCELLED in annotations,
        unscheduled=names.UNSCHEDULED in annotations,
        phase=shared_text(state.get("phase")) if kind == "volcano" else "",
        message=text(state.get("message")),
        conditions=_conditions(status) if kind == "job" else (),
        suspended=spec.get("suspend") is True,
        role_index=integer(labels.get(names.ROLE_INDEX)) or 0,
        tasks=_tasks(spec) if kind == "volcano" else ((text(labels.get(names.ROLE)), _count(spec, "completions")),),
        succeeded=_count(status, "succeeded"),
        failed=_count(status, "failed"),
        ready=_count(status, "ready") if kind == "job" else _count(status, "running"),
        active=_count(status, "active") if kind == "job" else _count(status, "running") + _count(status, "pending"),
        terminating=_count(status, "terminating"),
        failed_indexes=_indexes(status.get("failedIndexes")),
        completed_indexes=_indexes(status.get("completedIndexes")),
        retry_count=_count(status, "retryCount"),
        max_retry=_count(spec, "maxRetry"),
        pending_limited=any(policy.get("event") == "PodPending" for policy in items(spec.get("policies"))),
        least=0 if kind == "job" or _acts_on_failure(spec) else _count(spec, "minAvailable"),
        task_least=tuple(_count(task, "minAvailable") for task in items(spec.get("tasks"))[:_MOST_TASKS]),
    )


def _acts_on_failure(spec: Raw) -> bool:
    owners: list[Raw] = [spec, *items(spec.get("tasks"))[:_MOST_TASKS]]
    return any("events" in policy for owner in owners for policy in items(owner.get("policies")))


def _note(annotations: Raw) -> str:
    note = annotations.get(names.ROLES)
    return note if isinstance(note, str) else ""


def _indexes(value: object) -> str:
    return value if isinstance(value, str) else ""


def _finished_at(status: Raw, state: Raw, kind: Kind) -> datetime | None:
    if kind == "volcano":
        return moment(state.get("lastTransitionTime"))
    ends = [each for each in items(status.get("conditions")) if each.get("type") in ("Complete", "Failed")]
    held = [moment(each.get("lastTransitionTime")) for each in ends if each.get("status") == "True"]
    return next((each for each in held if each is not None), moment(status.get("completionTime")))


def _conditions(status: Raw) -> tuple[Condition, ...]:
    """Return the true conditions; others mean nothing."""
    held = [each for each in items(status.get("conditions")) if each.get("status") == "True"]
    return tuple(
        Condition(shared_text(each.get("type")), shared_text(each.get("reason")), text(each.get("message")))
        for each in held
    )


def _tasks(spec: Raw) -> tuple[tuple[str, int], ...]:
    return tuple(
        (shared_text(task.get("name")), _count(task, "replicas")) for task in items(spec.get("tasks"))[:_MOST_TASKS]
    )


def _count(raw: Raw, key: str) -> int:
    return max(0, integer(raw.get(key)) or 0)


def _owners(metadata: Raw) -> tuple[str, ...]:
    return tuple(text(each.get("uid")) for each in items(metadata.get("ownerReferences")))


def pod_group_record(raw: object) -> PodGroupRecord | None:
    """Return the record of a PodGroup; None if `raw` is not one. Never raises."""
    metadata, status = section(raw, "metadata"), section(raw, "status")
    name, uid = text(metadata.get("name")), text(metadata.get("uid"))
    if not (name and uid):
        return None
    owners = _owners(metadata)
    return PodGroupRecord(
        namespace=shared_text(metadata.get("namespace")) or "default",
        name=name,
        uid=uid,
        owner=owners[0] if owners else "",
        phase=shared_text(status.get("phase")),
        conditions=_conditions(status),
    )


def event_record(raw: object) -> EventRecord | None:
    """Return the record of an event; None if it has no object. Never raises."""
    about = section(raw, "involvedObject")
    uid = text(about.get("uid"))
    if not uid:
        return None
    event = cast("Raw", raw)
    times = (event.get("lastTimestamp"), section(event, "series").get("lastObservedTime"), event.get("eventTime"))
    created = section(event, "metadata").get("creationTimestamp")
    seen = [found for each in (*times, created) if (found := moment(each)) is not None]
    return EventRecord(
        uid=uid,
        about=f"{text(about.get('kind'))} {text(about.get('name'))}".strip(),
        kind=shared_text(event.get("type")) or "Normal",
        reason=shared_text(event.get("reason")),
        message=text(event.get("message")),
        seen_at=max(seen, default=None),
    )
