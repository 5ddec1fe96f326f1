"""Turn a requested container into the body of the Engine API's request: no I/O, no SDK.

Settings have docker-py's names, as in the documents, and their values mean what they mean there. A name that has no
equivalent here is refused.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from asyncsched.errors import InvalidRequestError
from asyncsched.specs.masking import masked
from asyncsched.specs.secret import reveal, revealed_env

__all__ = ["make_body", "read_command", "read_labels"]

_UNITS = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def _as_it_is(value: Any) -> Any:
    return value


def _bytes(value: int | str) -> int:
    """Read a size such as ``512m``."""
    if isinstance(value, int):
        return value
    found = re.fullmatch(r"(\d+(?:\.\d+)?) *([bkmgt]?)b?", value.strip().lower())
    if found is None:
        raise ValueError("it must be a number of bytes, such as 512m")
    return int(float(found[1]) * 2 ** _UNITS[found[2]])


def _devices(value: Iterable[str | Mapping[str, str]]) -> list[Mapping[str, str]]:
    """Read devices such as ``/dev/fuse:/dev/x:rwm``."""
    return [_device(each) if isinstance(each, str) else each for each in value]


def _device(text: str) -> dict[str, str]:
    host, _, rest = text.partition(":")
    inside, _, permissions = rest.partition(":")
    return {"PathOnHost": host, "PathInContainer": inside or host, "CgroupPermissions": permissions or "rwm"}


def _env(value: Mapping[str, str] | Iterable[str]) -> list[str]:
    if isinstance(value, Mapping):
        return [f"{name}={text}" for name, text in revealed_env(cast("Mapping[str, str]", value)).items()]
    return [reveal(each) for each in value]


def read_labels(value: Mapping[str, str] | Iterable[str]) -> dict[str, str]:
    """Return labels as a dict; they may be a list of names."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, str]", value))
    return dict.fromkeys(value, "")


def _hosts(value: Mapping[str, str] | Iterable[str]) -> list[str]:
    if isinstance(value, Mapping):
        return [f"{name}:{address}" for name, address in cast("Mapping[str, str]", value).items()]
    return list(value)


def _words(value: str | Iterable[str]) -> list[str]:
    return shlex.split(reveal(value)) if isinstance(value, str) else [reveal(word) for word in value]


def _binds(value: Mapping[str, Mapping[str, str]] | Iterable[str]) -> list[str]:
    if isinstance(value, Mapping):
        volumes = cast("Mapping[str, Mapping[str, str]]", value)
        return [f"{source}:{how['bind']}:{how.get('mode') or 'rw'}" for source, how in volumes.items()]
    return list(value)


_Reader = Callable[[Any], Any]

_CONFIG: Mapping[str, tuple[str, _Reader]] = {
    "domainname": ("Domainname", _as_it_is),
    "entrypoint": ("Entrypoint", _words),
    "environment": ("Env", _env),
    "healthcheck": ("Healthcheck", _as_it_is),
    "hostname": ("Hostname", _as_it_is),
    "labels": ("Labels", read_labels),
    "stdin_open": ("OpenStdin", _as_it_is),
    "stop_signal": ("StopSignal", str),
    "tty": ("Tty", _as_it_is),
    "user": ("User", str),
    "working_dir": ("WorkingDir", _as_it_is),
}
"""By docker-py's name, the container's field and how to read a value."""

