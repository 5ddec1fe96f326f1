"""Find out which parts of an app still describe a request that may have been edited after its dry-run."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

from asyncsched.specs.app import AppDef, Resource, Role
from asyncsched.specs.copies import copied
from asyncsched.specs.dryrun import AppDryRunInfo, Made
from asyncsched.specs.keeping import Keeper, ToldApp
from asyncsched.specs.not_kept import NOT_KEPT, NotKept
from asyncsched.specs.to_plain import Plain, to_plain

__all__ = ["differences", "listed", "remember", "told"]

_SMALL = 2000
"""Values of a request from which it is copied in a thread."""

_NAMED = 10
"""Most edited places of a request that a note names."""

_LONGEST = 200

_EMPTY: Mapping[str, Callable[[str], object]] = {
    "image": NotKept,
    "entrypoint": NotKept,
    "args": lambda why: [],
    "env": lambda why: {},
    "mounts": lambda why: [],
    "resource": lambda why: Resource(-1, -1, -1),
    "port_map": lambda why: {},
    "max_retries": lambda why: 0,
}
"""The values of fields of a role that were not kept."""

_UNKNOWN = ("args", "env", "mounts", "resource", "port_map")
"""Fields that count as changed if it is unknown which field a part of a request is made from."""


async def remember(info: AppDryRunInfo[Any], *, editable: bool) -> None:
    """Store with a dry-run what its request was made from; call it before the caller can change them.

    Args:
        info: The dry-run.
        editable: Whether the caller gets it before it is scheduled.
    """
    app = info.app
    if app is not None and (editable or any(map(_has_hook, app.roles))):
        info.made = Made(copied(app), await _copy(info.request))
    elif app is not None:
        info.made = Made(app, None)


async def told(info: AppDryRunInfo[Any], made_from: Mapping[str, Collection[str]]) -> ToldApp | None:
    """Return the app to store in notes: the one from which the request was made.

    If the request was edited, the roles are without the edited fields, and list the edited places.

    Args:
        info: The dry-run, whose request may have been edited.
        made_from: The fields of a role from which each part of a request is made.
    """
    made = info.made
    if made is None:
        why = f"the request was made by hand: {' and '.join(_UNKNOWN)} may differ from those of the role"
        if info.app is None:
            return None
        return _without(info.app, _UNKNOWN, why, await _keeper(info, info.app, await _copy(info.request)))
    if made.request is None or made.request == (now := await _copy(info.request)):
        return ToldApp(made.app, info.cfg, is_whole=True)
    edited = list(differences(made.request, now))
    names = {name for place in edited for name in place}
    fields = [field for name in names for field in made_from.get(name, ())] if made_from else _UNKNOWN
    lost = [field for field in _EMPTY if field in fields]
    left_out = f"; {' and '.join(lost)} of the role are left out" if lost else ""
    keeper = await _keeper(info, made.app, info.cfg, now)
    shown = (".".join(map(keeper.name, place)) for place in edited)
    why = f"the request was edited after its dry-run, in {listed(shown)}{left_out}"
    return _without(made.app, lost, why, keeper)


def differences(old: Plain, new: Plain, place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the places at which plain data differ; an item of a list is identified by its name, if it has one."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old | new:
            if key in old and key in new:
                yield from differences(old[key], new[key], (*place, key))
            else:
                yield (*place, key)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from differences(before, after, (*place, _called(before) or str(number)))
    elif old != new or type(old) is not type(new):
        yield place


def _called(item: Plain) -> str:
    name = item.get("name") if isinstance(item, dict) else None
    return name if isinstance(name, str) else ""


def listed(names: Iterator[str], most: int = _NAMED) -> str:
    """Return the first names, each cut, and the number of the others."""
    first = [name if len(name) <= _LONGEST else f"{name[:_LONGEST]}..." for name in islice(names, most)]
    more = sum(1 for _ in names)
    return ", ".join(first) + (f" and {more:,} more" if more else "")


def _without(app: AppDef, fields: Collection[str], why: str, keeper: Keeper) -> ToldApp:
    """Return an app without these fields of its roles; fill them in before submitting it again."""
    app = copy.copy(app)
    app.roles = [_role_without(role, fields, why) for role in app.roles]
    return ToldApp(app, keeper)


def _role_without(role: Role, fields: Collection[str], why: str) -> Role:
    role = copy.copy(role)  # it may be a subclass
    for name in fields:
        setattr(role, name, _EMPTY[name](why))
    role.env = {NOT_KEPT: NotKept(why), **role.env}
    return role


def _has_hook(role: Role) -> bool:
    return getattr(role.pre_proc, "__func__", None) is not Role.pre_proc


async def _copy(request: object) -> Plain:
    return to_plain(request) if _is_small(request) else await asyncio.to_thread(to_plain, request)


async def _keeper(info: AppDryRunInfo[Any], *values: object) -> Keeper:
    return Keeper(*values) if _is_small(info.request) else await asyncio.to_thread(Keeper, *values)


def _is_small(request: object) -> bool:
    """Return whether a request is small enough to copy on the loop."""
    room, rest = _SMALL, [request]
    while rest and room > 0:
        value = rest.pop()
        room -= 1
        if isinstance(value, Mapping):
            rest.extend(islice(cast("Mapping[object, object]", value).values(), room))
        elif isinstance(value, (list, tuple)):
            rest.extend(cast("Sequence[object]", value)[:room])
        elif dataclasses.is_dataclass(value):
            rest.extend(getattr(value, field.name) for field in dataclasses.fields(value))
    return not rest and room > 0
