"""What Google Cloud Batch would refuse, found before anything is sent."""

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
"""More processors, GPUs or MiB than any machine has; it keeps what is sent within 64 bits."""

LEAST_CPU = 0.001

OWN_LABELS = "asyncsched"
"""Labels of ours, by which apps are found."""

OWN_LABELS_COUNT = 5

_PATH = re.compile(r"/[^:\0]*")
_PERMISSIONS = re.compile(r"[rwm]{1,3}")
_LABEL_KEY = re.compile(rf"(?!goog-|google-)[a-z][a-z0-9_-]{{0,{LONGEST_LABEL - 1}}}")
_LABEL_VALUE = re.compile(rf"[a-z0-9_-]{{0,{LONGEST_LABEL}}}")


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
    if not role.image or re.search(r"\s", role.image):
        why = "Google Cloud Batch runs a role in the image that it names"
        fix = "write it as a registry has it, without spaces"
        raise ConfigError(f"The role {role.name} has image={role.image!r}", why=why, fix=fix)
    _check_texts(role)
    _check_retries(role, options)
    _check_resource(role)
    _check_environment(role)
    _check_mounts(role)


def _check_texts(role: Role) -> None:
    """Check that no text of a role has the one character that no program and no file's name can be given."""
    texts = {"image": role.image, "entrypoint": role.entrypoint}
    texts |= {f"args[{number}]": arg for number, arg in enumerate(role.args)}
    texts |= {
        f"env[{name!r}]": f"{name}={reveal(value)}" if "\0" in name else value for name, value in role.env.items()
    }
    texts |= {f"mounts[{n}].src": mount.src for n, mount in enumerate(role.mounts) if isinstance(mount, VolumeMount)}
    for name, value in texts.items():
        if (at := reveal(value).find("\0")) >= 0:
            why = "a program is given no text with the character NUL"
            raise ConfigError(f"{name} of role {role.name} has NUL at position {at + 1}", why=why, fix="leave it out")


def _check_retries(role: Role, options: GCPBatchOpts) -> None:
    for number, name in ((role.max_retries, "max_retries"), (options.retry_on_preemption, "retry_on_preemption")):
        if not _is_whole(number) or number < 0:
            raise ConfigError(
                f"{name}={number!r} is out of range", fix=f"choose a whole number from 0 to {MAX_RETRIES}"
            )
    if (retries := role.max_retries + options.retry_on_preemption) > MAX_RETRIES:
        why = f"Google Cloud Batch runs a task again at most {MAX_RETRIES} times"
        raise ConfigError(
            f"{retries} retries are not possible", why=why, fix="lower max_retries or retry_on_preemption"
        )


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _check_resource(role: Role) -> None:
    """Check what a replica needs: what is 0 or less is left to Batch, and of processors a thousandth is the least."""
    size = role.resource
    for name, value, is_number, kind in (
        ("cpu", size.cpu, _is_whole(size.cpu) or isinstance(size.cpu, float), "a number"),
        ("gpu", size.gpu, _is_whole(size.gpu), "a whole number"),
        ("memMB", size.memMB, _is_whole(size.memMB), "a whole number"),
    ):
        what = f"resource.{name}={value!r} of role {role.name}"
        if not is_number:
            raise ConfigError(f"{what} is not {kind}", fix=f"write {kind} up to {MOST_OF_A_RESOURCE}")
        if not value <= MOST_OF_A_RESOURCE:  # nan is not, either
            raise ConfigError(f"{what} is out of range", fix=f"choose at most {MOST_OF_A_RESOURCE}")
    if 0 < size.cpu < LEAST_CPU:
        why = "Google Cloud Batch counts thousandths of a processor"
        fix = f"choose at least {LEAST_CPU}, or leave it out"
        raise ConfigError(f"resource.cpu={size.cpu!r} of role {role.name} is out of range", why=why, fix=fix)


def _check_mounts(role: Role) -> None:
    """Check the paths of mounts, which stand between colons in what Batch gives to Docker."""
    targets: set[str] = set()
    for number, mount in enumerate(role.mounts):
        paths = {"dst_path": mount.dst_path}
        if not isinstance(mount, VolumeMount):
            paths["src_path"] = mount.src_path
        for name, path in paths.items():
            if not _PATH.fullmatch(path):
                what = f"{name}={path!r} of mount {number} of role {role.name} is not a path that can be mounted"
                raise ConfigError(what, why="it begins with / and has no colon", fix="write such a path")
        if isinstance(mount, DeviceMount):
            _check_permissions(role, number, mount)
        elif (target := posixpath.normpath(mount.dst_path)) in targets:
            why = f"another mount has dst_path={mount.dst_path!r}, too"
            raise ConfigError(
                f"mount {number} of role {role.name} hides another one", why=why, fix="change one of both"
            )
        else:
            targets.add(target)


def _check_permissions(role: Role, number: int, mount: DeviceMount) -> None:
    if not _PERMISSIONS.fullmatch(mount.permissions):
        what = f"permissions={mount.permissions!r} of mount {number} of role {role.name} cannot be given"
        raise ConfigError(what, fix="write some of r (read), w (write), m (mknod)")


def shared_retries(app: AppDef, options: GCPBatchOpts) -> Iterator[Ignored]:
    """Yield for each role that its two numbers of retries are one for Batch, which has one count and one rule."""
    preempted = options.retry_on_preemption
    for role in app.roles:
        if role.max_retries and preempted:
            both = role.max_retries + preempted
            why = f"Google Cloud Batch counts retries together: up to {both} times a task runs again, whatever ended it"
            yield Ignored(role.name, "max_retries", why)
            yield Ignored(role.name, "retry_on_preemption", why)


def _check_environment(role: Role) -> None:
    for name in role.env:
        if name.startswith("BATCH_"):
            why = "Google Cloud Batch keeps names that begin with BATCH_ for itself"
            raise ConfigError(f"Role {role.name} sets {name}", why=why, fix="choose another name")


def check_labels(labels: Mapping[str, str]) -> None:
    """Check the labels that the user gives a job.

    Raises:
        ConfigError: One is ours, or has characters or a length that Google does not accept.
    """
    for key, value in labels.items():
        if key == OWN_LABELS or key.startswith(f"{OWN_LABELS}-"):
            why = f"asyncsched keeps labels that begin with {OWN_LABELS} for itself"
            raise ConfigError(f"labels[{key!r}] cannot be set", why=why, fix="choose another name")
        if not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
            why = f"Google takes at most {LONGEST_LABEL} of a-z, 0-9, _ and -, and a letter first in a key"
            raise ConfigError(f"labels[{key!r}]={value!r} cannot be set", why=why, fix="change it")
    if len(labels) > MAX_LABELS - OWN_LABELS_COUNT:
        why = f"Google takes {MAX_LABELS}, of which asyncsched needs {OWN_LABELS_COUNT}"
        raise ConfigError(f"{len(labels)} labels are too many", why=why, fix="use fewer")


def check_size(wire: Mapping[str, object]) -> None:
    """Check a job's size, as it is sent.

    Raises:
        ConfigError: It is larger than Google takes.
    """
    size = size_of(wire)
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


def size_of(wire: Mapping[str, object]) -> int:
    """Return the bytes of a job that is sent, written as the client writes it."""
    return len(json.dumps(wire, separators=(",", ":")))
