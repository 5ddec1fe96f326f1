"""The rows of a group's monitor."""

from __future__ import annotations

import asyncio

from asyncsched.runner.convert import AppEvent
from asyncsched.runner.groups.monitored import GroupApps
from asyncsched.specs import AppState, AppStatus
from asyncsched.views.live_table import LiveTable
from tests._support import eventually
from tests.runner.groups_rig import GroupRig, work


async def test_a_job_is_one_row_also_where_an_attempts_end_is_told_after_the_next_began() -> None:
    async with GroupRig() as rig, rig.clock, rig.runner.group("fake", retries=1, on_failure="continue") as group:
        job = group.start(work("sleep 1; exit 1"))
        status = await job
        first, last = (AppEvent(handle, current=status) for handle in job.attempts)
        table = LiveTable()
        apps = GroupApps(group._engine, lambda: "title")
        for event in (first, last, first):
            apps._show(table, event)

        assert [last.handle] == table.visible(10)


async def test_the_heading_is_the_groups_also_where_rows_know_more_than_the_group() -> None:
    async with GroupRig() as rig, rig.clock, rig.runner.group("fake", on_failure="continue", limit=1) as group:
        rig.hold()
        job = group.start(work("exit 1"))
        await rig.held()
        table, painted = LiveTable(), list[str]()
        apps = GroupApps(group._engine, lambda: str(group.counts))
        following = asyncio.create_task(apps.follow(table, lambda: painted.append(table.summary()), lambda text: None))
        await eventually(lambda: len(table) == 1)
        rows_are_told = len(painted)
        # The group has not heard of it.
        apps._show(table, AppEvent(job.attempts[0], current=AppStatus(AppState.FAILED)))
        assert "0/1 done, 0 failed, 1 running, 0 waiting" == table.summary()
        group._engine.ledger.wake()  # as at any change of the group, also where no row changes
        assert rows_are_told < len(painted)
        rig.let_go()
        await job
        assert "0/1 done, 1 failed, 0 running, 0 waiting" == table.summary()
        await following
