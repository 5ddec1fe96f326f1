"""Jobs of both kinds, PodGroups and events as slim records; never raising, like those of pods."""

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
"""Each replica may be a task of its own, and no object holds more of them: each takes 400 bytes at least."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that holds, of a job, or of a PodGroup.

    Attributes:
        type: What it says, such as ``Failed``.
        reason: Why, as one word.
        message: Why, as a sentence.
    """

    type: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job of one of the two kinds.

    Attributes:
        kind: Which kind.
        namespace: Its namespace.
        app: The name of its app.
        name: Its own name: the app's, but for the Jobs of later roles.
        uid: What tells it from every other job.
        owners: The uids of what it is owned by.
        created_at: When it was made.
        started_at: When it started, where the kind tells.
        finished_at: When it ended, where the kind tells.
        session: The session that submitted it.
        app_name: The name that the app was given.
        digest: The digest of what was asked for.
        note: The note of the roles, unread.
        queue: Its queue.
        cancelled: Whether its cancel was asked for with our annotation.
        unscheduled: Whether it was ended because it had not begun in time, likewise.
        phase: Volcano's phase; empty in the first moments, and for the other kind.
        message: Volcano's sentence to it.
        conditions: The conditions that hold, of the other kind.
        suspended: Whether it is suspended.
        role_index: The role's place, where it is the Job of one role.
        tasks: Task names and numbers of replicas.
        succeeded: How many replicas have succeeded, where the kind tells.
        failed: How many pods have failed.
        ready: How many pods are ready.
        active: How many pods there are that have not ended.
        terminating: How many pods are being ended.
        failed_indexes: Numbers of replicas that failed for good, as the Job writes them: ``1,3-5``.
        completed_indexes: Numbers of those that succeeded, likewise.
        retry_count: How often Volcano has counted a restart.
        max_retry: At which count it gives up.
        pending_limited: Whether Volcano ends it where it does not begin in time.
        least: How many replicas have to succeed, of Volcano's where it does not act on a failure; else 0.
        task_least: Likewise of each of its tasks.
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
        """Whether it is the one that the app is named after: it carries the annotations, and owns the others.

        Anybody can set the label; only our submit writes the digest of what was asked for.
        """
        return self.name == self.app and bool(self.digest)

    def has_enough(self, succeeded: Mapping[str, int]) -> bool:
        """Tell whether Volcano takes the job for a success although some of its replicas have failed.

        Args:
            succeeded: How many replicas of each task have succeeded, when all have ended.
        """
        if not self.least or sum(succeeded.values()) < self.least:
            return False
        names_and_least = zip(self.tasks, self.task_least, strict=False)
        return self.least < sum(self.task_least) or all(
            succeeded.get(name, 0) >= least for (name, _), least in names_and_least
        )

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of this type if it holds."""
        return next((each for each in self.conditions if each.type == kind), None)


def jobs_of_app(jobs: Iterable[JobRecord]) -> list[JobRecord]:
    """Return the job that an app is named after and those that it owns; none without it.

    Labels prove nothing: anybody can copy the manifest of a job of ours. The first job has our annotation and the name
    that only one can have, and the Jobs of other roles name it as their owner.
    """
    jobs = list(jobs)
    first = next((job for job in jobs if job.is_first), None)
    if first is None:
        return []
    return [job for job in jobs if job is first or (job.kind == first.kind and first.uid in job.owners)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroupRecord:
    """Volcano's PodGroup of a job.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        uid: What tells it from every other one.
        owner: The uid of its job.
        phase: Pending, Inqueue, Running, Unknown or Completed.
        conditions: The conditions that hold.
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
        uid: The uid of the object that it is about.
        about: That object's kind and name.
        kind: Normal or Warning.
        reason: What happened, as one word.
        message: What happened, as a sentence.
        seen_at: When it happened last.
    """

    uid: str
    about: str = ""
    kind: str = "Normal"
    reason: str = ""
    message: str = ""
    seen_at: datetime | None = None


def job_record(raw: object, kind: Kind) -> JobRecord | None:
    """Return what is kept of a job; None for one that is not of an app of ours. Never raises."""
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
    """Return the conditions that hold: one that is not, or no longer, true says nothing."""
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
    """Return what is kept of a PodGroup; None for what is not one. Never raises."""
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
    """Return what is kept of an event; None for one that is about nothing. Never raises."""
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
