"""Convert an app to requests of AWS Batch, without I/O or an SDK."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from asyncsched.errors import ConfigError
from asyncsched.schedulers._common.roles import kept_metadata
from asyncsched.schedulers.aws_batch.names import parse_app_id, queue_name
from asyncsched.schedulers.aws_batch.names_tags import NOT_KEPT_TAG, VERSION_TAG
from asyncsched.schedulers.aws_batch.options import AWSBatchOpts
from asyncsched.schedulers.aws_batch.request_container import (
    INSTANCE_TYPE,
    OWN_ENV,
    SECRET_ARGS_TAG,
    as_task,
    container_properties,
    task_containers,
)
from asyncsched.schedulers.aws_batch.request_limits import (
    MAX_DEFINITION_BYTES,
    MAX_OVERRIDES_BYTES,
    MAX_SUBMIT_BYTES,
    check_app,
    check_options,
    check_own_tags,
    check_size,
    check_tags,
    size_of,
)
from asyncsched.specs.app import AppDef
from asyncsched.specs.dryrun import Ignored, pretty
from asyncsched.specs.keeping import ToldApp
from asyncsched.specs.secret import MASK, Secret, revealed

__all__ = [
    "DEFINITION_PREFIX",
    "HASH_TAG",
    "BatchJob",
    "adopt",
    "app_id_of",
    "definition_hash",
    "definition_to_wire",
    "is_multinode",
    "make_request",
    "name_definition",
    "rounded_timeout",
    "to_wire",
    "unread_instance_types",
]

Json = dict[str, object]

DEFINITION_PREFIX = "asx-"
"""The prefix of every definition's name; `list` filters by it."""

HASH_TAG = "asyncsched/def-hash"

_EC2_SPOT, _FARGATE_SPOT = "Host EC2*", "Your Spot Task was interrupted*"
"""The prefixes of the reasons of attempts that Spot has ended."""

_KNOWN_TO_SUBMIT = ("tags", "retryStrategy", "timeout", "propagateTags", "consumableResourceProperties")


@dataclass(repr=False)
class BatchJob:
    """The AWS Batch requests of one app, shown by a dry-run; they may be edited before they are scheduled.

    Attributes:
        name: The job's unique name.
        queue: The queue, by name or ARN.
        share_id: The share identifier, for a queue with a fair-share policy.
        job_def: The complete job definition, as for ``RegisterJobDefinition``. The parts that differ between runs are
            sent with the submit, so that definitions can be reused.
        images_to_push: Local images, with the repository and tag to push each to first.
        submit: More parameters of ``SubmitJob``.
        location: Region, profile and endpoint, if they differ from the scheduler's.
        reuse: Whether other apps may use the definition too.
        create_repository: Whether to create missing ECR repositories of `images_to_push`.
        pending_timeout: Seconds after which this scheduler cancels the job if it has not run.
    """

    name: str
    queue: str
    share_id: str | None
    job_def: Json
    images_to_push: dict[str, tuple[str, str]]
    submit: Json = field(default_factory=dict[str, object], kw_only=True)
    location: dict[str, str] = field(default_factory=dict[str, str], kw_only=True)
    reuse: bool = field(default=True, kw_only=True)
    create_repository: bool = field(default=False, kw_only=True)
    pending_timeout: float | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        return pretty(self)

    def children(self, job_id: str) -> list[str]:
        """Return the ids of the nodes or array children that the job will have."""
        if self.job_def["type"] == "multinode":
            nodes = cast("dict[str, int]", self.job_def["nodeProperties"])
            return [f"{job_id}#{index}" for index in range(nodes["numNodes"])]
        array = cast("dict[str, int]", self.submit.get("arrayProperties", {}))
        return [f"{job_id}:{index}" for index in range(array.get("size", 0))]


