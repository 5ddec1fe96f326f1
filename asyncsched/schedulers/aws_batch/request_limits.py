"""What AWS Batch would refuse, found before anything is sent: sizes, names, tags, and what Fargate lacks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from asyncsched.errors import ConfigError, InvalidRequestError
from asyncsched.schedulers.aws_batch.options import AWSBatchOpts
from asyncsched.schedulers.shape import check_image
from asyncsched.schedulers.validation import check_seconds
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
"""ECS takes 8192 characters for each task, in which Batch needs some for its own variables."""

MAX_TAGS = 50
SHORTEST_TIMEOUT = 60
MAX_TIMEOUT = 2**31 - 1

LATER_TAGS = 2
"""Tags that come later: what was submitted, and that it has been deleted."""

OWN_TAGS = "asyncsched/"
"""Tags of ours, by which apps are found, told apart and deleted."""

_TAG_CHARACTER = r"[\w \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000.:/=+\-@]"
"""AWS's spaces are those of Unicode: no tabs, no line breaks."""

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
"""Options that only some platforms have."""

FARGATE_SIZES: Mapping[int, Sequence[int]] = {
    1: range(2048, 8193, 1024),
    2: range(4096, 16385, 1024),
    4: range(8192, 30721, 1024),
    8: range(16384, 61441, 4096),
    16: range(32768, 122881, 8192),
    32: (61440, 122880, 249856),
}
"""vCPUs of a Fargate task: the memory in MiB that goes with them."""


def check_app(app: AppDef, options: AWSBatchOpts) -> None:
    """Check what concerns the app as a whole.

    Raises:
        ConfigError: AWS Batch has no place for such an app.
    """
    for role in app.roles:
        check_image(role)
    nodes = sum(role.num_replicas for role in app.roles)
    if len(app.roles) > MAX_ROLES:
        why = f"a job of AWS Batch has at most {MAX_ROLES} node groups, one for each role"
        raise ConfigError(f"The app {app.name} has {len(app.roles)} roles", why=why, fix="join roles, or split it")
    if nodes > MAX_NODES:
        raise ConfigError(f"The app {app.name} has {nodes} replicas", why=f"a job has at most {MAX_NODES} nodes")
    retries = max(role.max_retries for role in app.roles) + options.spot_retries
    if not 0 <= retries < MAX_ATTEMPTS:
        why = f"AWS Batch runs a job 1 to {MAX_ATTEMPTS} times in all"
        raise ConfigError(f"{retries} retries are not possible", why=why, fix="lower max_retries or spot_retries")
    if not 0 <= options.main_node < nodes:
        raise ConfigError(f"main_node={options.main_node} is not a node", why=f"the app has nodes 0 to {nodes - 1}")
    if options.job_type == "container" and nodes > 1:
        why = f"the app has {nodes} replicas, and a container job has one"
        raise ConfigError("job_type=container does not fit", why=why, fix="leave job_type out")


def check_options(options: AWSBatchOpts, *, multinode: bool) -> None:
    """Check options that do not go together, or are out of range.

    Raises:
        ConfigError: The message says which, and what to write instead.
    """
    if multinode and options.platform != "EC2":
        why = "multi-node jobs run on EC2 only"
        raise ConfigError(f"platform={options.platform} does not fit", why=why, fix="use one replica, or platform=EC2")
    _check_platform(options)
    if multinode and options.array_size is not None:
        raise ConfigError("array_size does not fit", why="a multi-node job cannot be an array")
    if not _QUEUE.fullmatch(options.queue):
        raise ConfigError(f"queue {options.queue!r} cannot be one", fix="give the name or the ARN of a job queue")
    if options.spot_retries < 0:
        raise ConfigError(f"spot_retries={options.spot_retries} is out of range", fix="choose 0 to 9")
    if options.array_size is not None and not 2 <= options.array_size <= 10_000:
        raise ConfigError(f"array_size={options.array_size} is out of range", fix="choose 2 to 10000")
    _check_timeout(options)
    if options.priority and options.share_id is None:
        why = "a priority counts inside a share only"
        raise ConfigError("priority without share_id", why=why, fix="give share_id, or leave priority out")
    if not 0 <= options.priority <= 9999:
        raise ConfigError(f"priority={options.priority} is out of range", fix="choose 0 to 9999")
    if len(options.depends_on or ()) > 20:
        raise ConfigError("depends_on names more than 20 jobs")
    for text in options.ulimits or ():
        _check_form(text, _ULIMIT, "ulimits", "nofile=1024:4096")
    for text in options.tmpfs or ():
        _check_form(text, _TMPFS, "tmpfs", "/scratch:64")
    for name, amount in (options.consumable_resources or {}).items():
        _check_form(f"{name}={amount}", _AMOUNT, "consumable_resources", "license=2")


