"""What tests of Google Cloud Batch have: a double on a port, and schedulers on it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncsched.schedulers._common.rate_limit import RateLimits
from asyncsched.schedulers.gcp_batch import GCPBatchScheduler, create_scheduler
from asyncsched.specs import Role
from tests.gcp_double.server import PROJECT, Double


@pytest.fixture
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment in which no credentials are found but those of the test."""
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GCLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT", "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    return tmp_path


@pytest.fixture
def double(surroundings: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    """A double of its own for each test, whose tasks are played, and an environment that leads there."""
    with Double() as made:
        lead_to(made, surroundings, monkeypatch)
        yield made
    assert [] == made.problems


def lead_to(made: Double, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have schedulers find a double, with the key of a service account."""
    key = folder / "key.json"
    key.write_text(json.dumps(made.tokens.key_file(made.url)))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", PROJECT)
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_BATCH", made.url)
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING", made.url)


@pytest.fixture
async def scheduler(double: Double) -> AsyncIterator[GCPBatchScheduler]:
    """A scheduler that talks to the double."""
    async with quick("session") as made:
        yield made


def quick(session: str, **more: Any) -> GCPBatchScheduler:
    """Make a scheduler with times that fit a double, where entries can be read within a tenth of a second."""
    times = {
        "log_interval": 0.05,
        "log_idle": 0.2,
        "log_hold": 0.15,
        "log_overlap": 0.4,
        "log_settle": 0.4,
        "log_sweep": 30.0,
        "reads_per_minute": 100_000,
        "limits": RateLimits(scale=100.0),
    }
    made = create_scheduler(session, **{**times, **more})
    made.poll_interval = 0.05
    return made


def played(*steps: list[Any], name: str = "main", **more: Any) -> Role:
    """Return a role whose replicas play these steps (see `tests.gcp_double.runs.Played`)."""
    return Role(name, "image", entrypoint="play", args=[json.dumps(steps)], **more)
