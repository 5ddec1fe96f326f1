"""Check an app, and compute its digest, before anything is sent."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import cast

from asyncsched.errors import ConfigError
from asyncsched.schedulers.arguments import check_name
from asyncsched.schedulers.shape import check_role, check_roles
from asyncsched.specs.app import AppDef, Role
from asyncsched.specs.encodable import half_character
from asyncsched.specs.given import kind
from asyncsched.specs.keeping import Keeper, secrets_in
from asyncsched.specs.mounts import BindMount, DeviceMount, Mount, VolumeMount
from asyncsched.specs.not_kept import NOT_KEPT, NotKept
from asyncsched.specs.run_options import CfgVal
from asyncsched.specs.secret import MASK, SHORTEST_UNDECLARED, Secret, reveal
from asyncsched.specs.secret_ref import SecretRef
from asyncsched.specs.to_plain import SCALARS

__all__ = [
    "check_app",
    "check_key",
    "check_name",
    "check_secret_refs",
    "digest",
    "digest_of_request",
]

_LATER = frozenset({"timeout", "pending_timeout", "platform", "image_platform"})
"""Options that were added after the first release; if unset, they do not change an app's digest, so keys stay valid."""

_NAMED = 10
"""Most missing values that an error names; the others are counted."""


def check_app(app: AppDef) -> None:
    """Raise ConfigError, naming the role, for an app that no scheduler can run; UsageError if it is not an app."""
    check_roles(app)
    if not app.roles:
        raise ConfigError(f"app {app.name!r} has no roles: it needs at least one")
    check_name("the app", app.name)
    for role in app.roles:
        check_name(f"a role of app {app.name!r}", role.name)
    _check_kept(app)  # first, because values that were not kept explain what is missing
    names: set[str] = set()
    for role in app.roles:
        if not role.name:
            raise ConfigError(f"a role of app {app.name!r} has no name: its replicas and logs are found by it")
        check_role(role)
        if role.name in names:
            raise ConfigError(f"the names of the roles of app {app.name!r} must be unique, got {role.name!r} twice")
        names.add(role.name)
    _check_public(app)


def _check_public(app: AppDef) -> None:
    """Refuse secrets in visible places: in names, and in the paths of mounts."""
    known = [*_secrets(app)]
    for what, name in _names(app):
        if not isinstance(name, str):
            raise ConfigError(f"{what} must be a str, got {name!r}", fix=f"write {str(name)!r}")
    for what, text in (*_names(app), *_paths(app)):
        if isinstance(text, Secret):
            raise ConfigError(f"{what} is a Secret", why=_SEEN, fix="write it as a str, or leave out the secret")
    keeper = Keeper()
    for what, name in _titles(app):
        if keeper.name(name) == MASK or any(secret in name for secret in known):
            raise ConfigError(f"{what} contains a secret", why=_SEEN, fix="choose another name")


_SEEN = "names and paths are in ids, labels and files, which everybody who can see the app can read"


def _titles(app: AppDef) -> Iterator[tuple[str, str]]:
    yield "the name of the app", app.name
    yield from ((f"the name of role {number}", role.name) for number, role in enumerate(app.roles))


def _names(app: AppDef) -> Iterator[tuple[str, object]]:
    yield from _titles(app)
    yield from (("a name in the app's metadata", name) for name in app.metadata)
    for role in app.roles:
        yield from ((f"a variable's name of role {role.name!r}", name) for name in role.env)
        yield from ((f"a name in the metadata of role {role.name!r}", name) for name in role.metadata)
        yield from ((f"a port's name of role {role.name!r}", name) for name in role.port_map)
        yield from ((f"a device's name of role {role.name!r}", name) for name in role.resource.devices)


def _paths(app: AppDef) -> Iterator[tuple[str, object]]:
    for role in app.roles:
        for number, mount in enumerate(role.mounts):
            yield from ((f"{name} of mount {number} of role {role.name!r}", text) for name, text in _texts_of(mount))


def _texts_of(mount: Mount) -> Iterator[tuple[str, object]]:
    yield from ((name, value) for name, value in vars(mount).items() if name != "read_only")


def _secrets(app: AppDef) -> Iterator[str]:
    """Yield the secrets that are not common words: a role named postgres may also have that as its password."""
    for secret in secrets_in(app):
        value = reveal(secret)
        is_common = len(value) < _SHORTEST or value.isalpha()
        if len(value) >= SHORTEST_UNDECLARED and (isinstance(secret, Secret) or not is_common):
            yield value


_SHORTEST = 8
"""Shortest undeclared secret, in characters, that does not count as a common word."""


