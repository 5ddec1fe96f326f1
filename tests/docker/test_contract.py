"""The contract suite on a real Docker daemon."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from asyncsched.schedulers.docker import DockerScheduler
from asyncsched.specs import Role
from asyncsched.testing.contract import ContractRig, SchedulerContract
from tests.docker._apps import OBEYS, app, shell
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd

pytestmark = pytest.mark.service("dockerd")


class TestDocker(SchedulerContract):
    @pytest.fixture
    async def rig(self, docker_host: str, dockerd: Dockerd) -> AsyncGenerator[ContractRig]:
        async with DockerScheduler("mine") as scheduler:
            yield ContractRig(
                scheduler,
                another=lambda: DockerScheduler("other"),
                # A shell that is process 1 ignores TERM.
                cfg={"grace_period": 1.0},
                image=BUSYBOX_IMAGE,
                misses_attempts=True,
                reads_results=True,
                timeout=1.0,
                unstartable=app(shell(OBEYS), Role("bad", BUSYBOX_IMAGE, entrypoint="/no/such/program")),
            )
        dockerd.clean()