def make_request(app: AppDef, options: AWSBatchOpts, *, app_id: str, session: str, version: str) -> BatchJob:
    """Make the request for an app.

    Args:
        app: The app; it is not changed.
        options: The run options.
        app_id: The app's id, which names queue and job; the value of the macro ``app_id``.
        session: The session's name, for a tag.
        version: This package's version, for a tag.

    Raises:
        ConfigError: AWS Batch would refuse the app; nothing has been sent.
    """
    check_app(app, options)
    name = app_id.rpartition(":")[2]
    nodes = sum(role.num_replicas for role in app.roles)
    multinode = is_multinode(app, options)
    check_options(options, multinode=multinode)
    tags = _tags(app, options, session, version)
    check_tags(tags)
    definition: Json = {
        "jobDefinitionName": name_definition(app.name),
        "type": "multinode" if multinode else "container",
        **_shape(app, options, app_id, multinode=multinode, nodes=nodes),
        "retryStrategy": _retries(app, options),
        "tags": tags,
        **_further(options),
    }
    if not multinode:
        definition["platformCapabilities"] = [options.platform]
    reuse = options.definition == "reuse" and not any(map(_is_too_long, _containers(definition)))
    if not reuse:
        definition["jobDefinitionName"] = name_definition(name)
    job = BatchJob(
        name=name,
        queue=options.queue,
        share_id=options.share_id,
        job_def=definition,
        images_to_push={},
        submit=_submit_only(options),
        location=_location(options),
        reuse=reuse,
        create_repository=options.ecr_create_repository,
        pending_timeout=options.pending_timeout,
    )
    runs = [_per_run(container) for container in _containers(definition)]
    check_size("job", {"overrides": runs}, MAX_SUBMIT_BYTES)
    check_size("job definition", definition_to_wire(job), MAX_DEFINITION_BYTES)
    check_size("job", to_wire(job, "x" * 128), MAX_SUBMIT_BYTES)
    return job


def is_multinode(app: AppDef, options: AWSBatchOpts) -> bool:
    """Return whether an app becomes a multi-node job."""
    return sum(role.num_replicas for role in app.roles) > 1 or options.job_type == "multinode"


def unread_instance_types(app: AppDef) -> Iterator[Ignored]:
    """Yield a notice for each role of a container job with an instance type."""
    for role in app.roles:
        if INSTANCE_TYPE in role.resource.capabilities:
            why = f"the queue decides where a container job runs: {INSTANCE_TYPE} is for multi-node jobs"
            yield Ignored(role.name, "resource.capabilities", why)


def rounded_timeout(app: AppDef, options: AWSBatchOpts) -> Iterator[Ignored]:
    """Yield a notice for each role if the timeout is rounded up."""
    limit = options.timeout
    if limit is not None and limit != math.ceil(limit):
        for role in app.roles:
            yield Ignored(
                role.name, "timeout", f"AWS Batch counts whole seconds: {math.ceil(limit)} instead of {limit}"
            )


def adopt(job: BatchJob, *, session: str, version: str) -> BatchJob:
    """Return a request written by hand with asyncsched's tags.

    The definition's name gets the prefix by which lists find the job. A definition without a name gets the job's.
    """
    definition = {"type": "multinode" if "nodeProperties" in job.job_def else "container", **job.job_def}
    name = str(definition.get("jobDefinitionName", job.name))
    definition["jobDefinitionName"] = name if name.startswith(DEFINITION_PREFIX) else name_definition(name)
    definition["tags"] = _own_tags(job.name, session, version) | cast("dict[str, str]", definition.get("tags", {}))
    return replace(job, job_def=definition)


def app_id_of(job: BatchJob) -> str:
    """Return the app id of a request."""
    return f"{queue_name(job.queue)}:{job.name}"


def definition_to_wire(job: BatchJob) -> Json:
    """Return the parameters of ``RegisterJobDefinition``: the parts that do not differ between runs."""
    definition = {key: value for key, value in copy.deepcopy(job.job_def).items() if key not in _KNOWN_TO_SUBMIT}
    for container in _containers(definition):
        if _is_too_long(container):
            continue
        environment = cast("list[dict[str, str]]", container.get("environment", []))
        container["environment"] = [row for row in environment if row["name"] in OWN_ENV]
        if _overridable(container):
            del container["command"]
    definition["tags"] = {HASH_TAG: definition_hash(definition)}
    return cast("Json", revealed(definition))


