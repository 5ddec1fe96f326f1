"""The contract, on an emulator whose nodes are processes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from typing_extensions import override

from asyncsched.schedulers._common.rate_limit import RateLimits
from asyncsched.schedulers.aws_batch import AWSBatchScheduler
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.specs.app import AppDef, Resource, Role
from asyncsched.specs.secret_ref import SecretRef
from asyncsched.specs.state import AppState
from asyncsched.testing.contract import ContractRig, SchedulerContract
from tests.aws_batch.conftest import QUEUE, quick
from tests.aws_emulator.server import Server

SECRET = "arn:aws:secretsmanager:us-east-1:123456789012:secret:login-AbCdEf"

pytestmark = pytest.mark.service("aws")  # its nodes are processes, in real time


def unlimited(session: str) -> AWSBatchScheduler:
    """Return a scheduler that calls without a pause: the emulator has no limits unless a test sets them."""
    return quick(session, limits=RateLimits(scale=100.0))


@pytest.mark.slow
class TestContract(SchedulerContract):
    @pytest.fixture
    async def rig(self, server: Server) -> AsyncIterator[ContractRig]:
        # The children of a main node that ends at once end by themselves.
        server.cloud.pace.stop_children, server.cloud.pace.waits_for_children = 60.0, True
        server.cloud.pace.grace = 1.0
        server.cloud.pace.second_of_timeout = 0.02
        server.cloud.life.secrets[SECRET] = json.dumps({"password": "sesame-17"})
        scheduler = unlimited("contract")
        yield ContractRig(
            scheduler,
            runs_workspaces=False,
            another=lambda: unlimited("other"),
            cfg={"queue": QUEUE, "execution_role_arn": "arn:aws:iam::123456789012:role/exec"},
            image="busybox",
            tells_streams=False,
            timeout=60,
            never_starts=AppDef("job", [Role("main", "busybox", entrypoint="true", resource=Resource(1, 999, 64))]),
            pending_timeout=0.5,
            secret=(SecretRef(SECRET, "password"), "sesame-17"),
            unknown_id=f"{QUEUE}:nosuchapp-x1",
        )
        await scheduler.close()

    @override
    async def test_a_failure_names_its_code_and_leaves_the_others_running(self, rig: ContractRig) -> None:
        """On AWS Batch a node's failure changes nothing for the others, unless it is the main node's."""
        rig.cfg = {**rig.cfg, "main_node": 1}
        app = AppDef("job", [rig.role("exit 3", "bad"), rig.role(rig.long_sleep, "good")])
        app_id = await rig.submit(app)

        def bad_has_failed(found: DescribeAppResponse) -> bool:
            return any(r.role == "bad" and r.state is AppState.FAILED for r in found.replicas)

        seen = await rig.until(app_id, bad_has_failed)
        assert 3 == next(r.exit_code for r in seen.replicas if r.role == "bad")
        assert AppState.RUNNING == (await rig.running_or_pending(app_id)).state
        await rig.scheduler.cancel(app_id)
