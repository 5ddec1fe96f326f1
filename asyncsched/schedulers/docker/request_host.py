"""A container's share of its host: resources, mounts, devices, limits. No I/O, no SDK."""

from __future__ import annotations

from typing import Any

from asyncsched.errors import RunOptionError
from asyncsched.schedulers.docker.options import DockerOpts
from asyncsched.specs.app import Role
from asyncsched.specs.devices import get_device_mounts
from asyncsched.specs.mounts import BindMount, DeviceMount, Mount, VolumeMount

__all__ = ["make_host_kwargs"]


def make_host_kwargs(role: Role, options: DockerOpts) -> dict[str, Any]:
    """Return the host settings of a role's containers, by docker-py's names."""
    mounts: list[Mount] = [*role.mounts, *get_device_mounts(role.resource.devices)]
    kwargs: dict[str, Any] = {
        "privileged": options.privileged,
        "network": options.network,
        "mounts": [_mount(mount) for mount in mounts if not isinstance(mount, DeviceMount)],
        "devices": [_device(mount) for mount in mounts if isinstance(mount, DeviceMount)],
        **_resources(role),
    }
    if role.max_retries > 0:
        kwargs["restart_policy"] = {"Name": "on-failure", "MaximumRetryCount": role.max_retries}
    if options.init:
        kwargs["init"] = True
    if options.ulimits:
        kwargs["ulimits"] = [_ulimit(text) for text in options.ulimits]
    return kwargs


def _resources(role: Role) -> dict[str, Any]:
    """Translate a replica's resources; values that are not positive request nothing."""
    kwargs: dict[str, Any] = {}
    resource = role.resource
    if resource.memMB > 0:
        # Programs that share memory between processes need more than Docker's 64 MB.
        kwargs["mem_limit"] = kwargs["shm_size"] = f"{int(resource.memMB)}m"
    if resource.cpu > 0:
        kwargs["nano_cpus"] = int(resource.cpu * 1_000_000_000)
    if resource.gpu > 0:
        wanted = {"Count": resource.gpu, "Capabilities": [["compute", "utility"]]}
        kwargs["device_requests"] = [{"Driver": "", "DeviceIDs": [], "Options": {}, **wanted}]
    return kwargs


def _mount(mount: BindMount | VolumeMount) -> dict[str, Any]:
    bind = isinstance(mount, BindMount)
    return {
        "Type": "bind" if bind else "volume",
        "Source": mount.src_path if isinstance(mount, BindMount) else mount.src,
        "Target": mount.dst_path,
        "ReadOnly": mount.read_only,
    }


def _device(mount: DeviceMount) -> str:
    return f"{mount.src_path}:{mount.dst_path}:{mount.permissions}"


def _ulimit(text: str) -> dict[str, Any]:
    name, _, limits = text.partition("=")
    soft, _, hard = limits.partition(":")
    try:
        return {"Name": name.strip(), "Soft": int(soft), "Hard": int(hard or soft)}
    except ValueError:
        raise RunOptionError(
            f"cannot read the ulimit {text!r}",
            key="ulimits",
            why="it must have the form name=soft or name=soft:hard",
            fix="write for example nofile=4096:8192",
        ) from None
