"""Check for values that AWS Batch would refuse, before anything is sent: sizes, names, tags, limits of Fargate."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from asyncsched.errors import ConfigError, InvalidRequestError
from asyncsched.schedulers.aws_batch.options import AWSBatchOpts
from asyncsched.schedulers.request_checks import check_seconds
from asyncsched.schedulers.shape import check_image
from asyncsched.specs.app import AppDef, Role
from asyncsched.specs.secret import revealed

__all__ = [
    "FARGATE_SIZES",
    "LATER_TAGS",
    "MAX_DEFINITION_BYTES",
    "MAX_OVERRIDES_BYTES",
    "MAX_SUBMIT_BYTES",
    "MAX_TAGS",
    "check_app",
    "check_environment",
    "check_fargate",
    "check_options",
    "check_own_tags",
    "check_shape",
    "check_size",
    "check_tags",
    "size_of",
]

MAX_ROLES = 5
MAX_NODES = 1000
MAX_ATTEMPTS = 10
MAX_DEFINITION_BYTES = 24 * 1024
MAX_SUBMIT_BYTES = 30 * 1024

MAX_OVERRIDES_BYTES = 7 * 1024
"""ECS accepts 8192 characters per task, and Batch needs some of them for its variables."""

MAX_TAGS = 50
SHORTEST_TIMEOUT = 60
MAX_TIMEOUT = 2**31 - 1

LATER_TAGS = 2
"""Tags that are added later: the digest of the request, and the mark of a deleted app."""

OWN_TAGS = "asyncsched/"
"""The prefix of asyncsched's tags, which identify apps."""

_TAG_CHARACTER = r"[\w \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000.:/=+\-@]"
"""AWS accepts Unicode's space characters, but no tabs and line breaks."""

_TAG_KEY = re.compile(rf"(?!aws:){_TAG_CHARACTER}{{1,128}}", re.IGNORECASE)
_TAG_VALUE = re.compile(rf"{_TAG_CHARACTER}{{0,256}}")
_QUEUE = re.compile(r"(arn:[\w-]+:batch:[\w-]+:\d+:job-queue/)?[A-Za-z0-9][\w-]{0,127}", re.ASCII)
_AMOUNT = re.compile(r".+=\d+")
_ULIMIT = re.compile(r"\w+=\d+(:\d+)?")
_TMPFS = re.compile(r"/[^:]*:\d+")

_PLATFORMS: Mapping[str, Sequence[str]] = {
    "public_ip": ("FARGATE",),
    "ephemeral_storage_gb": ("FARGATE",),
    "cpu_arch": ("FARGATE", "MANAGED_INSTANCES"),
}
"""Options of some platforms only."""

FARGATE_SIZES: Mapping[int, Sequence[int]] = {
    1: range(2048, 8193, 1024),
    2: range(4096, 16385, 1024),
    4: range(8192, 30721, 1024),
    8: range(16384, 61441, 4096),
    16: range(32768, 122881, 8192),
    32: (61440, 122880, 249856),
}
"""Possible sizes of Fargate tasks: vCPUs, and memory in MiB."""


def check_app(app: AppDef, options: AWSBatchOpts) -> None:
    """Check an app and its roles.

    Raises:
        ConfigError: AWS Batch cannot run the app.
    """
    for role in app.roles:
        check_image(role)
    nodes = sum(role.num_replicas for role in app.roles)
    if len(app.roles) > MAX_ROLES:
        why = "a job of AWS Batch has one node group per role"
        what = f"app {app.name} must have at most {MAX_ROLES} roles, got {len(app.roles)}"
        raise ConfigError(what, why=why, fix="merge roles, or split the app")
    if nodes > MAX_NODES:
        what = f"app {app.name} must have at most {MAX_NODES} replicas, got {nodes}"
        raise ConfigError(what, why="a job of AWS Batch cannot have more nodes")
    retries = max(role.max_retries for role in app.roles) + options.spot_retries
    if not 0 <= retries < MAX_ATTEMPTS:
        what = f"max_retries and spot_retries together must be 0 to {MAX_ATTEMPTS - 1}, got {retries}"
        why = f"AWS Batch runs a job at most {MAX_ATTEMPTS} times"
        raise ConfigError(what, why=why, fix="lower one of them")
    if not 0 <= options.main_node < nodes:
        raise ConfigError(f"main_node must be 0 to {nodes - 1}, the app's nodes, got {options.main_node}")
    if options.job_type == "container" and nodes > 1:
        why = f"the app has {nodes} replicas, and a container job has one"
        raise ConfigError("job_type=container cannot be used", why=why, fix="omit job_type")


