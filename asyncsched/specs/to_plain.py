"""Plain data, which YAML and JSON can hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TypeAlias, cast

__all__ = ["MOST_LEVELS", "MOST_SHOWN", "SCALARS", "JsonValue", "Plain", "brief", "check_depth", "to_plain"]

Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"
JsonValue: TypeAlias = Plain
"""The value of a JSON document."""

MOST_LEVELS = 100
"""Levels on which values from outside may be nested; some parsers take values that are too deep to be printed."""

MOST_SHOWN = 100
"""Characters of a wrong value that a message repeats."""

SCALARS = frozenset({str, int, float, bool, type(None)})
"""Asked for first, because most values are such; subclasses, as `Secret`, are others."""


def to_plain(value: object) -> Plain:
    """Return a copy made of dicts, lists and scalars.

    A string is kept, so a ``Secret`` stays one. An enum becomes its value if that is a string, else its name. Any
    other object becomes its ``str()``.
    """
    if type(value) in SCALARS:
        return cast("Plain", value)
    if isinstance(value, Enum):
        return str(value.value) if isinstance(value, str) else value.name
    if isinstance(value, (int, float, str)):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value)
        return {str(key): to_plain(item) for key, item in pairs.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_plain(item) for item in cast("Iterable[object]", value)]
    return str(value)


def check_depth(value: object) -> None:
    """Raise RecursionError, as parsers do, for dicts and lists that are nested on more than `MOST_LEVELS` levels."""
    level = [value]
    for _ in range(MOST_LEVELS):
        inner = [[*cast("dict[str, object]", each).values()] if isinstance(each, dict) else each for each in level]
        level = [item for each in inner if isinstance(each, list) for item in cast("list[object]", each)]
    if level:
        raise RecursionError


def brief(value: object) -> str:
    """Return the `repr` of a value, or the beginning of a long one."""
    try:
        text = repr(value)
    except ValueError:  # Python converts no integer of more than 4,300 digits
        return "an integer of too many digits"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"
