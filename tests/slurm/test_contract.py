"""The contract suite on a real Slurm cluster."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from asyncsched.schedulers.slurm import SlurmScheduler
from asyncsched.specs import AppDef, Resource, Role
from asyncsched.testing.contract import ContractRig, SchedulerContract
from tests.services.slurm import SlurmCluster
from tests.slurm._apps import PATIENCE

pytestmark = pytest.mark.service("slurm")


class TestSlurm(SchedulerContract):
    @pytest.fixture
    async def rig(self, slurm_conf: SlurmCluster) -> AsyncGenerator[ContractRig]:
        async with SlurmScheduler("mine") as scheduler:
            yield ContractRig(
                scheduler,
                another=lambda: SlurmScheduler("other"),
                cfg={"timestamps": True},
                patience=PATIENCE,
                image="",
                reads_results=True,
                # A shell whose child is ended before it is says so in its log.
                unstartable=AppDef("job", [Role("gpus", "", entrypoint="true", resource=Resource(1, 1, 1))]),
                long_sleep="exec sleep 3600",
            )
        slurm_conf.clean()
