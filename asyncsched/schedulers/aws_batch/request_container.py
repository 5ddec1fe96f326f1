"""Convert a role to container properties of AWS Batch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import count
from typing import cast

from asyncsched.errors import ConfigError
from asyncsched.schedulers._common.replica_command import REPLICA, command_of
from asyncsched.schedulers.aws_batch.options import AWSBatchOpts
from asyncsched.schedulers.aws_batch.request_limits import FARGATE_SIZES, check_environment, check_fargate
from asyncsched.schedulers.aws_batch.request_secrets import secrets_of
from asyncsched.specs.app import Resource, Role
from asyncsched.specs.devices import get_device_mounts
from asyncsched.specs.macros import macros
from asyncsched.specs.mounts import BindMount, DeviceMount, Mount, VolumeMount

__all__ = [
    "INSTANCE_TYPE",
    "OWN_ENV",
    "RANK0_ENV",
    "ROLE_INDEX_ENV",
    "ROLE_NAME_ENV",
    "SECRET_ARGS_TAG",
    "as_task",
    "container_properties",
    "task_containers",
]

Json = dict[str, object]

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
MAIN_NODE_ENV = "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"
RANK0_ENV = "TORCHX_RANK0_HOST"
ROLE_INDEX_ENV = "TORCHX_ROLE_IDX"
ROLE_NAME_ENV = "TORCHX_ROLE_NAME"

OWN_ENV = frozenset({ROLE_INDEX_ENV, ROLE_NAME_ENV, RANK0_ENV})
"""asyncsched's variables that are the same in every run of a role."""

SECRET_ARGS_TAG = "asyncsched/secret-args"  # noqa: S105 - a tag, not a password
"""Tag of a job with a secret argument: AWS shows it to everybody who may describe the job, asyncsched masks it."""

DEFAULT_MEMORY = 1024

_NODE_INDEX = "AWS_BATCH_JOB_NODE_INDEX"
_ACCESS = {"r": "READ", "w": "WRITE", "m": "MKNOD"}

CONTAINER_NAME = "default"
"""The name of the container in a task; log streams of jobs without named containers use it too."""

_OF_TASK = {
    "jobRoleArn": "taskRoleArn",
    "executionRoleArn": "executionRoleArn",
    "volumes": "volumes",
    "enableExecuteCommand": "enableExecuteCommand",
    "runtimePlatform": "runtimePlatform",
}
"""Fields of the whole task, with their names there."""


def container_properties(
    role: Role, options: AWSBatchOpts, *, index: int, first_node: int, multinode: bool, app_id: str
) -> Json:
    """Return the container properties of each replica of a role.

    Args:
        role: The role; it is not changed.
        options: The run options.
        index: The role's index in the app.
        first_node: The node of the role's first replica.
        multinode: Whether the job has several nodes.
        app_id: The value of the macro ``app_id``.
    """
    role = _filled_in(role, app_id, multinode=multinode)
    check_environment(role)
    secrets = secrets_of(role, options)
    command, environment = command_of(role, _number(first_node))
    environment[ROLE_INDEX_ENV], environment[ROLE_NAME_ENV] = str(index), role.name
    if not multinode:
        environment.setdefault(RANK0_ENV, "localhost")  # AWS does not set its variable for a single node.
    mounts = [*role.mounts, *get_device_mounts(role.resource.devices)]
    vcpus = max(1, role.resource.cpu)
    memory = _memory(role.resource, vcpus, options)
    properties: Json = {
        "image": role.image,
        "command": command,
        "environment": [{"name": name, "value": value} for name, value in environment.items()],
        "resourceRequirements": _requirements(role.resource, vcpus, memory),
        "logConfiguration": _logging(options),
        **_volumes(mounts, options),
        **_optional(options),
        **({"secrets": secrets} if secrets else {}),
    }
    if options.platform == "FARGATE":
        check_fargate(role, options, vcpus=vcpus, memory=memory)
        return properties | _on_fargate(mounts, options)
    return properties | _on_ec2(role.resource, mounts, options, memory, multinode=multinode) | _processor(options)


def _filled_in(role: Role, app_id: str, *, multinode: bool) -> Role:
    replica = "0" if role.num_replicas == 1 else REPLICA
    rank0 = MAIN_NODE_ENV if multinode else RANK0_ENV
    return macros.Values(img_root="", app_id=app_id, replica_id=replica, rank0_env=rank0).apply(role)


def _number(first_node: int) -> str:
    """Return a shell expression for a replica's id: nodes are counted over all roles."""
    return f"$((${_NODE_INDEX} - {first_node}))" if first_node else f"${_NODE_INDEX}"


def _memory(resource: Resource, vcpus: int, options: AWSBatchOpts) -> int:
    if resource.memMB > 0:
        return resource.memMB
    least = min(FARGATE_SIZES.get(vcpus, (DEFAULT_MEMORY,)))
    return least if options.platform == "FARGATE" else DEFAULT_MEMORY


def _requirements(resource: Resource, vcpus: int, memory: int) -> list[Json]:
    wanted = {"VCPU": vcpus, "MEMORY": memory, "GPU": max(0, resource.gpu)}
    return [{"type": kind, "value": str(amount)} for kind, amount in wanted.items() if amount]


