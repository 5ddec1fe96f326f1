"""The demo scheduler under the public contract suite: ``pytest contract.py``."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from asyncsched_demo.cluster import Cluster
from asyncsched_demo.scheduler import DemoScheduler

from asyncsched import AppDef, Role
from asyncsched.testing.contract import ContractRig, SchedulerContract


class TestDemo(SchedulerContract):
    @pytest.fixture
    async def rig(self) -> AsyncGenerator[ContractRig]:
        cluster = Cluster()
        scheduler = DemoScheduler("mine", cluster)
        unstartable = [
            Role("good", "", entrypoint="sleep", args=["3600"]),
            Role("bad", "", entrypoint="no-such-program"),
        ]
        yield ContractRig(
            scheduler,
            another=lambda: DemoScheduler("other", cluster),
            restarts=False,
            tells_attempts=False,
            unstartable=AppDef("job", unstartable),
            long_sleep="exec sleep 3600",
        )
        await scheduler.close()
