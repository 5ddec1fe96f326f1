"""What is told of an app whose request need not be what a dry-run has made of it."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, cast

from asyncsched.schedulers.prepare import digest_of_request
from asyncsched.specs.app import AppDef, Role
from asyncsched.specs.copies import copied
from asyncsched.specs.dryrun import AppDryRunInfo, Made
from asyncsched.specs.not_kept import NOT_KEPT, NotKept

__all__ = ["BY_HAND", "EDITED", "marked", "remember", "told"]

EDITED = "the request was edited after its dry-run: its env and args are not those of the role"
BY_HAND = "the request was made by hand: its env and args need not be those of the role"

_SMALL = 2000
"""Requests with more values than these are hashed in a thread."""


async def remember(info: AppDryRunInfo[Any], *, editable: bool) -> None:
    """Keep with a dry-run what its request was made from; call it before anybody can change them.

    Args:
        info: The dry-run.
        editable: Whether the caller gets it before it is scheduled.
    """
    app = info.app
    if app is not None and (editable or any(map(_has_hook, app.roles))):
        info.made = Made(copied(app), await _digest(info.request))
    elif app is not None:
        info.made = Made(app, None)


async def told(info: AppDryRunInfo[Any]) -> AppDef | None:
    """Return the app that is to be noted with what runs: what the request was made from.

    Where the request is another one, the roles say that their environment and arguments were not kept.
    """
    made = info.made
    if made is None:
        return None if info.app is None else marked(info.app, BY_HAND)
    if made.request is None or made.request == await _digest(info.request):
        return made.app
    return marked(made.app, EDITED)


def marked(app: AppDef, why: str) -> AppDef:
    """Return an app that cannot be submitted again before the environment and the arguments are filled in."""
    app = copy.copy(app)
    app.roles = [_marked(role, why) for role in app.roles]
    return app


def _marked(role: Role, why: str) -> Role:
    role = copy.copy(role)  # of whatever class
    role.args, role.env = [], {NOT_KEPT: NotKept(why)}
    return role


def _has_hook(role: Role) -> bool:
    return getattr(role.pre_proc, "__func__", None) is not Role.pre_proc


async def _digest(request: object) -> str:
    return digest_of_request(request) if _is_small(request) else await asyncio.to_thread(digest_of_request, request)


def _is_small(request: object) -> bool:
    """Tell whether a hash of a request is made in a moment, having looked at no more than that of it."""
    room, rest = _SMALL, [request]
    while rest and room > 0:
        value = rest.pop()
        room -= 1
        if isinstance(value, str):
            room -= len(value) // 100
        elif isinstance(value, Mapping):
            rest.extend(islice(cast("Mapping[object, object]", value).values(), room))
        elif isinstance(value, (list, tuple)):
            rest.extend(cast("Sequence[object]", value)[:room])
        elif dataclasses.is_dataclass(value):
            rest.extend(getattr(value, field.name) for field in dataclasses.fields(value))
    return not rest and room > 0
