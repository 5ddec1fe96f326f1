"""Mounts of a replica, and their text form.

The text form is a list of options; each mount starts with its ``type``::

    type=bind,src=<host path>,dst=<path>[,readonly]
    type=volume,src=<name or id>,dst=<path>[,readonly]
    type=device,src=/dev/<dev>[,dst=<path>][,perm=rwm]
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from asyncsched.errors import MountError
from asyncsched.specs.value import Value

__all__ = ["BindMount", "DeviceMount", "Mount", "VolumeMount", "format_mounts", "parse_mounts", "source_of"]


@dataclass(eq=False, repr=False)
class BindMount(Value):
    """A path of the host, mounted into the replica.

    Args:
        src_path: The path on the host.
        dst_path: The path in the replica.
        read_only: Whether the replica may only read it.
    """

    src_path: str
    dst_path: str
    read_only: bool = False


@dataclass(eq=False, repr=False)
class VolumeMount(Value):
    """A persistent volume, mounted into the replica.

    Args:
        src: The volume's name or id.
        dst_path: The path in the replica.
        read_only: Whether the replica may only read it.
    """

    src: str
    dst_path: str
    read_only: bool = False


@dataclass(eq=False, repr=False)
class DeviceMount(Value):
    """A device of the host, made available in the replica.

    Args:
        src_path: The device's path on the host.
        dst_path: Its path in the replica.
        permissions: What the replica may do with it: any of ``r`` (read), ``w`` (write), ``m`` (mknod).
    """

    src_path: str
    dst_path: str
    permissions: str = "rwm"


Mount: TypeAlias = BindMount | VolumeMount | DeviceMount


def source_of(mount: Mount) -> str:
    """Return the source of a mount: a path of the host, or a volume's name."""
    return mount.src if isinstance(mount, VolumeMount) else mount.src_path


_OPTIONS = {
    "type": "type",
    "destination": "dst",
    "dst": "dst",
    "target": "dst",
    "read_only": "readonly",
    "readonly": "readonly",
    "source": "src",
    "src": "src",
    "perm": "perm",
}
_BY_TYPE = {
    "bind": {"type", "src", "dst", "readonly"},
    "volume": {"type", "src", "dst", "readonly"},
    "device": {"type", "src", "dst", "perm"},
}
_FLAGS = {"": True, "1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def parse_mounts(opts: Iterable[str]) -> list[Mount]:
    """Read mounts from their options, such as ``["type=bind", "src=/data", "dst=/data", "readonly"]``.

    ``~`` at the start of a bind mount's source is the home directory. ``destination`` and ``target`` mean
    ``dst``, ``source`` means ``src``, ``read_only`` means ``readonly``.

    Raises:
        MountError: An option is unknown, missing, repeated or has a wrong value. It is both a ``KeyError`` and a
            ``ValueError``.
    """
    groups: list[dict[str, str]] = []
    for opt in opts:
        key, value = _option(opt)
        if key == "type":
            groups.append({})
        elif not groups:
            raise MountError("The mount's type must be specified first", fix=f"put type=... before {opt!r}")
        if key in groups[-1]:
            raise MountError(f"The mount option {key} is given twice", fix="start each mount with its type")
        groups[-1][key] = value
    return [_mount(group) for group in groups]


def _option(opt: str) -> tuple[str, str]:
    key, _, value = opt.partition("=")
    if key not in _OPTIONS:
        raise MountError(f"unknown mount option {key}", fix=f"must be one of {list(_OPTIONS)}")
    return _OPTIONS[key], value


def _mount(group: dict[str, str]) -> Mount:
    kind = group["type"]
    if kind not in _BY_TYPE:
        raise MountError(f"invalid mount type {kind!r}", fix=f"must be one of {list(_BY_TYPE)}")
    for key in group.keys() - _BY_TYPE[kind]:
        fix = f"a {kind} mount takes {', '.join(sorted(_BY_TYPE[kind]))}"
        raise MountError(f"A {kind} mount does not take the option {key}", fix=fix)
    src = _required(group, "src")
    if kind == "device":
        permissions = _permissions(group.get("perm", "rwm"))
        return DeviceMount(src_path=src, dst_path=group.get("dst", src), permissions=permissions)
    dst, read_only = _required(group, "dst"), _flag(group)
    if kind == "volume":
        return VolumeMount(src=src, dst_path=dst, read_only=read_only)
    # Unlike pathlib, os.path does not raise for an unknown user, and does not normalize the path.
    return BindMount(src_path=os.path.expanduser(src), dst_path=dst, read_only=read_only)  # noqa: PTH111


def _required(group: dict[str, str], key: str) -> str:
    if not group.get(key):
        raise MountError(f"A {group['type']} mount needs {key}", fix=f"add {key}=...")
    return group[key]


def _flag(group: dict[str, str]) -> bool:
    text = group.get("readonly", "no").lower()
    if text not in _FLAGS:
        raise MountError(f"readonly must be yes or no, got {text!r}", fix="write readonly, or leave it out")
    return _FLAGS[text]


def _permissions(text: str) -> str:
    for flag in text:
        if flag not in "rwm":
            raise MountError(f"{flag} is not a valid permission flag", fix="must be one of r,w,m")
    return text


def format_mounts(mounts: Iterable[Mount]) -> list[str]:
    """Write mounts as the options that :func:`parse_mounts` reads."""
    return [option for mount in mounts for option in _format(mount)]


def _format(mount: Mount) -> list[str]:
    if isinstance(mount, DeviceMount):
        return ["type=device", f"src={mount.src_path}", f"dst={mount.dst_path}", f"perm={mount.permissions}"]
    kind, src = ("bind", mount.src_path) if isinstance(mount, BindMount) else ("volume", mount.src)
    options = [f"type={kind}", f"src={src}", f"dst={mount.dst_path}"]
    return [*options, "readonly"] if mount.read_only else options
