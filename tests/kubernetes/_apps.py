"""Small apps for the fake cluster, the run options of each kind, and a wait for a state."""

from __future__ import annotations

from typing import Any

import pytest

from asyncsched.schedulers.kubernetes import KubernetesScheduler
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.specs import AppDef, AppState, Role
from tests._support import eventually

VOLCANO = {"kind": "volcano", "queue": "default"}
JOB = {"kind": "job"}
BOTH = pytest.mark.parametrize("cfg", [VOLCANO, JOB], ids=["volcano", "job"])


def options(kind: str, **more: str) -> dict[str, str]:
    """Return the run options of a kind."""
    return {**(VOLCANO if kind == "volcano" else JOB), **more}


def app(script: str = "sleep 1000", *, replicas: int = 1, roles: int = 1, **more: Any) -> AppDef:
    """Return an app whose roles, ``role0`` and so on, each run a shell script."""
    role = {"image": "busybox", "entrypoint": "sh", "args": ["-c", script], "num_replicas": replicas, **more}
    return AppDef("app", [Role(f"role{number}", **role) for number in range(roles)])


async def until(scheduler: KubernetesScheduler, app_id: str, *states: AppState) -> DescribeAppResponse:
    """Wait until `describe` tells one of these states."""

    async def reached() -> DescribeAppResponse | None:
        found = await scheduler.describe(app_id)
        return found if found is not None and found.state in states else None

    found = await eventually(reached)
    assert found is not None
    return found
