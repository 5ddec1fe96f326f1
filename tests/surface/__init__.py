"""The public surface as text: the names in the rooms' `__all__`, with their signatures.

`public.txt` beside this file is what is promised; a test compares. When a change is meant::

    python -m tests.surface --write
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

PROMISED = Path(__file__).with_name("public.txt")

# Where a name is public in several rooms, it is described in the first, and the others refer to it.
_ROOMS = ("specs", "schedulers", "workspace", "testing", "sync")

# What the language calls, where it is part of how an object is used.
_PROTOCOLS = """
    __aenter__ __aexit__ __aiter__ __anext__ __await__ __call__ __contains__ __enter__ __exit__
    __getitem__ __iter__ __len__ __next__ __or__ __str__
"""


def rooms() -> list[ModuleType]:
    """Return the modules whose `__all__` is public, without those that do not exist yet."""
    names = [f"asyncsched.{room}" for room in _ROOMS]
    found = [name for name in names if importlib.util.find_spec(name) is not None]
    return [importlib.import_module(name) for name in [*found, "asyncsched"]]


def describe() -> str:
    """Return the whole surface, one line for each name and member."""
    seen: dict[int, str] = {}
    lines: list[str] = []
    for room in rooms():
        lines.append(f"# {room.__name__}")
        for name in sorted(room.__all__):
            value = getattr(room, name)
            if _is_named(value) and id(value) in seen:
                lines.append(f"{name} = {seen[id(value)]}")
                continue
            if inspect.isclass(value) and value.__name__ != name:  # a second name, met before the first
                lines.append(f"{name} = {value.__module__}.{value.__name__}")
                continue
            seen[id(value)] = f"{room.__name__}.{name}"
            lines += _definition(name, value)
        lines.append("")
    return "\n".join(lines)


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the public members that this class, or a private base of it, defines."""
    own = [base for base in cls.__mro__ if base is cls or _is_private(base)]
    names = {name for base in own for name in vars(base)}
    for name in sorted(names):
        member = inspect.getattr_static(cls, name)
        is_protocol = name in _PROTOCOLS.split() and inspect.isfunction(member)
        if is_protocol or not name.startswith("_"):
            yield name, member


def _definition(name: str, value: Any) -> list[str]:
    if inspect.isclass(value):
        return _class(name, value)
    if inspect.isroutine(value):
        return [_function(name, value)]
    if _is_named(value) or isinstance(value, (str, int, float)):
        return [f"{name}: {type(value).__name__}"]
    text = _plain(str(value))
    return [f"{name}: {type(value).__name__}" if "<" in text else f"{name} = {text}"]


def _class(name: str, cls: type) -> list[str]:
    bases = ", ".join(base.__name__ for base in cls.__bases__ if base.__name__ not in {"object", "Generic"})
    title = f"class {name}({bases})" if bases else f"class {name}"
    if issubclass(cls, enum.Enum):
        values = [f"    {member.name} = {member.value!r}" for member in cls]
        return [title, *values, *_members(cls, skip=cls.__members__)]
    fields = (
        [field.name for field in dataclasses.fields(cls)]
        if dataclasses.is_dataclass(cls)
        else getattr(cls, "_fields", ())
    )
    construct = [] if _constructs_as_its_base(cls) else [f"    __init__{_signature(cls)}"]
    return [title, *construct, *_members(cls, skip=fields)]


def _constructs_as_its_base(cls: type) -> bool:
    definer = next(base for base in cls.__mro__ if {"__init__", "__new__"} & {*vars(base)})
    return definer is not cls and definer.__module__.startswith("asyncsched") and not _is_private(definer)


def _members(cls: type, skip: Any) -> list[str]:
    return [f"    {_member(name, value)}" for name, value in members(cls) if name not in skip]


def _member(name: str, value: Any) -> str:
    if isinstance(value, property):
        return f"{name}: property -> {_annotation(value.fget)}"
    if isinstance(value, classmethod | staticmethod):
        return f"{type(value).__name__} {_function(name, value.__func__)}"
    if inspect.isfunction(value):
        return _function(name, value)
    return f"{name} = {value!r}" if isinstance(value, str | int | float) else name


def _function(name: str, function: Callable[..., Any]) -> str:
    prefix = "async def" if inspect.iscoroutinefunction(function) else "def"
    return f"{prefix} {name}{_signature(function)}"


def _signature(value: Callable[..., Any]) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    parameters = [p.replace(annotation=_unquoted(p.annotation)) for p in signature.parameters.values()]
    returned = _unquoted(signature.return_annotation)
    return _plain(str(signature.replace(parameters=parameters, return_annotation=returned)))


class _Unquoted(str):
    """An annotation, which is a string already, as it stands in the source."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _unquoted(annotation: Any) -> Any:
    annotation = getattr(annotation, "__forward_arg__", annotation)
    return _Unquoted(annotation) if isinstance(annotation, str) else annotation


def _annotation(getter: Callable[..., Any] | None) -> str:
    return str(inspect.get_annotations(getter).get("return", "?")) if inspect.isfunction(getter) else "?"


def _plain(text: str) -> str:
    # Addresses change from run to run.
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def _is_named(value: Any) -> bool:
    return inspect.isclass(value) or inspect.isroutine(value)


def _is_private(base: type) -> bool:
    public = (getattr(room, name) for room in rooms() for name in room.__all__)
    return base.__module__.startswith("asyncsched") and all(base is not value for value in public)