def _check_timeout(options: AWSBatchOpts) -> None:
    if options.timeout is not None and options.timeout_s is not None:
        why = "they are two names of one option"
        raise ConfigError("timeout and timeout_s are both given", why=why, fix="leave timeout_s out")
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
            raise ConfigError(f"{option} does not fit platform={options.platform}", why=why, fix=f"leave {option} out")
    storage = options.ephemeral_storage_gb
    if storage is not None and not 21 <= storage <= 200:
        raise ConfigError(f"ephemeral_storage_gb={storage} is out of range", fix="choose 21 to 200")


def _check_form(text: str, form: re.Pattern[str], option: str, example: str) -> None:
    if not form.fullmatch(text):
        raise ConfigError(f"{option} cannot hold {text!r}", fix=f"write it as {example}")


def check_environment(role: Role) -> None:
    """Check a role's environment for names that AWS Batch keeps for itself.

    Raises:
        ConfigError: A name begins with ``AWS_BATCH``.
    """
    for name in role.env:
        if name.startswith("AWS_BATCH"):
            why = "AWS Batch keeps names that begin with AWS_BATCH for itself"
            raise ConfigError(f"Role {role.name} sets {name}", why=why, fix="choose another name")


def check_fargate(role: Role, options: AWSBatchOpts, *, vcpus: int, memory: int) -> None:
    """Check what Fargate does not have.

    Raises:
        ConfigError: The message says what, and what would fit.
    """
    if options.execution_role_arn is None:
        why = "a Fargate job needs a role that may pull the image and write the logs"
        raise ConfigError("execution_role_arn is missing", why=why, fix="give execution_role_arn")
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
            raise ConfigError(f"Fargate does not know {thing}", fix="leave it out, or use platform=EC2")
    if vcpus not in FARGATE_SIZES:
        raise ConfigError(f"Fargate has no task of {vcpus} vCPUs", fix=f"choose one of {list(FARGATE_SIZES)}")
    sizes = FARGATE_SIZES[vcpus]
    if memory not in sizes:
        fix = f"choose {sizes[0]} to {sizes[-1]} MiB, such as {min(sizes, key=lambda size: abs(size - memory))}"
        raise ConfigError(f"Fargate has no task of {vcpus} vCPUs and {memory} MiB", fix=fix)


def check_tags(tags: Mapping[str, str]) -> None:
    """Check the tags of a job.

    Raises:
        ConfigError: One has characters or a length that AWS does not accept, or there are too many.
    """
    for key, value in tags.items():
        if not _TAG_KEY.fullmatch(key) or not _TAG_VALUE.fullmatch(value):
            why = "AWS takes letters, digits, spaces and _.:/=+-@, 128 of them in a key and 256 in a value"
            raise ConfigError(f"The tag {key!r} cannot be set", why=why, fix="change the metadata or tags")
    if len(tags) > MAX_TAGS - LATER_TAGS:
        why = f"AWS takes {MAX_TAGS}, of which asyncsched needs {LATER_TAGS} later"
        raise ConfigError(f"{len(tags)} tags are too many", why=why, fix="use fewer metadata or tags")


def check_own_tags(tags: Mapping[str, str]) -> None:
    """Check that metadata and tags of the user are none that asyncsched goes by.

    Raises:
        ConfigError: One is.
    """
    for key in tags:
        if key.startswith(OWN_TAGS):
            why = f"asyncsched keeps tags that begin with {OWN_TAGS} for itself"
            raise ConfigError(f"The tag {key} cannot be set", why=why, fix="choose another name")


def check_size(what: str, request: Mapping[str, object], limit: int) -> None:
    """Check a request's size in bytes, its secrets counted as they are sent.

    Raises:
        ConfigError: It is larger than `limit`.
    """
    size = size_of(request)
    if size > limit:
        why = f"it has {size} bytes, and AWS Batch takes {limit}"
        raise ConfigError(f"The {what} is too large", why=why, fix="pass large arguments and variables as files")


def size_of(request: Mapping[str, object]) -> int:
    """Return a request's size in bytes, its secrets counted as they are sent."""
    return len(json.dumps(revealed(request)).encode())


def check_shape(name: str, job_def: Mapping[str, object]) -> None:
    """Check that a request's definition, which may be edited or put together by hand, says what runs.

    Raises:
        InvalidRequestError: It does not.
    """
    kind = job_def.get("type", "container")
    nodes = job_def.get("nodeProperties")
    if kind == "multinode" and not (isinstance(nodes, dict) and {"numNodes", "nodeRangeProperties"} <= {*nodes}):
        fix = "give nodeProperties a numNodes and nodeRangeProperties"
    elif kind != "multinode" and not job_def.keys() & {"containerProperties", "ecsProperties"}:
        fix = "give it containerProperties, ecsProperties, or nodeProperties, as RegisterJobDefinition takes them"
    else:
        return
    raise InvalidRequestError(
        f"the job_def of the job {name} does not say what runs",
        why=f"it is of the type {kind}, and has {', '.join(sorted(job_def)) or 'nothing'}",
        fix=fix,
        backend="aws_batch",
    )
