"""Check for values that Google Cloud Batch would refuse, before anything is sent."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import cast

from asyncsched.errors import ConfigError, InvalidRequestError
from asyncsched.schedulers.gcp_batch.errors import BACKEND
from asyncsched.schedulers.gcp_batch.names import LONGEST_LABEL, is_job_name
from asyncsched.schedulers.gcp_batch.options import GCPBatchOpts
from asyncsched.specs.app import AppDef, Role
from asyncsched.specs.dryrun import Ignored
from asyncsched.specs.mounts import DeviceMount, VolumeMount
from asyncsched.specs.secret import reveal

__all__ = [
    "check_app",
    "check_labels",
    "check_shape",
    "check_size",
    "shared_retries",
    "size_of",
]

MAX_TASKS = 100_000
MAX_RETRIES = 10
MAX_LABELS = 64
MAX_JOB_BYTES = 1_000_000

MOST_OF_A_RESOURCE = 1_000_000_000
"""More CPUs, GPUs or MiB than any machine has; keeps values within 64 bits."""

LEAST_CPU = 0.001

OWN_LABELS = "asyncsched"
"""The prefix of asyncsched's labels, which identify apps."""

OWN_LABELS_COUNT = 5

_PATH = re.compile(r"/[^:\0]*")
_PERMISSIONS = re.compile(r"[rwm]{1,3}")
_LABEL_KEY = re.compile(rf"(?!goog-|google-)[a-z][a-z0-9_-]{{0,{LONGEST_LABEL - 1}}}")
_LABEL_VALUE = re.compile(rf"[a-z0-9_-]{{0,{LONGEST_LABEL}}}")


def check_app(app: AppDef, options: GCPBatchOpts) -> None:
    """Check an app and its role.

    Raises:
        ConfigError: Batch cannot run the app.
    """
    if len(app.roles) != 1:
        raise ConfigError(
            f"app {app.name} must have one role, got {len(app.roles)}",
            why="a job of Google Cloud Batch has one task group, and all its tasks run the same programs",
            fix="use one role that checks its replica's id, or one app per role",
        )
    (role,) = app.roles
    if role.num_replicas > MAX_TASKS:
        raise ConfigError(
            f"num_replicas of role {role.name} must be at most {MAX_TASKS}, got {role.num_replicas}",
            why="a job of Google Cloud Batch cannot have more tasks",
            fix="split the app",
        )
    if not role.image or re.search(r"\s", role.image):
        what = f"image of role {role.name} must be the name of an image, got {role.image!r}"
        raise ConfigError(what, fix="write the name as in its registry, without spaces")
    _check_texts(role)
    _check_retries(role, options)
    _check_resource(role)
    _check_environment(role)
    _check_mounts(role)


def _check_texts(role: Role) -> None:
    """Check that no text of a role contains NUL, which is not allowed in arguments and file names."""
    texts = {"image": role.image, "entrypoint": role.entrypoint}
    texts |= {f"args[{number}]": arg for number, arg in enumerate(role.args)}
    texts |= {
        f"env[{name!r}]": f"{name}={reveal(value)}" if "\0" in name else value for name, value in role.env.items()
    }
    texts |= {f"mounts[{n}].src": mount.src for n, mount in enumerate(role.mounts) if isinstance(mount, VolumeMount)}
    for name, value in texts.items():
        if (at := reveal(value).find("\0")) >= 0:
            why = "arguments, variables and paths cannot contain the character NUL"
            raise ConfigError(f"{name} of role {role.name} has NUL at position {at + 1}", why=why, fix="remove it")


def _check_retries(role: Role, options: GCPBatchOpts) -> None:
    for number, name in ((role.max_retries, "max_retries"), (options.retry_on_preemption, "retry_on_preemption")):
        if not _is_whole(number) or number < 0:
            raise ConfigError(f"{name} must be a whole number from 0 to {MAX_RETRIES}, got {number!r}")
    if (retries := role.max_retries + options.retry_on_preemption) > MAX_RETRIES:
        raise ConfigError(
            f"max_retries and retry_on_preemption together must be at most {MAX_RETRIES}, got {retries}",
            why="Google Cloud Batch does not retry a task more often",
            fix="lower one of them",
        )


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _check_resource(role: Role) -> None:
    """Check the resources of a replica: 0 or less leaves them to Batch, and the smallest CPU is a thousandth."""
    size = role.resource
    for name, value, is_number, kind in (
        ("cpu", size.cpu, _is_whole(size.cpu) or isinstance(size.cpu, float), "a number"),
        ("gpu", size.gpu, _is_whole(size.gpu), "a whole number"),
        ("memMB", size.memMB, _is_whole(size.memMB), "a whole number"),
    ):
        what = f"resource.{name} of role {role.name} must be"
        if not is_number:
            raise ConfigError(f"{what} {kind} of at most {MOST_OF_A_RESOURCE}, got {value!r}")
        if not value <= MOST_OF_A_RESOURCE:  # refuses nan too
            raise ConfigError(f"{what} at most {MOST_OF_A_RESOURCE}, got {value!r}")
    if 0 < size.cpu < LEAST_CPU:
        why = "Google Cloud Batch counts thousandths of a CPU"
        what = f"resource.cpu of role {role.name} must be at least {LEAST_CPU}, got {size.cpu!r}"
        raise ConfigError(what, why=why, fix="correct it, or omit it")


