"""Checked, never run: how a backend declares itself, and what a caller may not do with it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, assert_type

from typing_extensions import Doc

from asyncsched import (
    AppDef,
    AppDryRunInfo,
    AppState,
    DescribeAppResponse,
    ListAppResponse,
    LogLine,
    LogStream,
    Role,
    Scheduler,
    Stream,
    get_scheduler,
)
from asyncsched.logs import LogQuery, LogSource
from asyncsched.specs import ReplicaStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    queue: Annotated[str, Doc("where to wait")]
    priority: Annotated[int, Doc("larger is sooner")] = 0


@dataclass(kw_only=True)
class Request:
    app_id: str


class Typed(Scheduler[Options, Request]):
    options = Options

    async def _request(self, app: AppDef, options: Options, app_id: str) -> Request:
        return Request(app_id=app_id)

    async def _schedule(self, info: AppDryRunInfo[Request]) -> None: ...
    async def _describe(self, app_id: str) -> DescribeAppResponse | None: ...
    async def _cancel(self, app_id: str) -> None: ...
    async def _delete(self, app_id: str) -> None: ...

    def _list(self) -> AsyncGenerator[ListAppResponse]:
        raise NotImplementedError

    async def _log_sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[LogSource]:
        raise NotImplementedError


def one_argument(scheduler: Scheduler[Options], plain: Scheduler) -> Scheduler[Any, Any]:
    assert_type(plain, Scheduler[Any, Any])
    return scheduler


async def rights(scheduler: Typed, app: AppDef) -> None:
    info = await scheduler.submit_dryrun(app, Options(queue="gpu"))
    assert_type(info, AppDryRunInfo[Request])
    assert_type(info.request.app_id, str)
    app_id = await scheduler.schedule(info)
    assert_type(await scheduler.describe(app_id), DescribeAppResponse | None)
    await scheduler.submit(app, {"queue": "gpu", "priority": 1})
    lines = scheduler.log_iter(app_id, ["trainer", "reader"], range(3), streams=Stream.STDERR)
    assert_type(lines, LogStream)
    async for line in lines:
        assert_type(line, LogLine)
    async with get_scheduler("local_cwd", "session") as other:
        assert_type(other, Scheduler[Any, Any])


async def wrongs(scheduler: Typed, other: AppDryRunInfo[str], app: AppDef) -> None:
    Scheduler("backend", "session")  # type: ignore[abstract]  # pyright: ignore[reportAbstractUsage]
    Options("gpu")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await scheduler.submit(app, Request(app_id=""))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await scheduler.submit(app, None, None, "key")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await scheduler.schedule(other)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await scheduler.submit("echo hi")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    scheduler.submit(app)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    assert (await scheduler.describe("x")).state  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
    await scheduler.log_iter("x")  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]
    list(scheduler.log_iter("x"))  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    scheduler.log_iter("x", streams="stderr")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await scheduler.list(states=AppState.FAILED)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Role(image="image")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    AppDef("app", roles=Role("worker", "image"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
