"""The contract suite on the fake scheduler, in its three modes, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from asyncsched.specs import AppDef, Role, SecretRef
from asyncsched.testing import FakeScheduler, FakeService, VirtualClock
from asyncsched.testing.contract import ContractRig, SchedulerContract
from asyncsched.testing.fake import MISSING_PROGRAM, NEVER_STARTS

SECRET = SecretRef("passwords", "database")


class FakeContract(SchedulerContract):
    mode = "push"

    @pytest.fixture
    async def rig(self) -> AsyncGenerator[ContractRig]:
        async with VirtualClock() as clock:
            service = FakeService(clock, start_delay=0.01)
            service.secrets[SECRET] = "the value of the secret"
            scheduler = FakeScheduler("mine", service, mode=self.mode)  # type: ignore[arg-type]  # set by subclasses
            yield ContractRig(
                scheduler,
                patience=60.0,
                another=lambda: FakeScheduler("other", service, mode=scheduler.mode),
                # Anything shorter is over at once for a clock that does not wait.
                long_sleep="sleep infinity",
                timeout=2.0,
                never_starts=AppDef("job", [Role("main", "i", entrypoint=NEVER_STARTS)]),
                reads_results=True,
                secret=(SECRET, "the value of the secret"),
                unstartable=AppDef(
                    "job",
                    [
                        Role("good", "i", entrypoint="sh", args=["-c", "sleep infinity"]),
                        Role("bad", "i", entrypoint=MISSING_PROGRAM),
                    ],
                ),
            )
            await scheduler.close()
            service.close()


class TestPush(FakeContract):
    pass


class TestPolled(FakeContract):
    mode = "polled"


class TestHub(FakeContract):
    mode = "hub"
