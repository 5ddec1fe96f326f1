"""The contract, on a fake cluster whose pods are processes: as Volcano jobs, and as Indexed Jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from typing_extensions import override

from asyncsched.specs.app import AppDef, Role
from asyncsched.specs.secret_ref import SecretRef
from asyncsched.testing.contract import ContractRig, SchedulerContract
from tests.kubernetes.conftest import OnFake
from tests.kubernetes_fake import FakeCluster, StatusError

pytestmark = pytest.mark.service("kubernetes-fake")  # its pods are processes, in real time

REFUSED = "refused"
"""A role whose job the cluster refuses."""


class _OnFake(SchedulerContract):
    kind = ""

    @pytest.fixture
    async def rig(self, fake: FakeCluster, on_fake: OnFake) -> AsyncIterator[ContractRig]:
        fake.run(lambda: setattr(fake, "stream_gate", "on"))
        fake.create("secrets", "login", stringData={"password": "sesame-17"})
        fake.refusals = dict.fromkeys(("jobs", "vcjobs"), _refuse)
        scheduler = on_fake("contract")
        yield ContractRig(
            scheduler,
            runs_workspaces=False,
            another=lambda: on_fake("other"),
            cfg={"kind": self.kind, **({"queue": "default"} if self.kind == "volcano" else {})},
            image="busybox",
            patience=60.0,
            timeout=1,
            secret=(SecretRef("login", "password"), "sesame-17"),
            unknown_id="default:nosuchapp-x1",
            reads_results=True,
            keeps_cancelled_logs=False,
            keeps_attempts=self.kind == "job",
            never_starts=AppDef("job", [Role("main", "missing", entrypoint="sh")]),
            unstartable=AppDef("job", [Role(name, "busybox", entrypoint="sh") for name in ("main", REFUSED)]),
        )
        await scheduler.close()

    @override
    async def test_over_its_time_an_app_is_failed_and_not_retried(self, rig: ContractRig) -> None:
        """A pod that is over its time has failed like any other, and is retried: `info.ignored` says so."""
        rig.restarts = False
        await super().test_over_its_time_an_app_is_failed_and_not_retried(rig)

    @pytest.fixture(autouse=True)
    def pace(self, fake: FakeCluster, request: pytest.FixtureRequest) -> None:
        if "newest_first" in request.node.name:  # the server's times are whole seconds, and a kubelet takes one
            fake.pace.status = 1.1


def _refuse(job: dict[str, Any]) -> StatusError | None:
    if REFUSED not in str(job["metadata"].get("labels")) + job["metadata"]["name"] + str(job["spec"]):
        return None
    return StatusError(403, "Forbidden", f'jobs "{job["metadata"]["name"]}" is forbidden: exceeded quota: jobs')


@pytest.mark.slow
class TestVolcano(_OnFake):
    kind = "volcano"


@pytest.mark.slow
class TestJob(_OnFake):
    kind = "job"