def to_wire(job: BatchJob, definition: str) -> Json:
    """Return the parameters of ``SubmitJob``; `definition` is the name and revision, or the ARN."""
    _check_overrides(job)
    request: Json = {"jobName": job.name, "jobQueue": job.queue, "jobDefinition": definition, **job.submit}
    request |= {key: job.job_def[key] for key in _KNOWN_TO_SUBMIT if key in job.job_def}
    if "consumableResourceProperties" in request:
        request["consumableResourcePropertiesOverride"] = request.pop("consumableResourceProperties")
    if job.share_id is not None:
        request["shareIdentifier"] = job.share_id
    if job.job_def["type"] == "multinode":
        rows = [
            {"targetNodes": group["targetNodes"], "containerOverrides": _overrides(group["container"])}
            for group in _groups(job.job_def)
        ]
        request["nodeOverrides"] = {"nodePropertyOverrides": rows}
    elif "ecsProperties" in job.job_def:
        tasks = [
            {"containers": [{"name": each["name"], **_overrides(each)} for each in containers]}
            for containers in task_containers(job.job_def["ecsProperties"])
        ]
        request["ecsPropertiesOverride"] = {"taskProperties": tasks}
    else:
        ours = _overrides(cast("Json", job.job_def["containerProperties"]))
        request["containerOverrides"] = _overridden(ours, cast("Json", job.submit.get("containerOverrides", {})))
    return cast("Json", revealed(request))


def _overridden(ours: Json, theirs: Json) -> Json:
    """Merge the overrides of a submit with those in the request's `submit`, which take precedence."""
    given = cast("list[dict[str, str]]", theirs.get("environment", []))
    names = {row["name"] for row in given}
    kept = [row for row in cast("list[dict[str, str]]", ours["environment"]) if row["name"] not in names]
    return {**ours, **theirs, "environment": kept + given}


def _check_overrides(job: BatchJob) -> None:
    for name in ("nodeOverrides", "ecsPropertiesOverride"):
        if name in job.submit:
            raise ConfigError(
                f"the request's submit must not have {name}",
                why="it is made from job_def",
                fix="change job_def instead",
            )


