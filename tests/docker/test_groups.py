"""A durable group on a Docker daemon outlives its script, wherever that is killed: every job runs once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runner.durable import Plan, is_gone_on_with, moments
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd

pytestmark = pytest.mark.service("dockerd")


@pytest.fixture
def plan(docker_host: str, dockerd: Dockerd, tmp_path: Path) -> Iterator[Plan]:
    out = tmp_path / "out"
    out.mkdir()
    yield Plan(scheduler="local_docker", out=str(out), inside="/out", image=BUSYBOX_IMAGE)
    dockerd.clean()


@pytest.mark.slow
@pytest.mark.one_loop
@pytest.mark.parametrize("kills", moments(5))
async def test_a_killed_script_is_gone_on_with(plan: Plan, kills: tuple[int, int], tmp_path: Path) -> None:
    await is_gone_on_with(plan, kills, tmp_path / "home")
