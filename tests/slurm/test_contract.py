"""The contract suite on a real Slurm cluster."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from asyncsched.schedulers.slurm import SlurmScheduler
from asyncsched.specs import AppDef, Resource, Role
from asyncsched.testing.contract import ContractRig, SchedulerContract
from tests.services.slurm import CPUS, SlurmCluster
from tests.slurm._apps import PATIENCE

WIDE = Resource(CPUS - 1, 0, 1)

pytestmark = pytest.mark.service("slurm")


def rig_on(scheduler: SlurmScheduler, **more: Any) -> ContractRig:
    """What the suite is told of a scheduler on any of our clusters."""
    return ContractRig(
        scheduler,
        another=lambda: SlurmScheduler("other"),
        cfg={"timestamps": True},
        patience=PATIENCE,
        image="",
        reads_results=True,
        unstartable=AppDef("job", [Role("gpus", "", entrypoint="true", resource=Resource(1, 100, 1))]),
        # Each needs most of a node, and there are four.
        never_starts=AppDef("job", [Role("wide", "", entrypoint="true", num_replicas=5, resource=WIDE)]),
        # A shell whose child is ended before it is says so in its log.
        long_sleep="exec sleep 3600",
        **more,
    )


class TestSlurm(SchedulerContract):
    @pytest.fixture
    async def rig(self, slurm_conf: SlurmCluster) -> AsyncGenerator[ContractRig]:
        async with SlurmScheduler("mine") as scheduler:
            yield rig_on(scheduler)
        slurm_conf.clean()
