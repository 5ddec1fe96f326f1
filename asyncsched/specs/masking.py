"""Walk through nested data, to hide the secrets in it or to find them.

A request carries its environment in one of several forms: a mapping, a list of ``{"name", "value"}``
pairs, or a list of ``NAME=value`` strings. All of them are understood here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from asyncsched.specs.plain import Plain, plain
from asyncsched.specs.secret import MASK, Secret, is_secret_name, showing_secrets

__all__ = ["find_secrets", "hidden", "masked"]

_ASSIGNMENT = r"(?s)([A-Za-z_][A-Za-z0-9_.-]*)=(.*)"


def masked(value: object) -> Plain:
    """Return a plain copy in which every secret is ``***``, unless inside ``show_secrets()``.

    Hidden are instances of ``Secret``, and strings and numbers whose key, whose sibling ``name`` or whose
    ``NAME=`` says that they are secret.
    """
    return _shown(plain(value)) if showing_secrets() else hidden(value)


def hidden(value: object) -> Plain:
    """Return what `masked` does, inside ``show_secrets()`` too: for what is kept."""
    return _masked(plain(value))


def _shown(value: Plain) -> Plain:
    if isinstance(value, dict):
        return {key: _shown(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shown(item) for item in value]
    return str(value) if isinstance(value, Secret) else value


def _masked(value: Plain) -> Plain:
    if isinstance(value, dict):
        return {key: MASK if _is_hidden(value, key) else _masked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(_mask_assignment(item)) for item in value]
    return MASK if isinstance(value, Secret) else value


def _mask_assignment(item: Plain) -> Plain:
    if isinstance(item, str) and not isinstance(item, Secret):
        match = re.fullmatch(_ASSIGNMENT, item)
        if match and is_secret_name(match[1]):
            return f"{match[1]}={MASK}"
    return item


def _is_hidden(owner: dict[str, Plain], key: str) -> bool:
    if not isinstance(owner[key], (str, int, float)) or isinstance(owner[key], bool):
        return False
    name = owner.get("name", owner.get("Name"))
    if key.lower() == "value" and isinstance(name, str):
        return is_secret_name(name)
    return is_secret_name(key)


def find_secrets(*values: object) -> list[str]:
    """Return the values that :func:`masked` would hide, each once."""
    return list(dict.fromkeys(secret for value in values for secret in _find(plain(value))))


def _find(value: Plain) -> Iterator[str]:
    if isinstance(value, Secret):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, Secret) or not _is_hidden(value, key):
                yield from _find(item)
            else:
                yield str(item)
    elif isinstance(value, list):
        yield from _find_in_list(value)


def _find_in_list(items: list[Plain]) -> Iterator[str]:
    for item in items:
        match = re.fullmatch(_ASSIGNMENT, item) if isinstance(item, str) else None
        if match and is_secret_name(match[1]):
            yield match[2]
        else:
            yield from _find(item)
