"""Convert an app to the objects to create on the API server, without I/O or an SDK.

The result is a plain value: it prints readably with its secrets masked, and may be edited before it is sent.
`to_wire` converts it to the request bodies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from asyncsched.schedulers.kubernetes import names, request_job, request_volcano
from asyncsched.schedulers.kubernetes.names_note import note_of, note_of_hand_made
from asyncsched.schedulers.kubernetes.options import KubernetesOpts
from asyncsched.schedulers.kubernetes.request_limits import (
    check_app,
    check_options,
    check_pod_names,
    check_size,
)
from asyncsched.schedulers.kubernetes.request_overlay import differences, read_overlay
from asyncsched.schedulers.kubernetes.request_pod import PodContext, common_labels, pod_template, task_labels
from asyncsched.schedulers.kubernetes.status_jobs import Kind
from asyncsched.specs.app import AppDef
from asyncsched.specs.dryrun import pretty
from asyncsched.specs.keeping import ToldApp
from asyncsched.specs.secret import revealed

__all__ = ["KubernetesBodies", "KubernetesJob", "make_request", "release_patch", "to_wire"]

Json = dict[str, Any]


@dataclass(repr=False)
class KubernetesJob:
    """The Kubernetes objects of one app, shown by a dry-run; they may be edited before they are scheduled.

    Attributes:
        images_to_push: Local images, by name or id, with the repository and tag to push each to first.
        resource: The Volcano job, or the Job of the first role.
        others: Objects created after the job and owned by it: the Service by which its pods find each other, and the
            Jobs of the other roles.
        pending_timeout: Seconds that the app may wait for its first run; the submitting scheduler enforces it.
        overlay: The changes that the overlay made to the pods, for information only.
    """

    images_to_push: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    resource: Json = field(default_factory=dict[str, Any])
    others: list[Json] = field(default_factory=list[Json], kw_only=True)
    pending_timeout: float | None = field(default=None, kw_only=True)
    overlay: list[str] = field(default_factory=list[str], kw_only=True)

    def __repr__(self) -> str:
        return pretty(self)

    @property
    def app_id(self) -> str:
        """The id of the request's app."""
        metadata: Mapping[str, Any] = self.resource.get("metadata") or {}
        return names.app_id(str(metadata.get("namespace", "default")), str(metadata.get("name")))

    @property
    def kind(self) -> Kind:
        """The kind of the job."""
        return "volcano" if str(self.resource.get("apiVersion", "")).startswith("batch.volcano.sh/") else "job"

    @property
    def size(self) -> int:
        """How many pod templates the request has."""
        return len(self.resource.get("spec", {}).get("tasks", ())) + len(self.others)

    @property
    def released_last(self) -> bool:
        """Whether the job is created suspended, and released once all objects that it owns exist."""
        labels: Mapping[str, str] = self.resource["metadata"].get("labels") or {}
        return self.kind == "job" and bool(self.others) and names.KUEUE_QUEUE not in labels


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesBodies:
    """The request bodies of an app, with its secrets in plain text.

    Attributes:
        namespace: The namespace of all objects.
        name: The job's name.
        job: The body that creates the job.
        others: The bodies of the objects created after it, without the owner that `owned` adds.
        size: How many bytes the largest body has.
    """

    namespace: str
    name: str
    job: Json = field(repr=False)
    others: tuple[Json, ...] = field(default=(), repr=False)
    size: int

    def owned(self, uid: str) -> list[Json]:
        """Return the bodies of the others, owned by the job with this uid."""
        owners = [request_job.owner(self.job, uid)]
        return [{**body, "metadata": {**body["metadata"], "ownerReferences": owners}} for body in self.others]


def make_request(
    app: AppDef,
    app_id: str,
    options: KubernetesOpts,
    *,
    kind: Kind,
    session: str,
    version: str,
    server: tuple[int, int] | None = None,
) -> KubernetesJob:
    """Make the request for an app.

    Args:
        app: The app; it is not changed.
        app_id: The app's id.
        options: The run options.
        kind: What runs the pods: `options.kind`, or what auto resolved to.
        session: The session's name, for a label.
        version: This package's version, for an annotation.
        server: The server's version, major and minor, if known; newer fields are omitted.

    Raises:
        ConfigError: Kubernetes would refuse the app; nothing has been sent.
    """
    check_app(app, kind)
    check_options(options, kind, sum(role.num_replicas for role in app.roles))
    made = _Making(app, app_id, options, kind, session, version)
    job = made.volcano() if kind == "volcano" else made.jobs(server)
    for body in (job.resource, *job.others):
        check_size(str(body["kind"]), revealed(body))
    return job