def _logging(options: AWSBatchOpts) -> Json:
    settings = dict(options.log_options or {})
    if options.log_group is not None:
        settings["awslogs-group"] = options.log_group
    return {"logDriver": "awslogs", **({"options": settings} if settings else {})}


def _optional(options: AWSBatchOpts) -> Json:
    wanted: Json = {
        "jobRoleArn": options.job_role_arn,
        "executionRoleArn": options.execution_role_arn,
        "user": options.user_in_container,
        "readonlyRootFilesystem": options.readonly_root or None,
        "enableExecuteCommand": options.enable_exec or None,
    }
    return {key: value for key, value in wanted.items() if value is not None}


def _on_ec2(
    resource: Resource, mounts: Iterable[Mount], options: AWSBatchOpts, memory: int, *, multinode: bool
) -> Json:
    linux: Json = {"sharedMemorySize": options.shm_size_mb or memory}
    if devices := [_device(mount) for mount in mounts if isinstance(mount, DeviceMount)]:
        linux["devices"] = devices
    if options.init_process:
        linux["initProcessEnabled"] = True
    if options.tmpfs:
        linux["tmpfs"] = [_tmpfs(text) for text in options.tmpfs]
    properties: Json = {"linuxParameters": linux, "privileged": options.privileged}
    if options.ulimits:
        properties["ulimits"] = [_ulimit(text) for text in options.ulimits]
    kind = options.instance_type or resource.capabilities.get(INSTANCE_TYPE)
    if multinode and kind:
        properties["instanceType"] = str(kind)
    return properties


def _on_fargate(mounts: Iterable[Mount], options: AWSBatchOpts) -> Json:
    for mount in mounts:
        if not isinstance(mount, VolumeMount):
            raise ConfigError(f"Fargate cannot mount {mount}", why="its tasks have no host", fix="use an EFS volume")
    properties: Json = {
        "networkConfiguration": {"assignPublicIp": "ENABLED" if options.public_ip else "DISABLED"},
        "fargatePlatformConfiguration": {"platformVersion": "LATEST"},
    }
    if options.init_process:
        properties["linuxParameters"] = {"initProcessEnabled": True}
    if options.ephemeral_storage_gb is not None:
        properties["ephemeralStorage"] = {"sizeInGiB": options.ephemeral_storage_gb}
    return properties | _processor(options)


def _processor(options: AWSBatchOpts) -> Json:
    if options.cpu_arch is None:
        return {}
    return {"runtimePlatform": {"cpuArchitecture": options.cpu_arch, "operatingSystemFamily": "LINUX"}}


def _volumes(mounts: Iterable[Mount], options: AWSBatchOpts) -> Json:
    volumes: list[Json] = []
    points: list[Json] = []
    numbers = count()
    for mount in mounts:
        if isinstance(mount, DeviceMount):
            continue
        name = f"mount_{next(numbers)}"
        points.append({"containerPath": mount.dst_path, "readOnly": mount.read_only, "sourceVolume": name})
        if isinstance(mount, BindMount):
            volumes.append({"name": name, "host": {"sourcePath": mount.src_path}})
        else:
            volumes.append({"name": name, "efsVolumeConfiguration": _efs(mount.src, options.efs_options or {})})
    return {"volumes": volumes, "mountPoints": points} if volumes else {}


def _efs(file_system: str, settings: Mapping[str, str]) -> Json:
    known = {"rootDirectory", "transitEncryption", "accessPointId", "iam"}
    for name in settings.keys() - known:
        raise ConfigError(f"efs_options must have keys of {', '.join(sorted(known))}, got {name!r}")
    volume: Json = {"fileSystemId": file_system}
    volume |= {key: settings[key] for key in ("rootDirectory", "transitEncryption") if key in settings}
    if access := {key: settings[key] for key in ("accessPointId", "iam") if key in settings}:
        volume["authorizationConfig"] = access
        volume.setdefault("transitEncryption", "ENABLED")  # AWS requires it for authorized access.
    return volume


def _device(mount: DeviceMount) -> Json:
    permissions = [_ACCESS[flag] for flag in "rwm" if flag in mount.permissions]
    return {"hostPath": mount.src_path, "containerPath": mount.dst_path, "permissions": permissions}


def _ulimit(text: str) -> Json:
    name, soft, hard = re.fullmatch(r"(\w+)=(\d+)(?::(\d+))?", text).groups()  # type: ignore[union-attr] # checked
    return {"name": name, "softLimit": int(soft), "hardLimit": int(hard or soft)}


def _tmpfs(text: str) -> Json:
    path, _, size = text.partition(":")
    return {"containerPath": path, "size": int(size)}


def as_task(container: Mapping[str, object]) -> Json:
    """Return ``ecsProperties`` with one task that has this container only."""
    task: Json = {_OF_TASK[key]: value for key, value in container.items() if key in _OF_TASK}
    own = {key: value for key, value in container.items() if key not in _OF_TASK}
    return {"taskProperties": [{"containers": [{"name": CONTAINER_NAME, "essential": True, **own}], **task}]}


def task_containers(properties: object) -> list[list[Json]]:
    """Return the containers of each task in ``ecsProperties``; changing them changes the properties."""
    tasks = cast("list[dict[str, list[Json]]]", cast("Json", properties)["taskProperties"])
    return [task["containers"] for task in tasks]
