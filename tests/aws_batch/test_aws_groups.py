"""A durable group on AWS Batch outlives its script, wherever that is killed: every job runs once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.aws_batch.conftest import QUEUE
from tests.aws_emulator.server import Server
from tests.runner.durable import Plan, is_gone_on_with, moments

pytestmark = pytest.mark.service("aws")  # its nodes are processes, in real time


@pytest.fixture
def plan(server: Server, tmp_path: Path) -> Plan:
    out = tmp_path / "out"
    out.mkdir()
    return Plan(scheduler="aws_batch", out=str(out), inside=str(out), image="busybox", cfg={"queue": QUEUE}, limit=25)


@pytest.mark.slow
@pytest.mark.one_loop
@pytest.mark.parametrize("kills", moments(5))
async def test_a_killed_script_is_gone_on_with(plan: Plan, kills: tuple[int, int], tmp_path: Path) -> None:
    await is_gone_on_with(plan, kills, tmp_path / "home")
