"""The contract suite on processes of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from asyncsched.logs import inotify
from asyncsched.schedulers.local import LocalScheduler
from asyncsched.specs import AppDef, Role
from asyncsched.testing.contract import ContractRig, SchedulerContract
from asyncsched.testing.contract.logs import LogContract
from tests.logs._inotify import NoInstances


class TestLocal(SchedulerContract):
    @pytest.fixture
    async def rig(self, home: Path) -> AsyncIterator[ContractRig]:
        async with LocalScheduler("mine") as scheduler:
            yield ContractRig(
                scheduler,
                another=lambda: LocalScheduler("other"),
                image="",
                patience=60.0,
                restarts=False,
                timeout=1.0,
                reads_results=True,
                unstartable=AppDef(
                    "half",
                    [
                        Role("good", "", entrypoint="sh", args=["-c", "echo has run"]),
                        Role("bad", "", entrypoint="/no/such/program"),
                    ],
                ),
            )


@pytest.mark.slow
class TestLocalWithoutInotify(LogContract):
    """Where other programs of the user have taken all instances: logs are the only ones to need one."""

    @pytest.fixture
    async def rig(self, home: Path) -> AsyncIterator[ContractRig]:
        # The loop's own, as it would be: taking the instances in earnest would disturb whatever else runs.
        inotify._followers[asyncio.get_running_loop()] = inotify.Follower(inotify=NoInstances)
        async with LocalScheduler("mine") as scheduler:
            yield ContractRig(
                scheduler, another=lambda: LocalScheduler("other"), image="", patience=60.0, restarts=False
            )
