"""The contract, on a double whose tasks are containers."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from asyncsched.errors import ConfigError, UnknownAppError
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.specs.app import AppDef, Resource, Role
from asyncsched.specs.secret_ref import SecretRef
from asyncsched.specs.state import AppState
from asyncsched.testing.contract import ContractRig, SchedulerContract
from asyncsched.testing.contract.logs import HUNDRED
from asyncsched.testing.contract.rig import echo
from tests.gcp_batch.conftest import lead_to, quick
from tests.gcp_double.runs import Containers
from tests.gcp_double.server import PROJECT, Double
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd
from tests.services.registry import PASSWORD, Registry

SECRET = f"projects/{PROJECT}/secrets/login/versions/latest"
LAG = 0.1
"""Seconds, at most, after which an entry of the double can be read."""


@pytest.fixture
def containers(
    docker_host: str, dockerd: Dockerd, surroundings: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Double]:
    """A double whose tasks are containers, and whose entries turn up late and out of order."""
    late = random.Random(0)
    runs = Containers(dockerd.host, BUSYBOX_IMAGE, {SECRET: "sesame-17"})
    with Double(runs, lag=lambda: late.uniform(0, LAG)) as made:
        made.tokens.minted = PASSWORD
        lead_to(made, surroundings, monkeypatch)
        yield made
    assert [] == made.problems


@pytest.mark.slow
class TestContract(SchedulerContract):
    @pytest.fixture
    async def rig(self, containers: Double, registry: Registry) -> AsyncIterator[ContractRig]:
        scheduler = quick("contract")
        scheduler.google_registries = re.compile(re.escape(registry.address))  # type: ignore[misc]
        yield ContractRig(
            scheduler,
            another=lambda: quick("other"),
            cfg={"replica_network": False, "image_repo": f"{registry.address}/contract"},
            image=BUSYBOX_IMAGE,
            tells_streams=False,
            timeout=0.5,
            never_starts=AppDef(
                "job", [Role("main", BUSYBOX_IMAGE, entrypoint="true", resource=Resource(1000, 0, 64))]
            ),
            pending_timeout=0.5,
            secret=(SecretRef("login"), "sesame-17"),
            unknown_id=f"{PROJECT}:us-central1:nosuchapp-x1",
        )
        await scheduler.close()

    # A job has one role: what the contract says of several is said of the replicas of one.

    @override
    async def test_pre_proc_runs_once_for_each_role_in_order(self, rig: ContractRig) -> None:
        with pytest.raises(ConfigError, match="app job must have one role, got 2"):
            await super().test_pre_proc_runs_once_for_each_role_in_order(rig)

    @override
    async def test_a_failure_names_its_code_and_leaves_the_others_running(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(f"test ${{replica_id}} = 0 && exit 3\n{rig.long_sleep}", replicas=2))

        def first_has_failed(found: DescribeAppResponse) -> bool:
            return found.replicas[0].state is AppState.FAILED

        seen = await rig.until(app_id, first_has_failed)
        assert 3 == seen.replicas[0].exit_code
        assert AppState.RUNNING == (await rig.running_or_pending(app_id)).state
        await rig.scheduler.cancel(app_id)

    @override
    async def test_all_ended_with_a_failure_is_failed_and_says_why(self, rig: ContractRig) -> None:
        ended = await rig.ended(await rig.submit(rig.app("test ${replica_id} = 1 && exit 3\nexit 0", replicas=2)))

        assert AppState.FAILED == ended.state
        assert "replica 1: exit code 3" == ended.msg
        assert [0, 3] == [replica.exit_code for replica in ended.replicas]

    @override
    async def test_every_line_of_every_replica_in_its_order(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(echo(*HUNDRED), replicas=3))
        lines = await rig.lines(app_id, should_tail=True)

        by_replica: dict[tuple[str, int], list[str]] = {}
        for line in lines:
            by_replica.setdefault((line.role, line.replica), []).append(line.text)
        assert {("main", 0): HUNDRED, ("main", 1): HUNDRED, ("main", 2): HUNDRED} == by_replica
        assert {app_id} == {line.app_id for line in lines}
        assert all(line.endswith("\n") for line in lines)

    @override
    async def test_roles_and_replicas_are_chosen(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(echo("x"), replicas=11))
        await rig.ended(app_id)

        async def chosen(*args: Any, **query: Any) -> Counter[tuple[str, int]]:
            lines = await rig.read(rig.scheduler.log_iter(app_id, *args, **query))
            return Counter((line.role, line.replica) for line in lines)

        assert Counter({("main", 1): 1}) == await chosen("main", 1)  # and not that of replica 10
        assert Counter({("main", 0): 1, ("main", 2): 1}) == await chosen("main", [0, 2])
        assert Counter({("main", 0): 1}) == await chosen(k=0)
        assert Counter({("main", k): 1 for k in range(11)}) == await chosen(["main"])

    @override
    async def test_what_does_not_exist_is_an_error_that_names_what_does(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(echo("x")))
        await rig.ended(app_id)

        for tail in (False, True):
            with pytest.raises(UnknownAppError):
                await rig.lines(rig.unknown_id, should_tail=tail)
        with pytest.raises(UnknownAppError, match="main"):
            await rig.lines(app_id, role_name="gamma")
        with pytest.raises(UnknownAppError, match=r"main has 1"):
            await rig.lines(app_id, role_name="main", k=1)


MEET = """
wc -l < $BATCH_HOSTS_FILE
if test ${replica_id} = 0; then
    echo met | nc -l -p 5000
else
    until nc $${${rank0_env}} 5000 < /dev/null 2> /dev/null; do sleep 0.1; done  # refused until the first one listens
fi
"""


@pytest.mark.slow
async def test_two_replicas_meet_by_the_name_of_the_first(containers: Double) -> None:
    app = AppDef("job", [Role("main", BUSYBOX_IMAGE, entrypoint="sh", args=["-c", MEET], num_replicas=2)])
    async with quick("s") as made, asyncio.timeout(60):
        app_id = await made.submit(app, {"gang": True})
        lines = [line async for line in made.log_iter(app_id, should_tail=True)]
        found = await made.describe(app_id)

    assert found is not None
    assert (AppState.SUCCEEDED, "") == (found.state, found.msg)
    assert {(0, "2"), (1, "2"), (1, "met")} == {(line.replica, line.text) for line in lines}
