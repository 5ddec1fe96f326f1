"""A durable group outlives its script, wherever that is killed: every job runs to one success, none twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from asyncsched import AppDef, AppState, Role, Runner
from tests.runner.durable import Plan, is_gone_on_with, moments, second_is_told


@pytest.fixture
def plan(home: Path) -> Plan:
    out = str(home.parent)
    return Plan(scheduler="local_cwd", out=out, inside=out, cfg={"detach": True}, limit=6)


@pytest.mark.slow
@pytest.mark.parametrize("kills", moments(20))
async def test_a_killed_script_is_gone_on_with(plan: Plan, home: Path, kills: tuple[int, int]) -> None:
    await is_gone_on_with(plan, kills, home)


@pytest.mark.slow
async def test_the_second_of_two_scripts_is_told(plan: Plan, home: Path) -> None:
    await second_is_told(plan, home)


async def test_jobs_of_this_machine(home: Path) -> None:
    role = Role("main", "", entrypoint="sh", args=["-c", "echo $ASYNCSCHED_GROUP_INDEX"])
    async with Runner("me") as runner:
        async with runner.group(limit=2) as group:
            for _ in range(3):
                group.start(AppDef("job", [role]))
        lines = [line.text async for line in group.log_lines()]
    assert {AppState.SUCCEEDED} == {job.state for job in group.jobs}
    assert ["0", "1", "2"] == sorted(lines)
