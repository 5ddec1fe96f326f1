"""What the tests against a real daemon share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from asyncsched.schedulers.docker import DockerScheduler
from tests.services.dockerd import Dockerd


@pytest.fixture
async def scheduler(docker_host: str, dockerd: Dockerd) -> AsyncIterator[DockerScheduler]:
    """A scheduler on the tests' daemon, which has no containers before and after."""
    async with DockerScheduler("session") as scheduler:
        yield scheduler
    dockerd.clean()
