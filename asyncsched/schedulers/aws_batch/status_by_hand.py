"""Name the fields of a job written by hand that a role cannot represent.

These are all fields of its containers except those from which a role is rebuilt, those that every submit sets itself,
and those that report on a run. Fields that AWS Batch adds in the future are named too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from asyncsched.schedulers.aws_batch.request_container import ROLE_INDEX_ENV
from asyncsched.schedulers.aws_batch.status_rows import Row, environment_of, overlap, part, parts

__all__ = ["lost_fields"]

_CARRIED = frozenset(
    {"image", "command", "environment", "secrets", "vcpus", "memory", "instanceType", "mountPoints", "volumes"}
)
"""Fields from which a role is rebuilt; volumes are checked by their mounts."""

_REPORTED = frozenset(
    {
        "containerInstanceArn",
        "essential",
        "exitCode",
        "logStreamName",
        "name",
        "networkInterfaces",
        "reason",
        "taskArn",
    }
)

_BY_DEFAULT: Mapping[str, object] = {
    "logConfiguration": {"logDriver": "awslogs"},
    "networkConfiguration": {"assignPublicIp": "DISABLED"},
    "fargatePlatformConfiguration": {"platformVersion": "LATEST"},
}
"""Values that a submit sets by default."""

_OF_JOB = frozenset(
    {
        *("jobArn", "jobName", "jobId", "jobQueue", "jobDefinition", "tags", "platformCapabilities"),
        *("status", "statusReason", "createdAt", "startedAt", "stoppedAt", "isCancelled", "isTerminated"),
        *("attempts", "eksAttempts", "nodeDetails", "retryStrategy"),
        *("container", "ecsProperties", "nodeProperties"),
    }
)
"""Fields of a job that are not lost; its containers and retries are checked separately."""

_RULE = {"onexitcode": "0", "action": "exit"}
"""The default retry rule of a submit."""


def lost_fields(row: Row, container: Row, number: int) -> list[str]:
    """Return the names of the fields that a role cannot represent.

    Args:
        row: The job.
        container: The container of one of its nodes.
        number: The index of its role.
    """
    lost = [name for name, _ in _without_nothing(row) if name not in _OF_JOB]
    lost += _of_retries(part(row, "retryStrategy"))
    lost += _of_nodes(part(row, "nodeProperties"))
    if environment_of(container).get(ROLE_INDEX_ENV, str(number)) != str(number):
        lost.append(f"environment.{ROLE_INDEX_ENV}")
    if not _is_on_fargate(row, container) and "sharedMemorySize" not in part(container, "linuxParameters"):
        lost.append("linuxParameters.sharedMemorySize, which is not set")
    lost += [
        name
        for name, value in _without_nothing(container)
        if name not in _CARRIED | _REPORTED | {"linuxParameters", "resourceRequirements"}
        and value != _BY_DEFAULT.get(name)
    ]
    return sorted({*lost, *_of_resources(container), *_of_linux(container), *_of_mounts(container)})


def _of_retries(strategy: Row) -> Iterator[str]:
    rules = [dict(_without_nothing(rule)) for rule in parts(strategy, "evaluateOnExit")]
    if any({name.lower(): str(value).lower() for name, value in rule.items()} != _RULE for rule in rules):
        yield "retryStrategy.evaluateOnExit"


def _of_nodes(properties: Row) -> Iterator[str]:
    if properties.get("mainNode"):
        yield "nodeProperties.mainNode"
    if properties and overlap(properties):
        yield "nodeProperties.nodeRangeProperties, which overlap,"


def _is_on_fargate(row: Row, container: Row) -> bool:
    return "FARGATE" in (row.get("platformCapabilities") or ()) or "fargatePlatformConfiguration" in container


def _without_nothing(row: Row) -> Iterator[tuple[str, object]]:
    """Yield the fields that are set, without those that are null, false or empty."""
    for name, value in row.items():
        inner = dict(_without_nothing(cast("Row", value))) if isinstance(value, Mapping) else value
        if inner:
            yield name, inner


def _of_resources(container: Row) -> Iterator[str]:
    for wanted in parts(container, "resourceRequirements"):
        if not str(wanted.get("value", "")).isdecimal() or wanted.get("type") not in ("VCPU", "MEMORY", "GPU"):
            yield f"resourceRequirements.{wanted.get('type')}"


def _of_linux(container: Row) -> Iterator[str]:
    memory = {str(each.get("value")) for each in parts(container, "resourceRequirements") if each["type"] == "MEMORY"}
    for name, value in _without_nothing(part(container, "linuxParameters")):
        # A submit makes all memory available as shared memory.
        if name != "devices" and not (name == "sharedMemorySize" and str(value) in memory):
            yield f"linuxParameters.{name}"


def _of_mounts(container: Row) -> Iterator[str]:
    volumes = {volume.get("name"): volume for volume in parts(container, "volumes")}
    for point in parts(container, "mountPoints"):
        volume = dict(_without_nothing(volumes.get(point.get("sourceVolume"), {})))
        efs, host = part(volume, "efsVolumeConfiguration"), part(volume, "host")
        kinds = volume.keys() - {"name"}
        if kinds not in ({"efsVolumeConfiguration"}, {"host"}):
            yield f"the volume at {point.get('containerPath')}"
        for name in efs.keys() - {"fileSystemId"} | host.keys() - {"sourcePath"}:
            yield f"{name} of the volume at {point.get('containerPath')}"
