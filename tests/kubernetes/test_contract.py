"""The contract, on a fake cluster whose pods are processes: as Volcano jobs, and as Indexed Jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from asyncsched.specs.secret_ref import SecretRef
from asyncsched.testing.contract import ContractRig, SchedulerContract
from tests.kubernetes.conftest import OnFake
from tests.kubernetes_fake import FakeCluster

pytestmark = pytest.mark.service("kubernetes-fake")  # its pods are processes, in real time


class _OnFake(SchedulerContract):
    kind = ""
    more: dict[str, Any] = {}  # noqa: RUF012 - never changed

    @pytest.fixture
    async def rig(self, fake: FakeCluster, on_fake: OnFake) -> AsyncIterator[ContractRig]:
        fake.run(lambda: setattr(fake, "stream_gate", "on"))
        fake.create("secrets", "login", stringData={"password": "sesame-17"})
        scheduler = on_fake("contract")
        yield ContractRig(
            scheduler,
            another=lambda: on_fake("other"),
            cfg={"kind": self.kind, "queue": "default"} if self.kind == "volcano" else {"kind": self.kind},
            image="busybox",
            timeout=1,
            secret=(SecretRef("login", "password"), "sesame-17"),
            unknown_id="default:nosuchapp-x1",
            **self.more,
        )
        await scheduler.close()


@pytest.mark.slow
class TestVolcano(_OnFake):
    kind = "volcano"


@pytest.mark.slow
class TestJob(_OnFake):
    kind = "job"
