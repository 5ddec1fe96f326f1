"""A durable group on a Slurm cluster outlives its script, wherever that is killed: every job runs once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runner.durable import Plan, is_gone_on_with, moments
from tests.services.slurm import SlurmCluster

pytestmark = pytest.mark.service("slurm")


@pytest.fixture
def plan(slurm_conf: SlurmCluster, tmp_path: Path) -> Iterator[Plan]:
    out = tmp_path / "out"
    out.mkdir()
    yield Plan(scheduler="slurm", out=str(out), inside=str(out), limit=25)
    slurm_conf.clean()


@pytest.mark.slow
@pytest.mark.one_loop
@pytest.mark.parametrize("kills", moments(5))
async def test_a_killed_script_is_gone_on_with(plan: Plan, kills: tuple[int, int], tmp_path: Path) -> None:
    await is_gone_on_with(plan, kills, tmp_path / "home")
