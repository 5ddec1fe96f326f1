"""Deep copies of apps and their parts."""

from __future__ import annotations

import copy
from typing import TypeVar, cast

from asyncsched.specs.app import AppDef, Resource, RetryPolicy, Role
from asyncsched.specs.mounts import BindMount, DeviceMount, VolumeMount
from asyncsched.specs.secret import Secret
from asyncsched.specs.secret_ref import SecretRef

__all__ = ["copied"]

T = TypeVar("T")

_FIXED = frozenset({str, Secret, SecretRef, int, float, bool, bytes, type(None), RetryPolicy})
_OURS = frozenset({AppDef, Role, Resource, BindMount, VolumeMount, DeviceMount})


def copied(value: T) -> T:
    """Return what `copy.deepcopy` returns, several times faster for apps and their parts."""
    return cast("T", _copied(value))


def _copied(value: object) -> object:
    kind = type(value)
    if kind in _FIXED:
        return value
    if kind is list:
        return [_copied(item) for item in cast("list[object]", value)]
    if kind is dict:
        return {key: _copied(item) for key, item in cast("dict[object, object]", value).items()}
    if kind in _OURS:
        result = object.__new__(kind)
        vars(result).update({name: _copied(item) for name, item in vars(value).items()})
        return result
    return copy.deepcopy(value)
