"""What an app was made of, as far as its containers' labels tell: no I/O, no SDK.

Anybody may write labels. What is none of ours tells nothing but one warning, and breaks nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from asyncsched.schedulers._common.untrusted import Once, read_json, shown, well_formed
from asyncsched.schedulers.docker import names
from asyncsched.specs.app import Resource, Role

if TYPE_CHECKING:
    from asyncsched.schedulers.docker.status_containers import Container

__all__ = ["read_metadata", "rebuilt_roles"]

_once = Once(logging.getLogger("asyncsched.schedulers.docker"))


def rebuilt_roles(members: Iterable[Container]) -> list[Role]:
    """Return an app's roles: without environment and mounts, which no label holds."""
    roles: dict[str, Role] = {}
    for container in members:
        if container.role not in roles:
            roles[container.role] = _role(container)
    return list(roles.values())


def read_metadata(container: Container) -> dict[str, str]:
    """Return the metadata of the app that a container belongs to."""
    return {well_formed(key): _text(value) for key, value in _object(_json(container, names.METADATA)).items()}


def _role(container: Container) -> Role:
    spec = _object(_json(container, names.SPEC))
    size = _object(spec.get("resource"))
    args = spec.get("args")
    return Role(
        name=container.role,
        # The list names an image by its digest once its name has gone to another one.
        image=_text(spec.get("image") or container.image),
        entrypoint=_text(spec.get("entrypoint", "")),
        args=[_text(arg) for arg in cast("list[object]", args)] if isinstance(args, list) else [],
        num_replicas=_number(spec.get("num_replicas"), 0),
        max_retries=container.max_retries,
        resource=Resource(
            cpu=_number(size.get("cpu"), -1), gpu=_number(size.get("gpu"), -1), memMB=_number(size.get("memMB"), -1)
        ),
    )


def _json(container: Container, label: str) -> object:
    text = container.labels.get(label)
    if text is None:
        return None
    try:
        return read_json(text)
    except ValueError as error:
        why = f"the label {label} {error}: {shown(text)}"
        _once.warn((container.id, label), "the container %s tells nothing of its role: %s", container.name, why)
        return None


def _text(value: object) -> str:
    return well_formed(str(value))


def _object(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _number(value: object, default: int) -> int:
    # A fraction of a processor stays one, as the caller had written it.
    return cast("int", value) if isinstance(value, (int, float)) else default
