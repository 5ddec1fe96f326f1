"""The streams of a group: states and lines together, and the table in a notebook."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from asyncsched.errors import MissingExtraError
from asyncsched.logs.line import LogLine
from asyncsched.runner import AppEvent
from asyncsched.runner import notebook as notebook_module
from asyncsched.specs import AppState
from tests._support import eventually
from tests.runner.groups_rig import GroupRig, work


@pytest.fixture
async def rig() -> AsyncGenerator[GroupRig]:
    async with GroupRig() as rig, rig.clock:
        yield rig


async def test_events_tell_of_jobs_that_start_later_too(rig: GroupRig) -> None:
    rig.hold()
    async with rig.runner.group(limit=1) as group:
        group.start(work("echo first; exit 0"))
        lines, ends = [], []
        async for event in group.events():
            if isinstance(event, LogLine):
                lines.append(event.text)
            elif event.is_terminal():
                ends.append(event.handle)
            elif event.state is AppState.PENDING and len(group.jobs) == 1:
                group.start(work("echo second; exit 0"))
                rig.let_go()
    assert ["first", "second"] == lines
    assert [job.handle for job in group.jobs] == ends


async def test_events_tell_each_attempt(rig: GroupRig) -> None:
    async with rig.runner.group(retries=1, on_failure="continue") as group:
        job = group.start(work("echo again; exit 1"))
        told = [event async for event in group.events()]
    assert 2 == sum(isinstance(each, LogLine) for each in told)
    assert [*job.attempts] == [each.handle for each in told if isinstance(each, AppEvent) and each.is_terminal()]


async def test_events_of_many_jobs(rig: GroupRig) -> None:
    rig.service.watchers.clear()  # to count what runs at each change takes longer than the rest
    async with rig.runner.group(limit=50) as group:
        for number in range(200):
            group.start(work(f"echo {number}; exit 0"))
            await asyncio.sleep(0)
        lines, ends = set(), set()
        async for event in group.events():
            if isinstance(event, LogLine):
                lines.add(event.text)
            elif event.is_terminal():
                ends.add(event.handle)
    assert {str(number) for number in range(200)} == lines
    assert {job.handle for job in group.jobs} == ends


async def test_events_that_are_dropped_or_cancelled_leave_nothing_with_the_group(rig: GroupRig) -> None:
    rig.hold()
    async with rig.runner.group() as group:
        job = group.start(work())
        await rig.held()
        before = {*group._engine.ledger.waiters}
        for how in ("closed", "dropped"):
            events = group.events()
            first = await anext(events)
            assert isinstance(first, AppEvent)
            assert AppState.PENDING is first.state
            step = asyncio.create_task(anext(events))
            await asyncio.sleep(0)
            step.cancel()
            await asyncio.wait([step])
            if how == "closed":
                await events.aclose()
            del step, events
            gc.collect()
            await eventually(lambda: _let_go(group, before))
        assert not job.is_terminal()
        rig.let_go()


def _let_go(group: Any, before: set[Any]) -> bool:
    gc.collect()
    group._engine.ledger.wake()
    return before == {*group._engine.ledger.waiters}


async def test_events_of_a_group_without_jobs_end(rig: GroupRig) -> None:
    async with rig.runner.group() as group:
        assert [] == [event async for event in group.events()]


class _Output:
    def __init__(self) -> None:
        self.shown: list[str] = []

    def update(self, content: object) -> None:
        self.shown.append(repr(content))


async def test_a_table_shows_the_last_attempt_of_each_job_and_how_many_are_where(
    rig: GroupRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = _Output()
    monkeypatch.setattr(notebook_module, "_display", lambda content: output)
    async with rig.runner.group(limit=1, retries=1, on_failure="continue") as group:
        bad = group.start(work("sleep 1; exit 1"))
        good = group.start(work("sleep 1; exit 0"))
        await group.monitor()
    assert [str(group), f"{bad.handle}  FAILED", f"{good.handle}  SUCCEEDED"] == output.shown[-1].splitlines()
    assert any("1 running, 1 waiting" in shown for shown in output.shown)


async def test_a_table_outside_of_a_notebook_is_refused(rig: GroupRig) -> None:
    async with rig.runner.group() as group:
        with pytest.raises(MissingExtraError, match="notebook"):
            await group.monitor()
