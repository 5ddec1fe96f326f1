"""What Google Cloud Batch would refuse, found before anything is sent."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import cast

from asyncsched.errors import ConfigError, InvalidRequestError
from asyncsched.schedulers.gcp_batch.errors import BACKEND
from asyncsched.schedulers.gcp_batch.names import LONGEST_LABEL, is_job_name
from asyncsched.schedulers.gcp_batch.options import GCPBatchOpts
from asyncsched.schedulers.prepare import check_seconds
from asyncsched.specs.app import AppDef, Role
from asyncsched.specs.secret import Secret

__all__ = [
    "MAX_HOSTS",
    "MAX_PARALLEL",
    "check_app",
    "check_labels",
    "check_options",
    "check_shape",
    "check_size",
    "revealed",
    "size_of",
]

MAX_TASKS = 100_000
MAX_PARALLEL = 5000
MAX_RETRIES = 10
MAX_PRIORITY = 99
MAX_LABELS = 64
MAX_JOB_BYTES = 1_000_000
LONGEST_RUN = 14 * 24 * 3600

MAX_HOSTS = 1000
"""VMs that Batch writes a hosts file for."""

OWN_LABELS = "asyncsched"
"""Labels of ours, by which apps are found."""

_LABEL_KEY = re.compile(rf"(?!goog-|google-)[a-z][a-z0-9_-]{{0,{LONGEST_LABEL - 1}}}")
_LABEL_VALUE = re.compile(rf"[a-z0-9_-]{{0,{LONGEST_LABEL}}}")
_PLACE = re.compile(r"(regions|zones)/[a-z0-9-]+")
_TOPIC = re.compile(r"projects/[^/]+/topics/[^/]+")


def check_app(app: AppDef, options: GCPBatchOpts) -> None:
    """Check what concerns the app as a whole.

    Raises:
        ConfigError: Batch has no place for such an app.
    """
    if len(app.roles) != 1:
        raise ConfigError(
            f"The app {app.name} has {len(app.roles)} roles",
            why="a job of Google Cloud Batch has one task group, whose tasks all run the same: one role",
            fix="make it one role that looks at its replica's number, or an app for each role",
        )
    (role,) = app.roles
    if role.num_replicas > MAX_TASKS:
        why = f"a job of Google Cloud Batch has at most {MAX_TASKS} tasks"
        raise ConfigError(f"The role {role.name} has {role.num_replicas} replicas", why=why, fix="split the app")
    for number, name in ((role.max_retries, "max_retries"), (options.retry_on_preemption, "retry_on_preemption")):
        if number < 0:
            raise ConfigError(f"{name}={number} is out of range", fix=f"choose 0 to {MAX_RETRIES}")
    if (retries := role.max_retries + options.retry_on_preemption) > MAX_RETRIES:
        why = f"Google Cloud Batch runs a task again at most {MAX_RETRIES} times"
        raise ConfigError(
            f"{retries} retries are not possible", why=why, fix="lower max_retries or retry_on_preemption"
        )
    _check_environment(role)


def _check_environment(role: Role) -> None:
    for name in role.env:
        if name.startswith("BATCH_"):
            why = "Google Cloud Batch keeps names that begin with BATCH_ for itself"
            raise ConfigError(f"Role {role.name} sets {name}", why=why, fix="choose another name")


def check_options(options: GCPBatchOpts, replicas: int) -> None:
    """Check options that do not go together, or are out of range.

    Raises:
        ConfigError: The message says which, and what to write instead.
    """
    if options.timeout is not None and options.max_run_duration is not None:
        why = "they are two names of one option"
        raise ConfigError("timeout and max_run_duration are both given", why=why, fix="leave max_run_duration out")
    check_seconds("timeout", options.timeout, most=LONGEST_RUN)
    check_seconds("max_run_duration", options.max_run_duration, most=LONGEST_RUN)
    check_seconds("pending_timeout", options.pending_timeout)
    _check_range("priority", options.priority, 0, MAX_PRIORITY)
    _check_range("parallelism", options.parallelism, 1, MAX_PARALLEL)
    _check_range("task_count_per_node", options.task_count_per_node, 1, MAX_TASKS)
    _check_range("boot_disk_gb", options.boot_disk_gb, 1, 65_536)
    _check_gang(options, replicas)
    if options.no_external_ip and not (options.network and options.subnetwork):
        why = "Batch gives a VM without an outer address no network by itself"
        raise ConfigError("no_external_ip needs network and subnetwork", why=why, fix="give both")
    _check_places(options.allowed_locations or ())
    if options.pubsub_topic is not None and not _TOPIC.fullmatch(options.pubsub_topic):
        raise ConfigError(f"pubsub_topic {options.pubsub_topic!r} cannot be one", fix="write projects/P/topics/T")


def _check_gang(options: GCPBatchOpts, replicas: int) -> None:
    if not options.gang:
        return
    limit = options.parallelism or MAX_PARALLEL
    if replicas > limit:
        why = f"all {replicas} replicas would have to run at a time, and {limit} do"
        raise ConfigError("gang does not fit", why=why, fix="raise parallelism, or use fewer replicas")


def _check_places(places: Sequence[str]) -> None:
    for place in places:
        if not _PLACE.fullmatch(place):
            fix = "write regions/us-central1 or zones/us-central1-a"
            raise ConfigError(f"allowed_locations cannot hold {place!r}", fix=fix)
    regions = {place.partition("/")[2] for place in places if place.startswith("regions/")}
    zones = {place.partition("/")[2].rpartition("-")[0] for place in places if place.startswith("zones/")}
    if len(regions | zones) > 1 or len(regions) > 1:
        why = "the VMs of a job are in one region"
        raise ConfigError(f"allowed_locations names {' and '.join(sorted(regions | zones))}", why=why, fix="name one")


def _check_range(name: str, value: int | None, least: int, most: int) -> None:
    if value is not None and not least <= value <= most:
        raise ConfigError(f"{name}={value} is out of range", fix=f"choose {least} to {most}")


def check_labels(labels: Mapping[str, str]) -> None:
    """Check the labels that the user gives a job.

    Raises:
        ConfigError: One is ours, or has characters or a length that Google does not accept.
    """
    for key, value in labels.items():
        if key == OWN_LABELS or key.startswith(f"{OWN_LABELS}-"):
            why = f"asyncsched keeps labels that begin with {OWN_LABELS} for itself"
            raise ConfigError(f"The label {key} cannot be set", why=why, fix="choose another name")
        if not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
            why = f"Google takes at most {LONGEST_LABEL} of a-z, 0-9, _ and -, and a letter first in a key"
            raise ConfigError(f"The label {key}={value} cannot be set", why=why, fix="change it")
    if len(labels) > MAX_LABELS - 4:
        why = f"Google takes {MAX_LABELS}, of which asyncsched needs 4"
        raise ConfigError(f"{len(labels)} labels are too many", why=why, fix="use fewer")


def check_size(job: Mapping[str, object], room: int = 0) -> None:
    """Check a job's size in bytes, its secrets counted as they are sent.

    Args:
        job: The job.
        room: Bytes that come later.

    Raises:
        ConfigError: It is larger than Google takes.
    """
    size = size_of(job) + room
    if size > MAX_JOB_BYTES:
        why = f"it has {size} bytes, and Google Cloud Batch takes {MAX_JOB_BYTES}"
        raise ConfigError("The job is too large", why=why, fix="pass large arguments and variables as files")


def check_shape(name: str, job: Mapping[str, object]) -> None:
    """Check that a request's job, which may be edited or put together by hand, says what runs.

    Raises:
        InvalidRequestError: It does not.
    """
    groups = job.get("taskGroups")
    if not is_job_name(name):
        why, fix = "it is not the name of a job", "begin with a letter, then at most 62 of a-z, 0-9 and -"
    elif not (isinstance(groups, list) and len(cast("list[object]", groups)) == 1):
        why, fix = "it has no taskGroups with one group", "write it as jobs.create of Google Cloud Batch takes it"
    else:
        return
    raise InvalidRequestError(f"the job {name!r} cannot be submitted", why=why, fix=fix, backend=BACKEND)


def size_of(request: Mapping[str, object]) -> int:
    """Return a request's size in bytes, its secrets counted as they are sent."""
    return len(json.dumps(revealed(request)).encode())


def revealed(value: object) -> object:
    """Return a copy of nested data in which every secret stands as its value: for what is sent only."""
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, Mapping):
        return {key: revealed(item) for key, item in cast("Mapping[str, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [revealed(item) for item in cast("Sequence[object]", value)]
    return value