def _check_kept(app: AppDef) -> None:
    """Refuse a described app with values that were not kept; the caller must fill them in."""
    lost = {f"app {app.name!r}": _lost({"metadata": app.metadata})}
    lost |= {f"role {role.name!r}": _lost(role) for role in app.roles}
    found = [(what, place, why) for what, places in lost.items() for place, why in places]
    for what, place, why in found:
        if place == f" variable {NOT_KEPT}" and found[0][0] == what:
            raise ConfigError(
                f"{what}: not all of it was kept by the scheduler that described it",
                why=why,
                fix=f"fill it in, and remove {NOT_KEPT} from its env, before you submit the app again",
            )
    if found:
        raise ConfigError(
            f"{_listed(found)} {'was' if len(found) == 1 else 'were'} not kept by the scheduler that described it",
            why="; ".join(dict.fromkeys(why for _, _, why in found)),
            fix=f"fill {'it' if len(found) == 1 else 'them'} in before you submit the app again",
        )


def _listed(found: Sequence[tuple[str, str, str]]) -> str:
    """Return the first values that were not kept, by app or role, and the number of the others."""
    places: dict[str, list[str]] = {}
    for what, place, _ in found[:_NAMED]:
        places.setdefault(what, []).append(place)
    listed = "; ".join(f"{what}:{','.join(of_it)}" for what, of_it in places.items())
    return f"{listed} and {len(found) - _NAMED} more" if len(found) > _NAMED else listed


_PLAIN = frozenset({str, list, dict, tuple})


def _lost(value: object) -> Iterator[tuple[str, str]]:
    """Yield the places of values that were not kept, and the reasons."""
    if isinstance(value, Role):
        yield from _lost({"entrypoint": value.entrypoint, "variable": value.env, "argument": value.args})
        yield from _lost({"image": value.image, "base_image": value.base_image})
        yield from _lost({"metadata": value.metadata, "mount": value.mounts})
        yield from _lost({"capability": value.resource.capabilities})
    elif isinstance(value, Mapping):
        for name, item in cast("Mapping[object, object]", value).items():
            if item is not None and (type(item) not in _PLAIN or item):
                yield from ((f" {name}{place}", why) for place, why in _lost(item))
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(cast("Sequence[object]", value)):
            yield from ((f" {number}{place}", why) for place, why in _lost(item))
    elif isinstance(value, (BindMount, VolumeMount, DeviceMount)):
        yield from (found for _, text in _texts_of(value) for found in _lost(text))
    elif isinstance(value, NotKept):
        yield "", value.why
    elif isinstance(value, str) and NOT_KEPT in reveal(value):
        yield "", f"its text contains {NOT_KEPT}, which replaces a value that was not kept"


def check_secret_refs(app: AppDef, backend: str) -> None:
    """Raise ConfigError for a `SecretRef` on a backend without secrets."""
    for role in app.roles:
        for name, value in role.env.items():
            if isinstance(value, SecretRef):
                raise ConfigError(
                    f"{backend} stores no secrets: it cannot fill in {name} of role {role.name!r}",
                    why=f"its value is {value!r}",
                    fix=f"read the secret yourself and write env={{{name!r}: Secret(value)}}",
                )


def check_key(key: object) -> None:
    """Raise ConfigError for a key that is not a non-empty str, such as the value of an unset variable, or not UTF-8."""
    if key is not None and not (isinstance(key, str) and key):
        given = kind(key) if not isinstance(key, str) else repr(key)
        raise ConfigError(
            f"key must be a non-empty string, got {given}", fix="leave it out, or write one such as 'order-42'"
        )
    if key is not None and (half := half_character(key)):
        raise ConfigError(f"key must be text that UTF-8 can encode, got {key!r}", why=half)


def digest(app: AppDef, cfg: Mapping[str, CfgVal], workspace: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a hash of an app and its options: equal for equal apps and options, in every process.

    Args:
        app: The app.
        cfg: The run options.
        workspace: The hashes of the workspace, if there is one.
    """
    asked = {name: value for name, value in cfg.items() if value is not None or name not in _LATER}
    return _digest([_plain(app), _plain(asked), *([_plain(workspace)] if workspace else [])])


def digest_of_request(request: object) -> str:
    """Return a hash of a request that was made by hand: equal for equal requests."""
    return _digest(["request", _plain(request)])


def _digest(value: object) -> str:
    import hashlib
    import json

    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _plain(value: object) -> object:
    if type(value) in SCALARS:
        return value
    if isinstance(value, str):
        return reveal(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in cast("Sequence[object]", value)]
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, (int, float)):
        return value
    return type(value).__qualname__  # a hook, such as pre_proc: only its type can be compared
