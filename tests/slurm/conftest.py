"""What the tests against a real cluster share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from asyncsched.schedulers.slurm import SlurmScheduler
from tests.services.slurm import SlurmCluster


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The place in which apps are found."""
    monkeypatch.setenv("ASYNCSCHED_SLURM_HOME", str(tmp_path / "slurm"))
    return tmp_path / "slurm"


@pytest.fixture
def slurm_conf(slurm: SlurmCluster, home: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    """The tests' cluster, and an environment in which nothing else is found."""
    for name, value in slurm.environ.items():
        monkeypatch.setenv(name, value)
    return slurm


@pytest.fixture
async def scheduler(slurm_conf: SlurmCluster) -> AsyncIterator[SlurmScheduler]:
    """A scheduler on the tests' cluster."""
    async with SlurmScheduler("session") as scheduler:
        yield scheduler
    slurm_conf.clean()