def check_options(options: AWSBatchOpts, *, multinode: bool) -> None:
    """Check options for conflicts and values out of range.

    Raises:
        ConfigError: The message names the option and says what to write instead.
    """
    if multinode and options.platform != "EC2":
        why = "multi-node jobs run on EC2 only"
        what = f"platform={options.platform} cannot be used"
        raise ConfigError(what, why=why, fix="use one replica, or platform=EC2")
    _check_platform(options)
    if multinode and options.array_size is not None:
        raise ConfigError("array_size cannot be used", why="a multi-node job cannot be an array")
    if not _QUEUE.fullmatch(options.queue):
        raise ConfigError(f"queue must be the name or the ARN of a job queue, got {options.queue!r}")
    if options.spot_retries < 0:
        raise ConfigError(f"spot_retries must be 0 to {MAX_ATTEMPTS - 1}, got {options.spot_retries}")
    if options.array_size is not None and not 2 <= options.array_size <= 10_000:
        raise ConfigError(f"array_size must be 2 to 10000, got {options.array_size}")
    _check_timeout(options)
    if options.priority and options.share_id is None:
        why = "a priority applies within a share only"
        raise ConfigError("priority needs share_id", why=why, fix="set share_id, or omit priority")
    if not 0 <= options.priority <= 9999:
        raise ConfigError(f"priority must be 0 to 9999, got {options.priority}")
    if (count := len(options.depends_on or ())) > 20:
        raise ConfigError(f"depends_on must name at most 20 jobs, got {count}")
    for text in options.ulimits or ():
        _check_form(text, _ULIMIT, "ulimits", "nofile=1024:4096")
    for text in options.tmpfs or ():
        _check_form(text, _TMPFS, "tmpfs", "/scratch:64")
    for name, amount in (options.consumable_resources or {}).items():
        _check_form(f"{name}={amount}", _AMOUNT, "consumable_resources", "license=2")


def _check_timeout(options: AWSBatchOpts) -> None:
    if options.timeout is not None and options.timeout_s is not None:
        why = "they are two names of one option"
        raise ConfigError("timeout and timeout_s are both set", why=why, fix="omit timeout_s")
    check_seconds("timeout", options.timeout, least=SHORTEST_TIMEOUT, most=MAX_TIMEOUT)
    check_seconds("timeout_s", options.timeout_s, least=SHORTEST_TIMEOUT, most=MAX_TIMEOUT)
    check_seconds("pending_timeout", options.pending_timeout)


def _check_platform(options: AWSBatchOpts) -> None:
    wanted = {
        "public_ip": options.public_ip,
        "ephemeral_storage_gb": options.ephemeral_storage_gb is not None,
        "cpu_arch": options.cpu_arch is not None,
    }
    for option, platforms in _PLATFORMS.items():
        if wanted[option] and options.platform not in platforms:
            why = f"it is an option of platform={' or '.join(platforms)}"
            what = f"{option} cannot be used with platform={options.platform}"
            raise ConfigError(what, why=why, fix=f"omit {option}")
    storage = options.ephemeral_storage_gb
    if storage is not None and not 21 <= storage <= 200:
        raise ConfigError(f"ephemeral_storage_gb must be 21 to 200, got {storage}")


def _check_form(text: str, form: re.Pattern[str], option: str, example: str) -> None:
    if not form.fullmatch(text):
        raise ConfigError(f"{option} must have the form {example}, got {text!r}")


def check_environment(role: Role) -> None:
    """Check a role's environment for names that AWS Batch reserves.

    Raises:
        ConfigError: A name begins with ``AWS_BATCH``.
    """
    for name in role.env:
        if name.startswith("AWS_BATCH"):
            why = "AWS Batch reserves names that begin with AWS_BATCH"
            raise ConfigError(f"role {role.name} sets {name}", why=why, fix="choose another name")


