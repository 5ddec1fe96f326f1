"""What is told of an app whose request need not be what a dry-run has made of it."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

from asyncsched.schedulers.prepare import digest_of_request
from asyncsched.specs.app import AppDef, Role
from asyncsched.specs.copies import copied
from asyncsched.specs.dryrun import AppDryRunInfo, Made
from asyncsched.specs.not_kept import NOT_KEPT, NotKept

__all__ = ["BY_HAND", "EDITED", "marked", "remember", "told"]

EDITED = "the request was edited after its dry-run: its env and args are not those of the role"
BY_HAND = "the request was made by hand: its env and args need not be those of the role"

_MANY_REPLICAS = 20
"""Requests with more than these are compared in a thread."""


async def remember(info: AppDryRunInfo[Any], *, editable: bool) -> None:
    """Keep with a dry-run what its request was made from; call it before anybody can change them.

    Args:
        info: The dry-run.
        editable: Whether the caller gets it before it is scheduled.
    """
    app = info.app
    if app is not None and (editable or any(map(_has_hook, app.roles))):
        info.made = Made(copied(app), await _digest(info, app))
    elif app is not None:
        info.made = Made(app, None)


async def told(info: AppDryRunInfo[Any]) -> AppDef | None:
    """Return the app that is to be noted with what runs: what the request was made from.

    Where the request is another one, the roles say that their environment and arguments were not kept.
    """
    made = info.made
    if made is None:
        return None if info.app is None else marked(info.app, BY_HAND)
    if made.request is None or made.request == await _digest(info, made.app):
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


async def _digest(info: AppDryRunInfo[Any], app: AppDef) -> str:
    if sum(role.num_replicas for role in app.roles) > _MANY_REPLICAS:
        return await asyncio.to_thread(digest_of_request, info.request)
    return digest_of_request(info.request)
