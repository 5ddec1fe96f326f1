"""A durable group on Kubernetes outlives its script, wherever that is killed: every job runs once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kubernetes_fake import FakeCluster
from tests.runner.durable import Plan, is_gone_on_with, moments

pytestmark = pytest.mark.service("kubernetes-fake")  # its pods are processes, in real time


@pytest.fixture
def plan(fake: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setenv("KUBECONFIG", str(fake.kubeconfig(tmp_path / "kubeconfig")))
    out = tmp_path / "out"
    out.mkdir()
    return Plan(scheduler="kubernetes", out=str(out), inside=str(out), image="busybox", cfg={"kind": "job"}, limit=25)


@pytest.mark.slow
@pytest.mark.one_loop
@pytest.mark.parametrize("kills", moments(5))
async def test_a_killed_script_is_gone_on_with(plan: Plan, kills: tuple[int, int], tmp_path: Path) -> None:
    await is_gone_on_with(plan, kills, tmp_path / "home")
