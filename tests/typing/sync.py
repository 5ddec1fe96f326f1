"""Checked, never run: the blocking facade has the signatures of the coroutines, and refuses what they refuse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import assert_type

from asyncsched import AppDef, AppDryRunInfo, AppEvent, AppHandle, AppStatus, AppStatuses, LogLine, runopts
from asyncsched.errors import AsyncSchedError
from asyncsched.schedulers import DescribeAppResponse, ListAppResponse, StateEvent
from asyncsched.sync import BlockingIterator, BlockingWatch, SyncRunner, SyncScheduler, create_scheduler, get_runner


def runner(runner: SyncRunner, app: AppDef, handle: AppHandle) -> None:
    assert_type(runner.run(app, "local_cwd", {"log_dir": "/tmp"}, key="a"), AppHandle)
    assert_type(runner.run_component("utils.echo", ["--msg", "hi"], "local_cwd"), AppHandle)
    assert_type(runner.status(handle), AppStatus | None)
    assert_type(runner.describe(handle), AppDef | None)
    assert_type(runner.wait(handle, timeout=3), AppStatus | None)
    assert_type(runner.wait(handle, check=True), AppStatus | None)
    assert_type(runner.wait_all([handle]), AppStatuses)
    assert_type(runner.status_all([handle])[handle], AppStatus | None)
    assert_type(runner.cancel_all([handle]), dict[AppHandle, AsyncSchedError | None])
    assert_type(runner.events([handle], regex="loss"), BlockingIterator[AppEvent | LogLine])
    assert_type(runner.as_completed([handle]), BlockingIterator[tuple[AppHandle, AppStatus | None]])
    assert_type(runner.watch([handle], follow=True), BlockingWatch[AppEvent])
    assert_type(runner.log_lines(handle, should_tail=True), BlockingIterator[LogLine])
    assert_type(runner.cancel(handle), None)
    assert_type(runner.scheduler_run_opts("local_cwd"), runopts)
    assert_type(runner.scheduler_backends(), Sequence[str])
    assert_type(runner.scheduler("local_cwd"), SyncScheduler)
    failures: Mapping[str, Exception] = runner.list(limit=3).failures
    assert_type([row.app_id for row in runner.list()], list[str])
    assert_type(get_runner("me"), SyncRunner)
    print(failures)


def scheduler(scheduler: SyncScheduler, app: AppDef) -> None:
    assert_type(scheduler.submit(app, {"queue": "q"}), str)
    assert_type(scheduler.describe("x"), DescribeAppResponse | None)
    assert_type(scheduler.exists("x"), bool)
    assert_type(scheduler.list(), Sequence[ListAppResponse])
    assert_type(scheduler.watch(["x"]), BlockingWatch[StateEvent])
    strings: Iterable[str] = scheduler.log_iter("x", "main", 0, None, None, None, True)
    assert_type(create_scheduler("local_cwd", "me"), SyncScheduler)
    print(strings)


def wrongs(runner: SyncRunner, scheduler: SyncScheduler, app: AppDef, info: AppDryRunInfo[str]) -> None:
    runner.status(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    runner.status()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    runner.run()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    runner.wait("x", 3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    runner.run(app, "local_cwd", None, None, "key")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    runner.wait("x", timeout="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    runner.log_lines("x", should_tale=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    scheduler.cancel(info)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    scheduler.list(limit="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
