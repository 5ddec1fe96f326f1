"""Hide or find the secrets in nested data.

A request holds its environment in one of several forms: a mapping, a list of ``{"name", "value"}``
pairs, or a list of ``NAME=value`` strings. All of them are supported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from asyncsched.specs.secret import MASK, Secret, showing_secrets
from asyncsched.specs.secret_names import is_secret_name
from asyncsched.specs.secret_text import follows_secret_option, replaced, secret_spans
from asyncsched.specs.to_plain import Plain, brief, to_plain

__all__ = ["find_secrets", "hidden", "is_hidden", "masked", "repeated"]


def masked(value: object) -> Plain:
    """Return a plain copy in which every secret is ``***``, unless inside ``show_secrets()``.

    It hides instances of ``Secret``, strings and numbers whose key or sibling ``name`` is a secret's name, and what
    `secret_text` finds in texts: ``NAME=value``, ``--name value``, a URL's password.
    """
    return _shown(to_plain(value)) if showing_secrets() else hidden(value)


def hidden(value: object) -> Plain:
    """Return what `masked` returns, inside ``show_secrets()`` too: for data that is stored."""
    return _masked(to_plain(value))


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
        return [MASK if follows_secret_option(value, k) else _masked(item) for k, item in enumerate(value)]
    if isinstance(value, Secret):
        return MASK
    return replaced(value, MASK) if isinstance(value, str) else value


def is_hidden(text: str) -> bool:
    """Return whether `hidden` has removed a secret from a text."""
    return text == MASK or any(text[start:end] == MASK for start, end in secret_spans(text))


def _is_hidden(owner: dict[str, Plain], key: str) -> bool:
    if not isinstance(owner[key], (str, int, float)) or isinstance(owner[key], bool):
        return False
    name = owner.get("name", owner.get("Name"))
    if key.lower() == "value" and isinstance(name, str):
        return is_secret_name(name)
    return is_secret_name(key)


def find_secrets(*values: object) -> list[str]:
    """Return the values that :func:`masked` would hide, each once."""
    return list(dict.fromkeys(secret for value in values for secret in _find(to_plain(value))))


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
        for k, item in enumerate(value):
            follows = follows_secret_option(value, k) and not isinstance(item, Secret)
            yield from [str(item)] if follows else _find(item)
    elif isinstance(value, str):
        yield from (value[start:end] for start, end in secret_spans(value))


def repeated(value: object) -> str:
    """Return what a message may repeat of a wrong value, which may be, or hold, a secret in the wrong place.

    A number or a word is repeated. Of a dict or a list, and of a text with ``=``, or with ``:`` after a secret's name,
    only its type is told.
    """
    if isinstance(value, dict):
        members = cast("dict[object, object]", value)
        return _types("dict", members.keys(), members.values())
    if isinstance(value, (list, tuple)):
        return _types("list" if isinstance(value, list) else "tuple", cast("Sequence[object]", value))
    if not isinstance(value, str):
        return brief(value)
    if "=" in value:
        return "a text with `=`"
    if any(map(is_secret_name, re.findall(r"([\w.-]+)['\"]?:(?=\S)", value))):
        return "a text with `:`"
    return brief(masked(value))


def _types(name: str, *parts: Iterable[object]) -> str:
    """Return a container's type with those of its parts: ``dict[str, list]``."""
    kinds = [" | ".join(dict.fromkeys(type(part).__name__ for part in each)) for each in parts]
    return f"{name}[{', '.join(kinds)}]" if kinds[0] else f"an empty {name}"
