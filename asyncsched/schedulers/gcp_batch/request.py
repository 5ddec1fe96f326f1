"""Convert an app to a job of Google Cloud Batch: plain JSON, as Google's libraries write it, without I/O."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import cast
from uuid import uuid4

from asyncsched.errors import UsageError
from asyncsched.schedulers.gcp_batch.names import (
    DIGEST_LABEL,
    LONGEST_LABEL,
    REQUEST_LABEL,
    GCPJobRef,
    label_value,
    own_labels,
    parse_app_id,
)
from asyncsched.schedulers.gcp_batch.names_note import NOTE_ENV, make_note
from asyncsched.schedulers.gcp_batch.options import GCPBatchOpts
from asyncsched.schedulers.gcp_batch.request_limits import check_app, check_labels, check_size
from asyncsched.schedulers.gcp_batch.request_machine import allocation
from asyncsched.schedulers.gcp_batch.request_options import MAX_HOSTS, MAX_PARALLEL, check_options
from asyncsched.schedulers.gcp_batch.request_task import present, shares_network, task_runnables, task_volumes
from asyncsched.specs.app import AppDef, Resource, Role
from asyncsched.specs.dryrun import Ignored, pretty
from asyncsched.specs.secret import revealed

__all__ = ["GCPBatchJob", "adopt", "check_unrenamed", "late_replicas", "make_request", "to_wire"]

Json = dict[str, object]

PREEMPTED = 50001
OVER_TIME = 50005
"""Exit codes that Batch sets for a task."""


@dataclass(repr=False)
class GCPBatchJob:
    """The Google Cloud Batch job of one app, shown by a dry-run; it may be edited before it is scheduled.

    Attributes:
        name: The job's name, unique in its project and location.
        project: The project.
        location: The region.
        job_def: The JSON of the job for ``jobs.create``.
        images_to_push: Local images, with the repository and tag to push each to first.
        request_id: Makes Google accept the submit once, however often it is sent within an hour.
        pending_timeout: Seconds after which this scheduler cancels the job if it has not run.
    """

    name: str
    project: str
    location: str
    job_def: Json
    images_to_push: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]], kw_only=True)
    request_id: str = field(default_factory=lambda: str(uuid4()), kw_only=True)
    pending_timeout: float | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        return pretty(self)

    @property
    def ref(self) -> GCPJobRef:
        """Project, location and name of the job."""
        return GCPJobRef(self.project, self.location, self.name)


def make_request(app: AppDef, options: GCPBatchOpts, *, app_id: str, session: str, version: str) -> GCPBatchJob:
    """Make the request for an app.

    Args:
        app: The app; it is not changed.
        options: The run options.
        app_id: The app's id, which names project, location and job.
        session: The session's name, for a label.
        version: This package's version, for a label.

    Raises:
        ConfigError: Google would refuse the app; nothing has been sent.
    """
    check_app(app, options)
    (role,) = app.roles
    check_options(options, role.num_replicas)
    check_labels(options.labels or {})
    ref = parse_app_id(app_id)
    job: Json = {
        "taskGroups": [_group(role, options, app_id=app_id, project=ref.project)],
        "allocationPolicy": allocation(role.resource, options),
        "labels": (options.labels or {}) | own_labels(app.name, session, version),
    }
    if options.log_destination == "cloud_logging":
        job["logsPolicy"] = {"destination": "CLOUD_LOGGING"}
    if options.priority:
        job["priority"] = str(options.priority)
    if options.pubsub_topic is not None:
        message = {"type": "JOB_STATE_CHANGED"}
        job["notifications"] = [{"pubsubTopic": options.pubsub_topic, "message": message}]
    request = GCPBatchJob(ref.name, ref.project, ref.location, job, pending_timeout=options.pending_timeout)
    note = make_note(app, name=app.name, session=session, pending_timeout=options.pending_timeout)
    check_size(to_wire(request, digest="x" * LONGEST_LABEL, note=note))
    return request


def adopt(job: GCPBatchJob, *, session: str, version: str) -> tuple[str, GCPBatchJob]:
    """Return the app id of a request written by hand, and the request with asyncsched's labels."""
    given = cast("dict[str, str]", job.job_def.get("labels", {}))
    labels = given | own_labels(job.name, session, version)
    return job.ref.app_id, replace(job, job_def={**job.job_def, "labels": labels})


