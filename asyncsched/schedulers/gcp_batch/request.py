"""An app as the job that Google Cloud Batch gets: pure, plain JSON as Google's own libraries would write it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast
from uuid import uuid4

from asyncsched.errors import ConfigError, UsageError
from asyncsched.schedulers._common.untrusted import LONGEST_JSON
from asyncsched.schedulers.gcp_batch.names import DIGEST_LABEL, JobRef, label_value, own_labels, parse_app_id
from asyncsched.schedulers.gcp_batch.names_note import NOTE_ENV
from asyncsched.schedulers.gcp_batch.options import GCPBatchOpts
from asyncsched.schedulers.gcp_batch.request_limits import (
    MAX_HOSTS,
    MAX_PARALLEL,
    check_app,
    check_labels,
    check_options,
    check_size,
    revealed,
)
from asyncsched.schedulers.gcp_batch.request_task import present, shares_network, task_runnables, task_volumes
from asyncsched.specs.app import AppDef, Resource, Role
from asyncsched.specs.dryrun import pretty

__all__ = ["GCPBatchJob", "adopt", "check_unrenamed", "make_request", "to_wire"]

Json = dict[str, object]

PREEMPTED = 50001
OVER_TIME = 50005
"""Exit codes that Batch itself gives a task."""

_GPU_MACHINES: Mapping[str, Mapping[int, str]] = {
    "nvidia-tesla-a100": {n: f"a2-highgpu-{n}g" for n in (1, 2, 4, 8)} | {16: "a2-megagpu-16g"},
    "nvidia-a100-80gb": {n: f"a2-ultragpu-{n}g" for n in (1, 2, 4, 8)},
    "nvidia-l4": {1: "g2-standard-4", 2: "g2-standard-24", 4: "g2-standard-48", 8: "g2-standard-96"},
    "nvidia-h100-80gb": {8: "a3-highgpu-8g"},
}
"""Machine types that bring their GPUs, by the GPU's type and their number; others are added to the machine."""


@dataclass(repr=False)
class GCPBatchJob:
    """What Google Cloud Batch gets for one app: shown by a dry-run, and free to be edited before it is scheduled.

    Attributes:
        name: The job's name, which is unique in its project and location.
        project: The project.
        location: The region.
        job_def: The job, as ``jobs.create`` takes it in JSON.
        images_to_push: Local images, and the repository and tag that each is pushed to first.
        request_id: Lets Google take the same submit once, however often it is sent within an hour.
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
    def ref(self) -> JobRef:
        """Which job it will be."""
        return JobRef(self.project, self.location, self.name)


def make_request(app: AppDef, options: GCPBatchOpts, *, app_id: str, session: str, version: str) -> GCPBatchJob:
    """Return what Google Cloud Batch would get for an app.

    Args:
        app: What to run; it is not changed.
        options: The run options.
        app_id: The app's id, which names project, location and job.
        session: The session that the job's labels name.
        version: Our own version, for the labels.

    Raises:
        ConfigError: Google would refuse it; nothing has been sent.
    """
    check_app(app, options)
    (role,) = app.roles
    check_options(options, role.num_replicas)
    check_labels(options.labels or {})
    ref = parse_app_id(app_id)
    job: Json = {
        "taskGroups": [_group(role, options, app_id=app_id, project=ref.project)],
        "allocationPolicy": _allocation(role.resource, options),
        "labels": (options.labels or {}) | own_labels(app.name, session, version),
    }
    if options.log_destination == "cloud_logging":
        job["logsPolicy"] = {"destination": "CLOUD_LOGGING"}
    if options.priority:
        job["priority"] = str(options.priority)
    if options.pubsub_topic is not None:
        message = {"type": "JOB_STATE_CHANGED"}
        job["notifications"] = [{"pubsubTopic": options.pubsub_topic, "message": message}]
    check_size(job, room=LONGEST_JSON)
    return GCPBatchJob(ref.name, ref.project, ref.location, job, pending_timeout=options.pending_timeout)


def adopt(job: GCPBatchJob, *, session: str, version: str) -> tuple[str, GCPBatchJob]:
    """Return the app's id that a request names which somebody has put together, and the request with our labels."""
    given = cast("dict[str, str]", job.job_def.get("labels", {}))
    labels = given | own_labels(job.name, session, version)
    return job.ref.app_id, replace(job, job_def={**job.job_def, "labels": labels})


