"""The contract on a real cluster: on both kinds of jobs, as an administrator and as the user of the documented role."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator

import pytest
from typing_extensions import override

from asyncsched.schedulers.kubernetes import KubernetesScheduler
from asyncsched.specs import Resource
from asyncsched.specs.secret_ref import SecretRef
from asyncsched.testing.contract import ContractRig, SchedulerContract
from tests.kubernetes._cluster_apps import KINDS, app, options
from tests.services.kubernetes.api import ApiError
from tests.services.kubernetes.images import BUSYBOX
from tests.services.kubernetes.tenant import Tenant

pytestmark = [pytest.mark.service("cluster"), pytest.mark.slow, pytest.mark.one_loop]

SECRET = (SecretRef("login", "password"), "sesame-17")


class OnCluster:
    """The rig, for each kind; a subclass has the fixture ``user``."""

    @pytest.fixture
    async def rig(self, kind: str, user: str, tenant: Tenant) -> AsyncIterator[ContractRig]:
        await asyncio.to_thread(_keep_secret, tenant)
        kubeconfig = str(tenant.user if user == "user" else tenant.admin)
        namespaces = [tenant.namespace]
        async with KubernetesScheduler("mine", kubeconfig=kubeconfig, namespaces=namespaces) as scheduler:
            yield ContractRig(
                scheduler,
                runs_workspaces=False,
                another=lambda: KubernetesScheduler("other", kubeconfig=kubeconfig, namespaces=namespaces),
                cfg=options(kind, tenant.namespace),
                image=BUSYBOX,
                patience=120.0,
                tells_streams=_tells_streams(tenant),
                reads_results=True,
                keeps_cancelled_logs=False,
                keeps_attempts=kind == "job",
                timeout=2.0,
                never_starts=app("", resource=Resource(cpu=900, memMB=64, gpu=0)),
                secret=SECRET,
                unknown_id=f"{tenant.namespace}:nosuchapp-x1",
            )
        await asyncio.to_thread(tenant.clean)


def _tells_streams(tenant: Tenant) -> bool:
    """Tell whether the server hands out a log's streams apart: where it does not, it refuses the very question."""
    try:
        tenant.api.raw("GET", tenant.path("pods/nosuch/log?stream=Stdout"))
    except ApiError as error:
        return error.status == 404
    raise AssertionError("a pod that is not there has a log")


def _keep_secret(tenant: Tenant) -> None:
    ref, value = SECRET
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": ref.name},
        "data": {ref.key: b64encode(value.encode()).decode()},
    }
    tenant.api.apply(tenant.path(f"secrets/{ref.name}"), body)


@pytest.mark.parametrize("user", ["user"])
@pytest.mark.parametrize("kind", KINDS)
class TestChosen(OnCluster):
    """What the whole run has time for: a sentence for each way in which the cluster takes part."""

    test_submit = SchedulerContract.test_submit_returns_an_id_that_describe_knows
    test_key = SchedulerContract.test_a_key_makes_a_submit_idempotent
    test_success = SchedulerContract.test_success_is_described_in_full
    test_failure = SchedulerContract.test_all_ended_with_a_failure_is_failed_and_says_why
    test_watch = SchedulerContract.test_a_watch_begins_with_the_present_and_ends_at_the_end
    test_cancel = SchedulerContract.test_cancel_ends_an_app_as_cancelled_for_everyone
    test_lines = SchedulerContract.test_every_line_of_every_replica_in_its_order
    test_restarts = SchedulerContract.test_restarts_are_followed_and_counted
    test_secret = SchedulerContract.test_a_secret_of_the_service_is_filled_in_or_refused


@pytest.mark.heavy("kubernetes")
@pytest.mark.parametrize("user", ["user", "admin"])
@pytest.mark.parametrize("kind", KINDS)
class TestAll(OnCluster, SchedulerContract):
    """The whole of it."""

    @override
    async def test_over_its_time_an_app_is_failed_and_not_retried(self, rig: ContractRig) -> None:
        """A pod that is over its time has failed like any other, and is retried: `info.ignored` says so."""
        rig.restarts = False
        await super().test_over_its_time_an_app_is_failed_and_not_retried(rig)
