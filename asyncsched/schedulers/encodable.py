"""Check for texts that UTF-8 cannot encode, which services would change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from asyncsched.errors import ConfigError
from asyncsched.specs.app import AppDef, Role
from asyncsched.specs.encodable import half_character
from asyncsched.specs.mounts import DeviceMount, source_of
from asyncsched.specs.secret_ref import SecretRef

__all__ = ["check_encodable"]


def check_encodable(app: AppDef, *, takes_bytes: bool) -> None:
    """Raise ConfigError, naming the place, for a text that would be changed.

    Args:
        app: The app.
        takes_bytes: Whether programs can get any bytes. Then image, entrypoint, arguments, values of variables and
            sources of mounts may be such texts, and a note marks them as not kept.
    """
    _check(f"app {app.name!r}", _in_metadata(app.metadata))
    for role in app.roles:
        _check(f"role {role.name!r}", _always(role))
        if not takes_bytes:
            _check(f"role {role.name!r}", _as_bytes(role))


def _check(what: str, texts: Iterator[tuple[str, str]]) -> None:
    for place, text in texts:
        if half := half_character(text):
            raise ConfigError(
                f"{what}: {place} cannot be encoded as UTF-8",
                why=half,
                fix="use text that UTF-8 can encode, such as base64 for other data",
            )


def _always(role: Role) -> Iterator[tuple[str, str]]:
    """Yield the texts that a note cannot mark as not kept."""
    yield from (("the name of a variable", name) for name in role.env)
    for name, value in role.env.items():
        if isinstance(value, SecretRef):
            yield from ((f"variable {name}", text) for text in (value.name, value.key))
    yield from (("the name of a port", name) for name in role.port_map)
    yield from (("the name of a device", name) for name in role.resource.devices)
    yield from _in_metadata(role.metadata)
    yield from _inside("capability", role.resource.capabilities)
    for number, mount in enumerate(role.mounts):
        yield f"the target of mount {number}", mount.dst_path
        if isinstance(mount, DeviceMount):
            yield f"the permissions of mount {number}", mount.permissions


def _as_bytes(role: Role) -> Iterator[tuple[str, str]]:
    yield from (("image", role.image), ("base_image", role.base_image or ""), ("entrypoint", role.entrypoint))
    yield from ((f"argument {number}", arg) for number, arg in enumerate(role.args))
    yield from ((f"variable {name}", value) for name, value in role.env.items())
    yield from ((f"mount {number}", source_of(mount)) for number, mount in enumerate(role.mounts))


def _in_metadata(metadata: object) -> Iterator[tuple[str, str]]:
    return _inside("metadata", metadata)


def _inside(place: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield the texts and the names in nested data."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for name, item in cast("Mapping[object, object]", value).items():
            yield f"the name of {'a capability' if place == 'capability' else place}", str(name)
            yield from _inside(f"{place} {name}", item)
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(cast("Sequence[object]", value)):
            yield from _inside(f"{place} {number}", item)
