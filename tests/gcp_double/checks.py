"""What Batch refuses in a job."""

from __future__ import annotations

import re
import uuid
from typing import Any

from tests.gcp_double.wire import Refusal

MAX_JOB_BYTES = 1_000_000
_JOB_ID = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_KEY = re.compile(r"(?!goog-|google-)[a-z][a-z0-9_-]{0,62}")
_VALUE = re.compile(r"[a-z0-9_-]{0,63}")


def check_request_id(text: str) -> None:
    try:
        good = not text or uuid.UUID(text).int != 0
    except ValueError:
        good = False
    _refuse_if(not good, "request_id must be a valid nonzero UUID")


def check_job_id(text: str) -> None:
    _refuse_if(_JOB_ID.fullmatch(text) is None, f"job_id {text!r} is invalid")


def check_job(job: Any) -> None:
    """Raise Refusal for a job that Batch would not take."""
    _refuse_if(len(job.task_groups) != 1, "exactly one task group is supported")
    _refuse_if(not 0 <= job.priority < 100, "priority must be in [0, 100)")
    _check_group(job.task_groups[0])
    _refuse_if(job.logs_policy.destination == 2 and not job.logs_policy.logs_path, "logs_path is required for PATH")
    for labels in (job.labels, job.allocation_policy.labels):
        _refuse_if(len(labels) > 64, "at most 64 labels are allowed")
        for key, value in labels.items():
            _refuse_if(not _KEY.fullmatch(key) or not _VALUE.fullmatch(value), f"label {key}={value} is invalid")
    _check_allocation(job.allocation_policy)


def _check_group(group: Any) -> None:
    task = group.task_spec
    _refuse_if(bool(group.task_environments) and bool(group.task_count), "task_count goes not with task_environments")
    count = len(group.task_environments) or group.task_count or 1
    _refuse_if(not 1 <= count <= 100_000, "task_count must be in [1, 100000]")
    _refuse_if(group.parallelism > 5000, "parallelism must be at most 5000")
    vms = -(-count // max(1, group.task_count_per_node))
    _refuse_if(group.require_hosts_file and vms > 1000, "the hosts file supports at most 1000 VMs")
    _refuse_if(not task.runnables, "task_spec.runnables is required")
    _refuse_if(not 0 <= task.max_retry_count <= 10, "max_retry_count must be in [0, 10]")
    _refuse_if(len(task.lifecycle_policies) > 1, "only one lifecycle policy is supported")
    _refuse_if(task.max_run_duration.seconds > 14 * 24 * 3600, "max_run_duration is longer than 14 days")
    for runnable in task.runnables:
        _check_runnable(runnable, group, count)


def _check_runnable(runnable: Any, group: Any, count: int) -> None:
    kind = runnable.WhichOneof("executable")
    _refuse_if(not kind, "a runnable must set one of container, script, barrier")
    _refuse_if(kind == "container" and not runnable.container.image_uri, "container.image_uri is required")
    _refuse_if(kind == "script" and not runnable.script.WhichOneof("command"), "script must set path or text")
    all_at_once = group.parallelism in (0, count)
    _refuse_if(kind == "barrier" and not all_at_once, "a barrier needs all tasks in parallel")
    for name in runnable.environment.variables:
        _refuse_if(name.startswith("BATCH_"), f"the variable {name} is reserved")


def _check_allocation(policy: Any) -> None:
    _refuse_if(len(policy.instances) > 1, "only instances[0] is supported")
    regions = {place.split("/")[1] for place in policy.location.allowed_locations if place.startswith("regions/")}
    _refuse_if(len(regions) > 1, "allowed_locations must be in one region")
    for network in policy.network.network_interfaces:
        lacks = network.no_external_ip_address and not (network.network and network.subnetwork)
        _refuse_if(bool(lacks), "no_external_ip_address needs network and subnetwork")


def _refuse_if(wrong: bool, message: str) -> None:
    if wrong:
        raise Refusal(400, message)
