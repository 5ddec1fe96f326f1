"""The contract suite on processes of this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from asyncsched.schedulers.local import LocalScheduler
from asyncsched.specs import AppDef, Role
from asyncsched.testing.contract import ContractRig, SchedulerContract


class TestLocal(SchedulerContract):
    @pytest.fixture
    async def rig(self, home: Path) -> AsyncIterator[ContractRig]:
        async with LocalScheduler("mine") as scheduler:
            yield ContractRig(
                scheduler,
                another=lambda: LocalScheduler("other"),
                image="",
                restarts=False,
                unstartable=AppDef(
                    "half",
                    [
                        Role("good", "", entrypoint="sh", args=["-c", "echo has run"]),
                        Role("bad", "", entrypoint="/no/such/program"),
                    ],
                ),
            )