_HOST: Mapping[str, tuple[str, _Reader]] = {
    "cap_add": ("CapAdd", _as_it_is),
    "cap_drop": ("CapDrop", _as_it_is),
    "cgroup_parent": ("CgroupParent", _as_it_is),
    "cpu_period": ("CpuPeriod", _as_it_is),
    "cpu_quota": ("CpuQuota", _as_it_is),
    "cpu_shares": ("CpuShares", _as_it_is),
    "cpuset_cpus": ("CpusetCpus", _as_it_is),
    "cpuset_mems": ("CpusetMems", _as_it_is),
    "device_cgroup_rules": ("DeviceCgroupRules", _as_it_is),
    "device_requests": ("DeviceRequests", _as_it_is),
    "devices": ("Devices", _devices),
    "dns": ("Dns", _as_it_is),
    "dns_opt": ("DnsOptions", _as_it_is),
    "dns_search": ("DnsSearch", _as_it_is),
    "extra_hosts": ("ExtraHosts", _hosts),
    "group_add": ("GroupAdd", lambda groups: [str(each) for each in groups]),
    "init": ("Init", _as_it_is),
    "ipc_mode": ("IpcMode", _as_it_is),
    "log_config": ("LogConfig", _as_it_is),
    "mem_limit": ("Memory", _bytes),
    "mem_reservation": ("MemoryReservation", _bytes),
    "memswap_limit": ("MemorySwap", _bytes),
    "mounts": ("Mounts", _as_it_is),
    "nano_cpus": ("NanoCpus", _as_it_is),
    "oom_kill_disable": ("OomKillDisable", _as_it_is),
    "oom_score_adj": ("OomScoreAdj", _as_it_is),
    "pid_mode": ("PidMode", _as_it_is),
    "pids_limit": ("PidsLimit", _as_it_is),
    "privileged": ("Privileged", _as_it_is),
    "read_only": ("ReadonlyRootfs", _as_it_is),
    "restart_policy": ("RestartPolicy", _as_it_is),
    "runtime": ("Runtime", _as_it_is),
    "security_opt": ("SecurityOpt", _as_it_is),
    "shm_size": ("ShmSize", _bytes),
    "storage_opt": ("StorageOpt", _as_it_is),
    "sysctls": ("Sysctls", _as_it_is),
    "tmpfs": ("Tmpfs", read_labels),
    "ulimits": ("Ulimits", _as_it_is),
    "userns_mode": ("UsernsMode", _as_it_is),
    "uts_mode": ("UTSMode", _as_it_is),
    "volumes": ("Binds", _binds),
}
"""The same for the fields of ``HostConfig``."""

_ELSEWHERE = frozenset({"name", "network", "network_mode"})
"""Settings that another part of the request sets."""


def make_body(kwargs: Mapping[str, Any], *, made_by: str, backend: str) -> dict[str, Any]:
    """Return the body for a container with these arguments of docker-py; None means no value.

    Args:
        kwargs: The arguments by name.
        made_by: The container's name, for messages.
        backend: The scheduler's name, for messages.

    Raises:
        InvalidRequestError: An argument has no equivalent, or its value cannot be read.
    """
    body: dict[str, Any] = {}
    host: dict[str, Any] = {}
    for name, value in kwargs.items():
        if name in _ELSEWHERE or value is None:
            continue
        fields, (field, read) = (body, _CONFIG[name]) if name in _CONFIG else (host, _HOST.get(name, ("", _as_it_is)))
        if not field:
            raise _unknown(name, made_by, backend)
        fields[field] = _read(read, name, value, made_by, backend)
    return {**body, "HostConfig": host}


def read_command(command: str | Iterable[str], *, made_by: str, backend: str) -> list[str]:
    """Return the words of a command; a string is split as a shell would.

    Raises:
        InvalidRequestError: It cannot be read.
    """
    return cast("list[str]", _read(_words, "command", command, made_by, backend))


def _read(read: _Reader, name: str, value: Any, made_by: str, backend: str) -> Any:
    try:
        return read(value)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidRequestError(
            f"the container {made_by} has the invalid setting {masked({name: value})}",
            why=str(error),
            fix="write it as for docker-py's containers.run",
            backend=backend,
        ) from error


def _unknown(name: str, made_by: str, backend: str) -> InvalidRequestError:
    import difflib

    known = [*_CONFIG, *_HOST, *_ELSEWHERE]
    near = difflib.get_close_matches(name, known, n=1)
    return InvalidRequestError(
        f"the container {made_by} has the unknown setting {name!r}",
        why="it has no equivalent here",
        fix=f"did you mean {near[0]}?" if near else f"use one of {', '.join(sorted(known))}, or host_config",
        backend=backend,
    )