def check_unrenamed(job: GCPBatchJob, app_id: str) -> None:
    """Check that an edited request still is the one of its app.

    Raises:
        UsageError: Another process would not find the job by the app's id.
    """
    if job.ref.app_id != app_id:
        raise UsageError(
            f"the request names the job {job.ref.app_id}, and the app's id is {app_id}",
            why="the id is fixed at the dry-run",
            fix="leave request.name, request.project and request.location as they are, or dry-run again",
        )


def to_wire(job: GCPBatchJob, *, digest: str, note: str) -> Json:
    """Return what ``jobs.create`` gets.

    Args:
        job: The request.
        digest: A hash of what was asked for.
        note: What is to be kept of the app.
    """
    wire = cast("Json", revealed(copy.deepcopy(job.job_def)))
    labels = cast("dict[str, str]", wire.setdefault("labels", {}))
    labels[DIGEST_LABEL] = label_value(digest)
    group = cast("list[dict[str, Json]]", wire["taskGroups"])[0]
    environment = cast("dict[str, dict[str, str]]", group.setdefault("taskSpec", {}).setdefault("environment", {}))
    environment.setdefault("variables", {})[NOTE_ENV] = note
    return wire


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
    """Return how often a task runs again, and after what.

    Batch takes one rule only: either what is retried, or what is not.
    """
    if not failures + preemptions:
        return {}
    rule: Json | None = None
    if not failures:
        rule = {"action": "RETRY_TASK", "actionCondition": {"exitCodes": [PREEMPTED]}}
    elif limited:
        rule = {"action": "FAIL_TASK", "actionCondition": {"exitCodes": [OVER_TIME]}}
    return {"maxRetryCount": failures + preemptions} | present(lifecyclePolicies=[rule] if rule else [])


def _allocation(resource: Resource, options: GCPBatchOpts) -> Json:
    policy, on_gpus = _machine(resource, options)
    disk: Json = {"sizeGb": str(options.boot_disk_gb)} if options.boot_disk_gb else {}
    disk |= present(type=options.boot_disk_type, image=options.boot_disk_image)
    policy |= present(bootDisk=disk)
    policy["provisioningModel"] = "SPOT" if options.spot else "STANDARD"
    instance: Json = {"policy": policy}
    if on_gpus and options.install_gpu_drivers:
        instance["installGpuDrivers"] = True
    allocation: Json = {"instances": [instance]}
    if options.allowed_locations:
        allocation["location"] = {"allowedLocations": list(options.allowed_locations)}
    if options.service_account is not None:
        allocation["serviceAccount"] = {"email": options.service_account}
    network = present(
        network=options.network, subnetwork=options.subnetwork, noExternalIpAddress=options.no_external_ip
    )
    if network:
        allocation["network"] = {"networkInterfaces": [network]}
    if options.collocated:
        allocation["placement"] = {"collocation": "COLLOCATED"}
    return allocation


def _machine(resource: Resource, options: GCPBatchOpts) -> tuple[Json, bool]:
    """Return the machine's type and what is added to it, and whether it has GPUs."""
    policy: Json = {} if options.machine_type is None else {"machineType": options.machine_type}
    if resource.gpu <= 0:
        return policy, False
    machines = _GPU_MACHINES.get(options.gpu_type)
    if machines is None:
        policy["accelerators"] = [{"type": options.gpu_type, "count": str(resource.gpu)}]
    elif options.machine_type is None:
        if resource.gpu not in machines:
            why = f"machines with {options.gpu_type} have {', '.join(map(str, machines))}"
            raise ConfigError(
                f"There is no machine with {resource.gpu} GPUs of that type",
                why=why,
                fix="ask for one of these numbers",
            )
        policy["machineType"] = machines[resource.gpu]
    return policy, True


def _duration(seconds: float) -> str:
    """Write a time as Google does: with no digits behind the point, or three, six or nine."""
    nanos = round(seconds * 1_000_000_000)
    whole, rest = divmod(nanos, 1_000_000_000)
    if not rest:
        return f"{whole}s"
    digits = f"{rest:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{whole}.{digits}s"
