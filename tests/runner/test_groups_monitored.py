"""The rows of a group's monitor."""

from __future__ import annotations

from asyncsched.runner.convert import AppEvent
from asyncsched.runner.groups.monitored import GroupApps
from asyncsched.views.live_table import LiveTable
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