def check_unrenamed(job: GCPBatchJob, app_id: str) -> None:
    """Check that an edited request still has its app's id.

    Raises:
        UsageError: Another process could not find the job by the app's id.
    """
    if job.ref.app_id != app_id:
        raise UsageError(
            f"the request names the job {job.ref.app_id}, but the app's id is {app_id}",
            why="the dry-run fixes the id",
            fix="do not change request.name, request.project and request.location, or dry-run again",
        )


def to_wire(job: GCPBatchJob, *, digest: str, note: str) -> Json:
    """Return the body of ``jobs.create``.

    Args:
        job: The request.
        digest: The digest of the request.
        note: The note of the app.
    """
    wire = cast("Json", revealed(job.job_def))
    labels = cast("dict[str, str]", wire.setdefault("labels", {}))
    labels[DIGEST_LABEL] = label_value(digest)
    labels[REQUEST_LABEL] = label_value(job.request_id)
    group = cast("list[dict[str, Json]]", wire["taskGroups"])[0]
    environment = cast("dict[str, dict[str, str]]", group.setdefault("taskSpec", {}).setdefault("environment", {}))
    environment.setdefault("variables", {})[NOTE_ENV] = note
    return wire


def late_replicas(app: AppDef, options: GCPBatchOpts) -> Iterator[Ignored]:
    """Yield a notice for each role with more replicas than Batch runs at the same time, unless `parallelism` is set."""
    for role in app.roles:
        if options.parallelism is None and role.num_replicas > MAX_PARALLEL:
            why = f"Google Cloud Batch runs at most {MAX_PARALLEL} of the {role.num_replicas} at the same time"
            if shares_network(role, options) and (options.task_count_per_node or 1) == 1:
                why += f", each on a separate VM: {MAX_PARALLEL} VMs; with replica_network=False they share VMs"
            yield Ignored(role.name, "num_replicas", why)


def _group(role: Role, options: GCPBatchOpts, *, app_id: str, project: str) -> Json:
    count = role.num_replicas
    task: Json = {"runnables": task_runnables(role, options, app_id=app_id, project=project)}
    task |= present(computeResource=_size(role.resource), volumes=task_volumes(role.mounts))
    limit = options.max_run_duration if options.timeout is None else options.timeout
    if limit is not None:
        task["maxRunDuration"] = _duration(limit)
    task |= _retries(role.max_retries, options.retry_on_preemption, limited=limit is not None)
    group: Json = {"taskSpec": task, "taskCount": str(count)}
    if count > 1:
        group["parallelism"] = str(min(options.parallelism or count, count, MAX_PARALLEL))
    shared = shares_network(role, options)
    per_node = options.task_count_per_node or (1 if shared else 0)
    if per_node:
        group["taskCountPerNode"] = str(per_node)
    if shared and -(-count // per_node) <= MAX_HOSTS:
        group["requireHostsFile"] = True
    return group


def _size(resource: Resource) -> Json:
    size: Json = {}
    if resource.cpu > 0:
        size["cpuMilli"] = str(round(resource.cpu * 1000))
    if resource.memMB > 0:
        size["memoryMib"] = str(resource.memMB)
    return size


def _retries(failures: int, preemptions: int, *, limited: bool) -> Json:
    """Return how often and after which exit codes a task is retried.

    Batch accepts one rule only: which exit codes to retry, or which not.
    """
    if not failures + preemptions:
        return {}
    rule: Json | None = None
    if not failures:
        rule = {"action": "RETRY_TASK", "actionCondition": {"exitCodes": [PREEMPTED]}}
    elif limited:
        rule = {"action": "FAIL_TASK", "actionCondition": {"exitCodes": [OVER_TIME]}}
    return {"maxRetryCount": failures + preemptions} | present(lifecyclePolicies=[rule] if rule else [])


def _duration(seconds: float) -> str:
    """Write a duration as Google does: with zero, three, six or nine decimals."""
    nanos = max(1, round(seconds * 1_000_000_000))
    whole, rest = divmod(nanos, 1_000_000_000)
    if not rest:
        return f"{whole}s"
    digits = f"{rest:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{whole}.{digits}s"
