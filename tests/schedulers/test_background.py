"""Work that goes on behind its callers ends with its owner, and what goes wrong in it is told."""

from __future__ import annotations

import asyncio
import contextvars
import logging

import pytest

from asyncsched._tasks import BackgroundTasks

WHO = contextvars.ContextVar("WHO", default="nobody")
_log = logging.getLogger("asyncsched.test")


async def test_it_goes_on_until_it_ends_and_has_the_context_of_no_caller() -> None:
    tasks = BackgroundTasks(_log)
    seen: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0)
        seen.append(WHO.get())

    WHO.set("the caller")
    await tasks.start(work(), name="work")

    assert ["nobody"] == seen
    await tasks.close(1.0)


async def test_closing_ends_what_goes_on_and_waits_for_it() -> None:
    tasks = BackgroundTasks(_log)
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.set()

    task = tasks.start(work())
    await asyncio.sleep(0)
    await tasks.close(10.0)

    assert ended.is_set()
    assert task.cancelled()
    await tasks.close(10.0)


async def test_what_ends_by_itself_is_given_time_where_that_is_asked_for() -> None:
    tasks = BackgroundTasks(_log)
    goes_on, done = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await goes_on.wait()
        done.set()

    tasks.start(work())
    await asyncio.sleep(0)
    closing = asyncio.create_task(tasks.close(10.0, patience=60.0))
    await asyncio.sleep(0)
    goes_on.set()
    await closing

    assert done.is_set()


async def test_a_failure_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    tasks = BackgroundTasks(_log)

    async def work() -> None:
        raise ValueError("no such thing")

    with caplog.at_level(logging.WARNING, "asyncsched"):
        await asyncio.wait([tasks.start(work())])
        await tasks.close(1.0)

    assert ["no such thing"] == [record.getMessage() for record in caplog.records]