def check_fargate(role: Role, options: AWSBatchOpts, *, vcpus: int, memory: int) -> None:
    """Check a role for features and sizes that Fargate does not have.

    Raises:
        ConfigError: The message names the feature, and possible values.
    """
    if options.execution_role_arn is None:
        why = "a Fargate job needs a role that may pull the image and write the logs"
        raise ConfigError("execution_role_arn is missing", why=why, fix="set the run option execution_role_arn")
    lacking = {
        "GPUs": role.resource.gpu > 0,
        "privileged": options.privileged,
        "ulimits": bool(options.ulimits),
        "tmpfs": bool(options.tmpfs),
        "shm_size_mb": options.shm_size_mb is not None,
        "instance_type": options.instance_type is not None,
    }
    for thing, wanted in lacking.items():
        if wanted:
            raise ConfigError(f"Fargate does not support {thing}", fix="omit it, or use platform=EC2")
    if vcpus not in FARGATE_SIZES:
        raise ConfigError(f"resource.cpu on Fargate must be one of {list(FARGATE_SIZES)}, got {vcpus}")
    sizes = FARGATE_SIZES[vcpus]
    if memory not in sizes:
        fix = f"use for example {min(sizes, key=lambda size: abs(size - memory))}"
        bound = f"must be {sizes[0]} to {sizes[-1]} with {vcpus} vCPUs, in Fargate's steps"
        raise ConfigError(f"resource.memMB on Fargate {bound}, got {memory}", fix=fix)


def check_tags(tags: Mapping[str, str]) -> None:
    """Check the tags of a job.

    Raises:
        ConfigError: A tag has an invalid form, or there are too many.
    """
    for key, value in tags.items():
        if not _TAG_KEY.fullmatch(key) or not _TAG_VALUE.fullmatch(value):
            why = "AWS accepts letters, digits, spaces and _.:/=+-@, 128 of them in a key and 256 in a value"
            raise ConfigError(f"the tag {key!r} cannot be set", why=why, fix="change the metadata or tags")
    if len(tags) > (most := MAX_TAGS - LATER_TAGS):
        why = f"AWS accepts {MAX_TAGS}, and asyncsched adds {LATER_TAGS} later"
        raise ConfigError(f"a job must have at most {most} tags, got {len(tags)}", why=why, fix="use fewer")


def check_own_tags(tags: Mapping[str, str]) -> None:
    """Check that the user's metadata and tags do not use reserved names.

    Raises:
        ConfigError: A name is reserved.
    """
    for key in tags:
        if key.startswith(OWN_TAGS):
            why = f"asyncsched reserves tags that begin with {OWN_TAGS}"
            raise ConfigError(f"the tag {key} cannot be set", why=why, fix="choose another name")


def check_size(what: str, request: Mapping[str, object], limit: int) -> None:
    """Check a request's size in bytes, with its secrets as sent.

    Raises:
        ConfigError: It is larger than `limit`.
    """
    size = size_of(request)
    if size > limit:
        why = f"it must have at most {limit} bytes, got {size}"
        raise ConfigError(f"the {what} is too large", why=why, fix="pass large arguments and variables as files")


def size_of(request: Mapping[str, object]) -> int:
    """Return a request's size in bytes, with its secrets as sent."""
    return len(json.dumps(revealed(request)).encode())


def check_shape(name: str, job_def: Mapping[str, object]) -> None:
    """Check that the definition of an edited or hand-written request says what to run.

    Raises:
        InvalidRequestError: It does not.
    """
    kind = job_def.get("type", "container")
    nodes = job_def.get("nodeProperties")
    if kind == "multinode" and not (isinstance(nodes, dict) and {"numNodes", "nodeRangeProperties"} <= {*nodes}):
        fix = "add nodeProperties with numNodes and nodeRangeProperties"
    elif kind != "multinode" and not job_def.keys() & {"containerProperties", "ecsProperties"}:
        fix = "add containerProperties, ecsProperties or nodeProperties, as for RegisterJobDefinition"
    else:
        return
    raise InvalidRequestError(
        f"the job_def of the job {name} does not say what to run",
        why=f"its type is {kind}, and it has {', '.join(sorted(job_def)) or 'nothing'}",
        fix=fix,
        backend="aws_batch",
    )