def definition_hash(definition: Mapping[str, object]) -> str:
    """Return a hash of a definition's content, regardless of its name and tags."""
    content = {key: value for key, value in definition.items() if key not in ("jobDefinitionName", "tags")}
    text = json.dumps(revealed(content), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _overrides(container: Mapping[str, object]) -> Json:
    return {"environment": []} if _is_too_long(container) else _per_run(container)


def _is_too_long(container: Mapping[str, object]) -> bool:
    """Return whether command and variables are too long for ECS overrides, so that they stay in the definition."""
    return size_of(_per_run(container)) > MAX_OVERRIDES_BYTES


def _per_run(container: Mapping[str, object]) -> Json:
    environment = cast("list[dict[str, str]]", container.get("environment", []))
    overrides: Json = {"environment": [row for row in environment if row["name"] not in OWN_ENV]}
    if _overridable(container):
        overrides["command"] = container["command"]
    return overrides


def _overridable(container: Mapping[str, object]) -> bool:
    """Return whether the command can be sent with the submit: AWS does not accept empty words there."""
    command = cast("list[str]", container.get("command", []))
    return bool(command) and "" not in cast("list[str]", revealed(command))


def _containers(definition: Mapping[str, object]) -> Iterator[Json]:
    if definition["type"] == "multinode":
        yield from (group["container"] for group in _groups(definition))
    elif "ecsProperties" in definition:
        yield from itertools.chain.from_iterable(task_containers(definition["ecsProperties"]))
    else:
        yield cast("Json", definition["containerProperties"])


def _groups(definition: Mapping[str, object]) -> list[dict[str, Json]]:
    nodes = cast("Json", definition["nodeProperties"])
    return cast("list[dict[str, Json]]", nodes["nodeRangeProperties"])


def _shape(app: AppDef, options: AWSBatchOpts, app_id: str, *, multinode: bool, nodes: int) -> Json:
    groups: list[Json] = []
    first = 0
    for index, role in enumerate(app.roles):
        container = container_properties(
            role, options, index=index, first_node=first, multinode=multinode, app_id=app_id
        )
        last = first + role.num_replicas - 1
        groups.append({"targetNodes": str(first) if first == last else f"{first}:{last}", "container": container})
        first = last + 1
    if not multinode:
        container = cast("Json", groups[0]["container"])
        if options.platform == "MANAGED_INSTANCES":
            return {"ecsProperties": as_task(container)}
        return {"containerProperties": container}
    _check_instance_types(groups)
    return {"nodeProperties": {"numNodes": nodes, "mainNode": options.main_node, "nodeRangeProperties": groups}}


def _check_instance_types(groups: list[Json]) -> None:
    kinds = {str(cast("Json", group["container"]).get("instanceType", "")) for group in groups}
    if len(kinds) > 1:
        named = " and ".join(sorted(kind or "any" for kind in kinds))
        fix = f"give the roles the same {INSTANCE_TYPE}, or set the run option instance_type"
        raise ConfigError(f"all nodes of a job must have one instance type, got {named}", fix=fix)


def _retries(app: AppDef, options: AWSBatchOpts) -> Json:
    retries = max(role.max_retries for role in app.roles)
    rules: list[Json] = [{"onExitCode": "0", "action": "EXIT"}]
    if options.spot_retries:
        reason = _FARGATE_SPOT if options.platform == "FARGATE" else _EC2_SPOT
        rules.insert(0, {"onStatusReason": reason, "action": "RETRY"})
        rules.append({"onReason": "*", "action": "RETRY" if retries else "EXIT"})
    return {"attempts": 1 + retries + options.spot_retries, "evaluateOnExit": rules}


def _tags(app: AppDef, options: AWSBatchOpts, session: str, version: str) -> dict[str, str]:
    ours = _own_tags(app.name, session, version, **{"asyncsched/user": options.user})
    if any(isinstance(text, Secret) for role in app.roles for text in (role.entrypoint, *role.args)):
        ours[SECRET_ARGS_TAG] = "true"
    check_own_tags(app.metadata)
    check_own_tags(options.tags or {})
    metadata = cast("dict[str, str]", kept_metadata(ToldApp(app, options)))
    ours |= {NOT_KEPT_TAG + name.replace("*", "-"): "" for name, value in metadata.items() if value == MASK}
    theirs = {name: value for name, value in metadata.items() if value != MASK} | (options.tags or {})
    return {**theirs, **ours}


def _own_tags(app_name: str, session: str, version: str, **more: str) -> dict[str, str]:
    ours = {VERSION_TAG: version, "asyncsched/app": app_name, "asyncsched/session": session, **more}
    return {key: re.sub(r"[^\w .:/=+\-@]", "-", value)[:256] for key, value in ours.items()}


def _further(options: AWSBatchOpts) -> Json:
    further: Json = {}
    if options.share_id is not None:
        further["schedulingPriority"] = options.priority
    if (limit := options.timeout_s if options.timeout is None else options.timeout) is not None:
        # AWS Batch does not retry an attempt that exceeds this, regardless of the retry rules.
        further["timeout"] = {"attemptDurationSeconds": math.ceil(limit)}
    if options.propagate_tags:
        further["propagateTags"] = True
    if options.consumable_resources:
        rows = [
            {"consumableResource": name, "quantity": int(amount)}
            for name, amount in options.consumable_resources.items()
        ]
        further["consumableResourceProperties"] = {"consumableResourceList": rows}
    return further


def _submit_only(options: AWSBatchOpts) -> Json:
    submit: Json = {}
    if options.depends_on:
        # Apps that are given by name are looked up before the submit.
        submit["dependsOn"] = [{"jobId": parse_app_id(app_id).job_id or app_id} for app_id in options.depends_on]
    if options.array_size is not None:
        submit["arrayProperties"] = {"size": options.array_size}
    return submit


def _location(options: AWSBatchOpts) -> dict[str, str]:
    named = {"region": options.region, "profile": options.profile, "endpoint_url": options.endpoint_url}
    return {key: value for key, value in named.items() if value is not None}


def name_definition(name: str) -> str:
    """Return the name of the definition for an app or a job of this name."""
    return (DEFINITION_PREFIX + re.sub(r"[^A-Za-z0-9_-]+", "-", name))[:128]
