"""A log that is read again at its end is asked from where it was, and not from its beginning."""

from __future__ import annotations

from typing import Any

import pytest

from asyncsched.schedulers.kubernetes import KubernetesScheduler
from asyncsched.specs import AppDef, Role
from tests.kubernetes._apps import JOB, VOLCANO
from tests.kubernetes_fake import FakeCluster

pytestmark = pytest.mark.service("kubernetes-fake")  # its pods are processes, in real time


@pytest.mark.slow
@pytest.mark.parametrize("cfg", [VOLCANO, JOB], ids=["volcano", "job"])
async def test_lines_that_lie_seconds_apart_come_once(
    fake: FakeCluster, scheduler: KubernetesScheduler, cfg: dict[str, Any]
) -> None:
    script = "echo one; sleep 2.5; echo two; sleep 2.5; echo three"
    role = Role("role", "busybox", entrypoint="sh", args=["-c", script])
    app_id = await scheduler.submit(AppDef("app", [role]), cfg)

    lines = [line async for line in scheduler.log_iter(app_id, should_tail=True)]

    assert [("one\n", None), ("two\n", None), ("three\n", None)] == [(str(line), line.gap) for line in lines]
    again = [path for _, path in fake.traffic.requests if "/log?" in path][-1]
    assert "sinceTime=" in again
