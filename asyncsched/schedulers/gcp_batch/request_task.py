"""Convert a role to the task of a job: its container, variables and volumes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator

from asyncsched.errors import ConfigError
from asyncsched.schedulers._common.replica_command import REPLICA, command_of
from asyncsched.schedulers.gcp_batch.names import PROJECT
from asyncsched.schedulers.gcp_batch.options import GCPBatchOpts
from asyncsched.specs.app import Role
from asyncsched.specs.macros import macros
from asyncsched.specs.mounts import BindMount, DeviceMount, Mount, VolumeMount
from asyncsched.specs.secret_ref import SecretRef

__all__ = ["RANK0_ENV", "ROLE_NAME_ENV", "present", "shares_network", "task_runnables", "task_volumes"]

Json = dict[str, object]

MAIN_NODE_ENV = "BATCH_MAIN_NODE_HOSTNAME"
"""Batch sets it if several tasks share a network."""

RANK0_ENV = "TORCHX_RANK0_HOST"
ROLE_INDEX_ENV = "TORCHX_ROLE_IDX"
ROLE_NAME_ENV = "TORCHX_ROLE_NAME"

_TASK_INDEX = "BATCH_TASK_INDEX"
"""The index of a task; all tasks share one command."""

_OPEN_FIREWALL = """\
if command -v iptables > /dev/null; then
    iptables -w -A INPUT -p tcp -j ACCEPT
    iptables -w -A INPUT -p udp -j ACCEPT
fi
"""

_GCS = re.compile(r"gs://(?P<path>[^/]+(/.*)?)")
_NFS = re.compile(r"nfs://(?P<server>[^/]+)(?P<path>/.*)")
_MOUNTED_AT = "/mnt/disks/asyncsched-"
_SECRET = re.compile(
    rf"projects/({PROJECT.pattern})/secrets/[A-Za-z0-9_-]{{1,255}}(?P<version>/versions/[A-Za-z0-9_-]{{1,63}})?"
)


def task_runnables(role: Role, options: GCPBatchOpts, *, app_id: str, project: str) -> list[Json]:
    """Return the runnables of each task of a role; the last one is the role's program.

    Args:
        role: The role; it is not changed.
        options: The run options.
        app_id: The value of the macro ``app_id``.
        project: The project of secrets that are named without one.
    """
    shared = shares_network(role, options)
    runnables: list[Json] = []
    if shared and options.open_firewall:
        # A failure to open the firewall must not fail the task.
        runnables.append({"script": {"text": _OPEN_FIREWALL}, "ignoreExitStatus": True, "displayName": "firewall"})
    if options.gang:
        runnables.append({"barrier": {"name": "gang"}, "displayName": "gang"})
    return [*runnables, _program(role, options, shared=shared, app_id=app_id, project=project)]


def shares_network(role: Role, options: GCPBatchOpts) -> bool:
    """Return whether the replicas of a role share a network."""
    return role.num_replicas > 1 and options.replica_network


def _program(role: Role, options: GCPBatchOpts, *, shared: bool, app_id: str, project: str) -> Json:
    filled_in = _filled_in(role, app_id, shared=shared)
    (entrypoint, *args), variables = command_of(filled_in, f"${_TASK_INDEX}")
    variables |= {ROLE_INDEX_ENV: "0", ROLE_NAME_ENV: role.name}
    if not shared:
        variables.setdefault(RANK0_ENV, "localhost")
    secrets = {name: _secret(name, ref, project) for name, ref in role.env.items() if isinstance(ref, SecretRef)}
    container: Json = {"imageUri": role.image, "entrypoint": entrypoint}
    container |= present(
        commands=args,
        volumes=list(_bound(role.mounts)),
        options=" ".join(_options(role.mounts, shared=shared)),
        enableImageStreaming=options.image_streaming,
    )
    environment = present(variables=variables, secretVariables=secrets)
    return {"container": container, "environment": environment, "displayName": role.name}


def _filled_in(role: Role, app_id: str, *, shared: bool) -> Role:
    replica = "0" if role.num_replicas == 1 else REPLICA
    rank0 = MAIN_NODE_ENV if shared else RANK0_ENV
    return macros.Values(img_root="", app_id=app_id, replica_id=replica, rank0_env=rank0).apply(role)


def _secret(variable: str, ref: SecretRef, project: str) -> str:
    """Return the name of a secret in Secret Manager; the key is its version."""
    name = ref.name if "/" in ref.name else f"projects/{project}/secrets/{ref.name}"
    found = _SECRET.fullmatch(name)
    if found is not None and found["version"] is not None and ref.key:
        what = f"the secret {ref.name} must not have a key, got {ref.key!r}"
        raise ConfigError(what, why="the name already has a version", fix="omit the key")
    whole = name if found is not None and found["version"] is not None else f"{name}/versions/{ref.key or 'latest'}"
    if _SECRET.fullmatch(whole) is None:
        raise ConfigError(
            f"env[{variable!r}] must refer to a secret of Secret Manager, got {ref!r}",
            why="a name has at most 255 of A-Z, a-z, 0-9, _ and -, and a version at most 63",
            fix="write SecretRef('name'), or SecretRef('projects/P/secrets/S')",
        )
    return whole


def _options(mounts: Iterable[Mount], *, shared: bool) -> Iterator[str]:
    if shared:
        yield "--network host"
    for mount in mounts:
        if isinstance(mount, DeviceMount):
            yield f"--device {shlex.quote(f'{mount.src_path}:{mount.dst_path}:{mount.permissions}')}"


def task_volumes(mounts: Iterable[Mount]) -> list[Json]:
    """Return the volumes that Batch mounts on the VM: buckets and network file systems.

    Raises:
        ConfigError: A mount has a source that Batch cannot mount.
    """
    return [_volume(mount, number) for number, mount in enumerate(_volumes(mounts))]


def _volumes(mounts: Iterable[Mount]) -> list[VolumeMount]:
    return [mount for mount in mounts if isinstance(mount, VolumeMount)]


def _volume(mount: VolumeMount, number: int) -> Json:
    place = f"{_MOUNTED_AT}{number}"
    if found := _GCS.fullmatch(mount.src):
        return {"gcs": {"remotePath": found["path"]}, "mountPath": place}
    if found := _NFS.fullmatch(mount.src):
        return {"nfs": {"server": found["server"], "remotePath": found["path"]}, "mountPath": place}
    raise ConfigError(
        f"the volume {mount.src} cannot be mounted",
        why="Google Cloud Batch mounts buckets and network file systems",
        fix="write gs://BUCKET/FOLDER or nfs://SERVER/PATH",
    )


def _bound(mounts: Iterable[Mount]) -> Iterator[str]:
    """Yield the mounts from the VM into the container; if there are any, Batch adds none itself."""
    numbers = iter(range(len(_volumes(mounts))))
    for mount in mounts:
        if isinstance(mount, DeviceMount):
            continue
        source = mount.src_path if isinstance(mount, BindMount) else f"{_MOUNTED_AT}{next(numbers)}"
        yield f"{source}:{mount.dst_path}" + (":ro" if mount.read_only else "")


def present(**fields: object) -> Json:
    """Return the fields that have a value; empty ones are omitted from Google's JSON."""
    return {name: value for name, value in fields.items() if value}
