"""Walk through nested data, to hide the secrets in it or to find them.

A request carries its environment in one of several forms: a mapping, a list of ``{"name", "value"}``
pairs, or a list of ``NAME=value`` strings. All of them are understood here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum

from asyncsched.specs.secret import MASK, Secret, is_secret_name, showing_secrets

__all__ = ["find_secrets", "masked", "plain"]

_ASSIGNMENT = re.compile(r"(?s)([A-Za-z_][A-Za-z0-9_.-]*)=(.*)")


def plain(value: object) -> object:
    """Return a copy made of dicts, lists and scalars; an enum becomes its name, a secret stays one."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return value


def masked(value: object) -> object:
    """Return a plain copy in which every secret is ``***``, unless inside ``show_secrets()``.

    Hidden are instances of ``Secret``, and strings whose key, whose sibling ``name`` or whose
    ``NAME=`` says that they are secret.
    """
    return _masked(plain(value))


def _masked(value: object) -> object:
    if isinstance(value, dict):
        return {key: _masked_item(value, key) for key in value}
    if isinstance(value, list):
        return [_masked(_mask_assignment(item)) for item in value]
    return str(value) if isinstance(value, Secret) else value


def _masked_item(owner: dict[str, object], key: str) -> object:
    return MASK if _is_hidden(owner, key) and not showing_secrets() else _masked(owner[key])


def _mask_assignment(item: object) -> object:
    if isinstance(item, str) and not isinstance(item, Secret) and not showing_secrets():
        match = _ASSIGNMENT.fullmatch(item)
        if match and is_secret_name(match[1]):
            return f"{match[1]}={MASK}"
    return item


def _is_hidden(owner: Mapping[str, object], key: str) -> bool:
    if not isinstance(owner[key], str):
        return False
    name = owner.get("name", owner.get("Name"))
    if key.lower() == "value" and isinstance(name, str):
        return is_secret_name(name)
    return is_secret_name(key)


def find_secrets(*values: object) -> list[str]:
    """Return the values that :func:`masked` would hide, in order and without repetition."""
    return list(dict.fromkeys(secret for value in values for secret in _find(plain(value))))


def _find(value: object) -> Iterator[str]:
    if isinstance(value, Secret):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, str) and _is_hidden(value, key):
                yield item
            else:
                yield from _find(item)
    elif isinstance(value, list):
        yield from _find_in_list(value)


def _find_in_list(items: Iterable[object]) -> Iterator[str]:
    for item in items:
        match = _ASSIGNMENT.fullmatch(item) if isinstance(item, str) else None
        if match and is_secret_name(match[1]):
            yield match[2]
        else:
            yield from _find(item)
