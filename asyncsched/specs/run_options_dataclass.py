"""Read the run options that a dataclass declares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Literal, Union, cast, get_args, get_origin, get_type_hints

from asyncsched._typing import Doc
from asyncsched.specs.run_options import CfgVal, runopt

__all__ = ["read_options"]


def read_options(options: type[object]) -> Iterator[tuple[str, runopt]]:
    """Yield name and option of each field of the dataclass.

    Raises:
        TypeError: It is not a dataclass, or a field has a type that no run option can have.
    """
    if not is_dataclass(options):
        raise TypeError(f"{options!r} is not a dataclass")
    hints = get_type_hints(options, localns={**vars(options), "Doc": Doc}, include_extras=True)
    for field in fields(options):
        if field.init:
            hint, help_text = _without_annotation(hints[field.name])
            opt_type, choices = _value_type(_without_none(hint))
            required, default = _default(field)
            yield field.name, runopt(default, opt_type, required, help_text, choices=choices)


def _without_annotation(hint: object) -> tuple[object, str]:
    if get_origin(hint) is not Annotated:
        return hint, ""
    inner, *notes = get_args(hint)
    texts = (getattr(note, "documentation", None) for note in notes)  # a `Doc`, ours or that of typing_extensions
    return inner, next((text for text in texts if isinstance(text, str)), "")


def _without_none(hint: object) -> object:
    if get_origin(hint) not in (Union, UnionType):
        return hint
    members = [member for member in get_args(hint) if member is not NoneType]
    return members[0] if len(members) == 1 else hint


def _value_type(hint: object) -> tuple[type[object], tuple[str, ...]]:
    if get_origin(hint) is Literal and all(isinstance(choice, str) for choice in get_args(hint)):
        return str, get_args(hint)
    return cast("type[object]", hint), ()


def _default(field: Field[object]) -> tuple[bool, CfgVal]:
    if field.default is not MISSING:
        return False, cast("CfgVal", field.default)
    if field.default_factory is not MISSING:
        return False, cast("CfgVal", field.default_factory())
    return True, None
