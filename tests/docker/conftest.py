"""What the tests against a real daemon share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from asyncsched.schedulers.docker import DockerScheduler
from tests.docker._proxy import CuttingProxy
from tests.services import dockerd as docker_service
from tests.services import ports
from tests.services.dockerd import Dockerd


@pytest.fixture
async def scheduler(docker_host: str, dockerd: Dockerd) -> AsyncIterator[DockerScheduler]:
    """A scheduler on the tests' daemon, which has no containers before and after."""
    async with DockerScheduler("session") as scheduler:
        yield scheduler
    dockerd.clean()


@pytest.fixture
async def proxy(dockerd: Dockerd, docker_host: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[CuttingProxy]:
    """Stands in front of the tests' daemon, which has no containers afterwards."""
    directory = docker_service.new_directory()
    async with CuttingProxy(dockerd.socket, directory) as proxy:
        monkeypatch.setenv("DOCKER_HOST", proxy.host)
        yield proxy
    (directory / "proxy.sock").unlink(missing_ok=True)
    directory.rmdir()
    dockerd.clean()


@pytest.fixture
def refusing_port() -> Iterator[int]:
    """A port of the loopback at which nobody listens."""
    with ports.refusing_port() as number:
        yield number
