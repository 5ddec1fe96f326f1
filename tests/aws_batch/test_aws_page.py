"""The page of this backend: every option stands there, and its calls are those that are made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from asyncsched.schedulers.aws_batch import AWSBatchOpts
from asyncsched.specs import AppDef, runopts
from tests._pages import HEADINGS, headings, rows
from tests.aws_batch.conftest import QUEUE, Virtual, script
from tests.aws_emulator import shapes

PAGE = (Path(__file__).parents[2] / "docs/backends/aws_batch.md").read_text()
CFG = {"queue": QUEUE}


def test_the_headings_are_those_of_every_backend() -> None:
    *others, limits = HEADINGS

    assert [*others, "IAM actions and costs", limits] == headings(PAGE)


def test_every_option_is_explained_in_its_own_words() -> None:
    told = {row[0].strip("`"): row[-1] for row in rows(PAGE, "Run options")[1:]}

    assert {name: option.help for name, option in runopts.of(AWSBatchOpts)} == told


async def test_actions_and_calls_are_those_that_are_made(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    app = AppDef("app", [script(["line", "x"], ["sleep", 5])])
    service = {name: key for key in ("logs", "batch") for name in shapes.operations(key)}
    made: dict[str, tuple[str, str]] = {}

    async def count(operation: str, work: Callable[[], Awaitable[object]]) -> None:
        virtual.cloud.traffic.calls.clear()
        await work()
        calls = virtual.cloud.traffic.calls
        actions = ", ".join(sorted(f"{service[name.lower()]}:{name}" for name in calls))
        made[operation] = actions, str(calls.total())

    async def end(app_id: str) -> None:
        async for event in scheduler.watch([app_id]):
            if event.is_terminal():
                return

    await count("submit (first of its kind)", lambda: scheduler.submit(app, CFG))
    await count("submit (again)", lambda: scheduler.submit(app, CFG))
    await count("submit with a key", lambda: scheduler.submit(app, CFG, key="k"))
    app_id = await scheduler.submit(app, CFG)
    await count("describe", lambda: scheduler.describe(app_id))
    await count("cancel", lambda: scheduler.cancel(app_id))
    await count("list", scheduler.list)
    virtual.cloud.life.stuck[QUEUE] = None
    await scheduler.submit(app, {**CFG, "pending_timeout": 10})
    await count("end by `pending_timeout`", lambda: virtual.clock.sleep(20))
    virtual.cloud.life.unstick(QUEUE, [])
    app_id = await scheduler.submit(app, CFG)
    await end(app_id)

    async def read() -> None:
        assert ["x\n"] == [line async for line in scheduler.log_iter(app_id)]

    async def read_the_last() -> None:
        assert ["x\n"] == [line async for line in scheduler.log_iter(app_id, tail_lines=1)]

    await virtual.clock.sleep(120)
    await count("logs", read)
    await count("logs, the last lines", read_the_last)
    await count("delete", lambda: scheduler.delete(app_id))

    assert made == {row[0]: (row[1], row[2]) for row in rows(PAGE, "IAM actions and costs")[1:] if row[0] in made}


@pytest.mark.parametrize("error", ["AWS_REGION", "one FilterLogEvents", "never been run against a real AWS account"])
def test_the_page_says_what_matters(error: str) -> None:
    assert error.lower() in PAGE.lower()
