"""An app with more replicas than a backend takes is refused before anything is made of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from asyncsched.errors import ConfigError
from asyncsched.schedulers import get_scheduler
from asyncsched.specs import AppDef, Role

BOUNDS = [("local_cwd", 10_000), ("local_docker", 10_000), ("slurm", 100_000)]


def role(replicas: int, name: str = "main") -> Role:
    return Role(name, "busybox", entrypoint="true", num_replicas=replicas)


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASYNCSCHED_HOME", str(tmp_path / "local"))
    monkeypatch.setenv("ASYNCSCHED_SLURM_HOME", str(tmp_path / "slurm"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")


@pytest.mark.parametrize(("backend", "most"), BOUNDS)
async def test_more_than_a_backend_takes(backend: str, most: int) -> None:
    told = f"num_replicas of role 'main' must be at most {most} on {backend}, got {most + 1}"
    async with get_scheduler(backend, "me") as scheduler:
        for call in (scheduler.submit_dryrun, scheduler.submit):
            with pytest.raises(ConfigError, match=re.escape(told)):
                await call(AppDef("app", [role(most + 1)]))


@pytest.mark.parametrize(("backend", "most"), BOUNDS)
async def test_the_roles_of_an_app_count_together(backend: str, most: int) -> None:
    told = f"app 'app' must have at most {most} replicas on {backend}, got {most + 1}"
    async with get_scheduler(backend, "me") as scheduler:
        with pytest.raises(ConfigError, match=told):
            await scheduler.submit_dryrun(AppDef("app", [role(most), role(1, "other")]))


@pytest.mark.parametrize("backend", [backend for backend, _ in BOUNDS])
@pytest.mark.parametrize(
    ("replicas", "shown"),
    [(10**7, "got 10000000"), (10**30, f"got {10**30}"), (10**5000, "got a number of 16610 bits")],
    ids=["7 digits", "30 digits", "5000 digits"],
)
async def test_numbers_that_nobody_means(backend: str, replicas: int, shown: str) -> None:
    async with get_scheduler(backend, "me") as scheduler:
        with pytest.raises(ConfigError, match=shown):
            await scheduler.submit_dryrun(AppDef("app", [role(replicas)]))
