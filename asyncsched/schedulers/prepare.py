"""What is checked and computed of an app before anything is sent."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from asyncsched.specs.app import MISSING, AppDef, Role
from asyncsched.specs.options import CfgVal
from asyncsched.specs.secret import reveal

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["as_mapping", "check_app", "digest"]


def check_app(app: AppDef) -> None:
    """Raise ValueError, naming the role, for an app that no scheduler could run."""
    if not app.roles:
        raise ValueError(f"app {app.name!r} has no roles: it needs at least one")
    names: set[str] = set()
    for role in app.roles:
        if not role.name:
            raise ValueError(f"a role of app {app.name!r} has no name: its replicas and their logs are found by it")
        if not role.entrypoint or role.entrypoint == MISSING:
            raise ValueError(f"role {role.name!r} has no entrypoint: name the program that it runs")
        if role.num_replicas <= 0:
            raise ValueError(f"role {role.name!r} has {role.num_replicas} replicas: it needs at least one")
        if role.name in names:
            raise ValueError(f"two roles are named {role.name!r}: replicas are told apart by their role's name")
        names.add(role.name)
        _check_args(role)


def _check_args(role: Role) -> None:
    args: object = role.args  # callers without types
    if isinstance(args, str):
        raise ValueError(f"role {role.name!r} has args={args!r}: they are a list, such as [{args!r}]")
    for arg in cast("Iterable[object]", args):
        if not isinstance(arg, str):
            raise ValueError(f"role {role.name!r} has the argument {arg!r}: each is a text, write {str(arg)!r}")


def as_mapping(options: object) -> dict[str, CfgVal]:
    """Return the run options of a backend's class by name."""
    fields = dataclasses.fields(cast("DataclassInstance", options))
    return {field.name: getattr(options, field.name) for field in fields}


def digest(app: AppDef, cfg: Mapping[str, CfgVal]) -> str:
    """Return a hash of what was asked for: equal for equal apps and options, whatever process computes it."""
    import hashlib
    import json

    text = json.dumps([_plain(app), _plain(cfg)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: object) -> object:
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
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return type(value).__qualname__  # a hook, such as pre_proc: its result is not comparable, its kind is