class _Making:
    """The parts of one request, shared by both kinds."""

    def __init__(
        self, app: AppDef, app_id: str, options: KubernetesOpts, kind: Kind, session: str, version: str
    ) -> None:
        self.app, self.app_id, self.options = app, app_id, options
        self.kind: Kind = kind
        self.session, self.version = session, version
        self.namespace, self.name = names.split_app_id(app_id)
        self.tasks = names.task_names(self.name, [(role.name, role.num_replicas) for role in app.roles])
        roles = [role.name for role in app.roles]
        self.patches = read_overlay(options.overlay, roles, with_volcano=kind == "volcano")
        self.changes: list[str] = []

    def volcano(self) -> KubernetesJob:
        rank0 = request_volcano.rank0_host(self.name, self.app, self.tasks[0])
        templates = [
            [
                (name, pods, self._template(index, rank0=rank0, replica=replica))
                for name, pods, replica in request_volcano.task_rows(role, self.tasks[index])
            ]
            for index, role in enumerate(self.app.roles)
        ]
        check_pod_names(self.name, [(name, pods) for rows in templates for name, pods, _ in rows])
        job = request_volcano.make_job(self.app, self._metadata(), templates, self.options)
        return self._request(job, [])

    def jobs(self, server: tuple[int, int] | None) -> KubernetesJob:
        app, options = self.app, self.options
        rank0 = request_job.rank0_host(self.name, app)
        has_service = request_job.needs_service(app)
        subdomain = self.name if has_service else None
        called = names.job_names(self.name, self.tasks)
        check_pod_names("", [(name, role.num_replicas) for name, role in zip(called, app.roles, strict=True)])
        in_queue = names.KUEUE_QUEUE in self._labels()
        jobs: list[Json] = []
        for index, (role, name) in enumerate(zip(app.roles, called, strict=True)):
            metadata: Json = self._metadata() if index == 0 else {"name": name, "namespace": self.namespace}
            metadata["labels"] = self._labels() | task_labels(self.tasks[index], index)
            if index and options.annotations:
                metadata["annotations"] = dict(options.annotations)
            template = self._template(index, rank0=rank0, subdomain=subdomain)
            suspend = in_queue or (index == 0 and (has_service or len(called) > 1))
            jobs.append(request_job.make_job(role, metadata, template, options, suspend=suspend, server=server))
        if len(jobs) > 1:
            for job in jobs:  # removing the first Job would remove the others
                job["spec"].pop("ttlSecondsAfterFinished", None)
        service = [request_job.make_service(self.namespace, self.name, self._labels())] if has_service else []
        return self._request(jobs[0], [*service, *jobs[1:]])

    def _request(self, job: Json, others: list[Json]) -> KubernetesJob:
        return KubernetesJob(
            resource=job, others=others, pending_timeout=self.options.pending_timeout, overlay=self.changes
        )

    def _template(self, index: int, *, rank0: str, replica: int | None = None, subdomain: str | None = None) -> Json:
        role = self.app.roles[index]
        place = PodContext(
            app=self.name,
            app_id=self.app_id,
            app_name=self.app.name,
            session=self.session,
            kind=self.kind,
            task=self.tasks[index],
            role_index=index,
            rank0=rank0,
            subdomain=subdomain,
            replica=replica,
            patches=self.patches[role.name],
        )
        before, after = pod_template(role, place, self.options)
        if not replica:
            self.changes += [f"{role.name}: {line}" for line in differences(before, after)]
        return after

    def _labels(self) -> dict[str, str]:
        labels = common_labels(self.name, self.app.name, self.session, self.kind, self.options)
        if self.kind == "job" and self.options.queue is not None:
            labels[names.KUEUE_QUEUE] = self.options.queue
        return labels

    def _metadata(self) -> Json:
        annotations = {
            **(self.options.annotations or {}),
            names.APP_NAME: self.app.name,
            names.VERSION: self.version,
            names.ROLES: note_of(ToldApp(self.app, self.options)),
            **names.said(names.SESSION, self.session)[1],
        }
        return {
            "name": self.name,
            "namespace": self.namespace,
            "labels": self._labels(),
            "annotations": annotations,
        }


def to_wire(
    job: KubernetesJob, app_id: str, digest: str, app: AppDef | None = None, *, by_hand: bool = False
) -> KubernetesBodies:
    """Return the bodies to send for a request, which may have been edited.

    Args:
        job: The request.
        app_id: The id of the app.
        digest: The digest of the request, stored in an annotation.
        app: The app to describe in the note; None to keep the dry-run's note.
        by_hand: Whether the request was written by hand: its note names its fields only.

    Raises:
        ConfigError: An object is larger than the server accepts.
    """
    namespace, name = names.split_app_id(app_id)
    body: Json = revealed(job.resource)
    annotations = body["metadata"].setdefault("annotations", {})
    annotations[names.REQUEST] = digest
    if by_hand:
        annotations[names.ROLES] = note_of_hand_made(_made_with(job), job)
    elif app is not None:
        annotations[names.ROLES] = note_of(app)
    others = tuple(revealed(each) for each in job.others)
    size = max(check_size(str(each.get("kind", "object")), each) for each in (body, *others))
    return KubernetesBodies(namespace=namespace, name=name, job=body, others=others, size=size)


def _made_with(job: KubernetesJob) -> Iterator[str]:
    """Yield the names of the fields of a request and its pods."""
    for body in (job.resource, *job.others):
        spec: Json = body.get("spec") or dict[str, Any]()
        owners: list[Json] = [*(spec.get("tasks") or ()), spec]
        yield from (f"job.{name}" for name in spec if name not in ("tasks", "template"))
        for owner in owners:
            pod: Json = (owner.get("template") or dict[str, Any]()).get("spec") or dict[str, Any]()
            containers: list[Json] = pod.get("containers") or []
            yield from (f"pod.{name}" for name in pod if name != "containers")
            yield from (f"container.{name}" for each in containers for name in each if name != "name")


def release_patch() -> Json:
    """Return the merge patch that starts a suspended job."""
    return {"spec": {"suspend": False}}