def _check_mounts(role: Role) -> None:
    """Check the paths of mounts; Batch passes them to Docker separated by colons."""
    targets: set[str] = set()
    for number, mount in enumerate(role.mounts):
        paths = {"dst_path": mount.dst_path}
        if not isinstance(mount, VolumeMount):
            paths["src_path"] = mount.src_path
        for name, path in paths.items():
            if not _PATH.fullmatch(path):
                what = f"{name} of mount {number} of role {role.name} must be a mountable path, got {path!r}"
                raise ConfigError(what, fix="write a path that starts with / and has no colon")
        if isinstance(mount, DeviceMount):
            _check_permissions(role, number, mount)
        elif (target := posixpath.normpath(mount.dst_path)) in targets:
            why = f"both have dst_path={mount.dst_path!r}"
            raise ConfigError(f"mount {number} of role {role.name} hides another one", why=why, fix="change one")
        else:
            targets.add(target)


def _check_permissions(role: Role, number: int, mount: DeviceMount) -> None:
    if not _PERMISSIONS.fullmatch(mount.permissions):
        what = f"permissions of mount {number} of role {role.name} must be some of rwm, got {mount.permissions!r}"
        raise ConfigError(what, fix="use r (read), w (write), m (mknod)")


def shared_retries(app: AppDef, options: GCPBatchOpts) -> Iterator[Ignored]:
    """Yield a notice for each role with both kinds of retries: Batch has only one count and one rule."""
    preempted = options.retry_on_preemption
    for role in app.roles:
        if role.max_retries and preempted:
            both = role.max_retries + preempted
            why = f"Google Cloud Batch adds both counts: a task is retried up to {both} times, whatever ended it"
            yield Ignored(role.name, "max_retries", why)
            yield Ignored(role.name, "retry_on_preemption", why)


def _check_environment(role: Role) -> None:
    for name in role.env:
        if name.startswith("BATCH_"):
            why = "Google Cloud Batch reserves names that begin with BATCH_"
            raise ConfigError(f"role {role.name} sets {name}", why=why, fix="choose another name")


def check_labels(labels: Mapping[str, str]) -> None:
    """Check the user's labels of a job.

    Raises:
        ConfigError: A label is reserved, or has an invalid form, or there are too many.
    """
    for key, value in labels.items():
        if key == OWN_LABELS or key.startswith(f"{OWN_LABELS}-"):
            why = f"asyncsched reserves labels that begin with {OWN_LABELS}"
            raise ConfigError(f"labels[{key!r}] cannot be set", why=why, fix="choose another name")
        if not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
            why = f"Google accepts at most {LONGEST_LABEL} of a-z, 0-9, _ and -, and a key starts with a letter"
            raise ConfigError(f"labels[{key!r}]={value!r} cannot be set", why=why, fix="change it")
    if len(labels) > (most := MAX_LABELS - OWN_LABELS_COUNT):
        why = f"Google accepts {MAX_LABELS}, and asyncsched needs {OWN_LABELS_COUNT} of them"
        raise ConfigError(f"labels must have at most {most} entries, got {len(labels)}", why=why, fix="use fewer")


def check_size(wire: Mapping[str, object]) -> None:
    """Check the size of a job as sent.

    Raises:
        ConfigError: It is larger than Google accepts.
    """
    size = size_of(wire)
    if size > MAX_JOB_BYTES:
        why = f"it must have at most {MAX_JOB_BYTES} bytes, got {size}"
        raise ConfigError("the job is too large", why=why, fix="pass large arguments and variables as files")


def check_shape(name: str, job: Mapping[str, object]) -> None:
    """Check that the job of an edited or hand-written request has a valid name and one task group.

    Raises:
        InvalidRequestError: It does not.
    """
    groups = job.get("taskGroups")
    if not is_job_name(name):
        why, fix = "its name is invalid", "start with a letter, followed by at most 62 of a-z, 0-9 and -"
    elif not (isinstance(groups, list) and len(cast("list[object]", groups)) == 1):
        why, fix = "taskGroups must have exactly one group", "write the job as jobs.create of Google Cloud Batch does"
    else:
        return
    raise InvalidRequestError(f"the job {name!r} cannot be submitted", why=why, fix=fix, backend=BACKEND)


def size_of(wire: Mapping[str, object]) -> int:
    """Return the bytes of a job in the form that the client sends."""
    return len(json.dumps(wire, separators=(",", ":")))
