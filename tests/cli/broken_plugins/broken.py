"""Schedulers that do not work: `down`, `locked` (no credentials), `absent` (not installed), `unset`, `silent`, `mute`.

`mute` lists an app of which it tells nothing more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from asyncsched.errors import AuthError, MissingExtraError, SchedulerError, UnavailableError
from asyncsched.schedulers import ListAppResponse
from asyncsched.specs import AppState
from asyncsched.testing import FakeScheduler


class _Broken(FakeScheduler):
    def __init__(self, session_name: str, name: str, error: SchedulerError) -> None:
        super().__init__(session_name)
        self.backend = name
        for operation in ("describe", "list", "submit", "cancel", "connect", "delete"):
            self.service.fail(operation, *[error] * 50)

    async def _list(self) -> AsyncGenerator[ListAppResponse]:
        await self.service.call("list")
        async for row in super()._list():
            yield row


def create_down(session_name: str, **kwargs: object) -> FakeScheduler:
    error = UnavailableError(
        "cannot reach the cluster", why="nothing listens at 10.0.0.1", fix="start it", backend="down", retryable=False
    )
    return _Broken(session_name, "down", error)


def create_unset(session_name: str, **kwargs: object) -> FakeScheduler:
    error = UnavailableError("there is no unset here", why="nothing names it", backend="unset", retryable=False)
    error.is_set_up = False
    return _Broken(session_name, "unset", error)


def create_locked(session_name: str, **kwargs: object) -> FakeScheduler:
    error = AuthError("no credentials", why="CLUSTER_TOKEN is not set", fix="log in", backend="locked")
    return _Broken(session_name, "locked", error)


class _Silent(FakeScheduler):
    async def _list(self) -> AsyncGenerator[ListAppResponse]:
        await asyncio.sleep(3600)
        async for row in super()._list():
            yield row


def create_silent(session_name: str, **kwargs: object) -> FakeScheduler:
    return _Silent(session_name)


class _Mute(FakeScheduler):
    async def _list(self) -> AsyncGenerator[ListAppResponse]:
        yield ListAppResponse("job-1", AppState.RUNNING, "mute://me/job-1", name="job", session="me")


def create_mute(session_name: str, **kwargs: object) -> FakeScheduler:
    scheduler = _Mute(session_name)
    scheduler.service.fail("describe", *[UnavailableError("mute says nothing", backend="mute", retryable=False)] * 50)
    return scheduler


def create_absent(session_name: str, **kwargs: object) -> FakeScheduler:
    raise MissingExtraError("absent needs the package a", why="it is not installed", fix="pip install a")
