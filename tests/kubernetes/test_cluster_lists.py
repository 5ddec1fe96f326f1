"""Lists on a real cluster: over two namespaces, by their pods where a job alone does not tell, and what they cost."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from asyncsched.schedulers.kubernetes import KubernetesScheduler
from asyncsched.specs import AppState, Resource
from tests.kubernetes._cluster_apps import KINDS, OBEYS, app, ended, options
from tests.kubernetes._cluster_proxy import CuttingProxy
from tests.services.kubernetes.images import BUSYBOX
from tests.services.kubernetes.tenant import Tenant

pytestmark = [
    pytest.mark.service("cluster"),
    pytest.mark.heavy("kubernetes"),
    pytest.mark.one_loop,
    pytest.mark.parametrize("kind", KINDS),
    pytest.mark.timeout(900),
]

SIDECAR = json.dumps({"spec": {"containers": [{"name": "beside", "image": BUSYBOX, "command": ["sh", "-c", OBEYS]}]}})
RIGHTS = "/apis/rbac.authorization.k8s.io/v1"


def let_in(guest: Tenant, host: Tenant) -> None:
    """Give the plain user of one namespace the role in another one, too."""
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "asyncsched"}
    subject = {"kind": "ServiceAccount", "name": "plain", "namespace": guest.namespace}
    body = {"metadata": {"name": "guest"}, "roleRef": reference, "subjects": [subject]}
    host.api.call("POST", host.path("rolebindings", RIGHTS), body)


async def states(scheduler: KubernetesScheduler) -> dict[str, AppState]:
    return {row.app_id: row.state for row in await scheduler.list()}


async def test_list_and_prune_look_in_two_namespaces(
    kind: str, tenant: Tenant, second_tenant: Tenant, tmp_path: Path
) -> None:
    await asyncio.to_thread(let_in, tenant, second_tenant)
    both = [tenant.namespace, second_tenant.namespace]
    async with CuttingProxy(tenant.user, tmp_path) as proxy:
        async with KubernetesScheduler("mine", kubeconfig=str(proxy.kubeconfig), namespaces=both) as scheduler:
            over, runs = [], []
            for namespace in both:
                over.append(await scheduler.submit(app("exit 3"), options(kind, namespace, overlay=SIDECAR)))
                over.append(await scheduler.submit(app("true"), options(kind, namespace)))
                runs.append(await scheduler.submit(app(OBEYS), options(kind, namespace)))
            expected = [(await ended(scheduler, app_id)).state for app_id in over]
            await begun(scheduler, runs)
            proxy.requests.clear()

            assert [AppState.FAILED, AppState.SUCCEEDED] * 2 == expected
            assert {**dict(zip(over, expected, strict=True)), **dict.fromkeys(runs, AppState.RUNNING)} == await states(
                scheduler
            )
            lists = [request.partition("?")[0] for request in proxy.requests if "watch=" not in request]
            assert [tenant.path("pods"), second_tenant.path("pods")] == [
                each.removeprefix("GET ") for each in lists if each.endswith("/pods")
            ]
            assert 6 == len(lists), lists
            assert [] == await scheduler.prune(timedelta(hours=1))
            assert {*over} == {*await scheduler.prune(timedelta(0))}
            assert dict.fromkeys(runs, AppState.RUNNING) == await states(scheduler)
        async with KubernetesScheduler(
            "other", kubeconfig=str(second_tenant.user), namespaces=second_tenant.namespace
        ) as other:
            assert {runs[1]: AppState.RUNNING} == await states(other)
    await asyncio.to_thread(tenant.clean)


async def begun(scheduler: KubernetesScheduler, apps: list[str]) -> None:
    waiting = {*apps}
    async with scheduler.watch(apps) as watch:
        async for event in watch:
            if event.state is AppState.RUNNING:
                waiting.discard(event.app_id)
            if not waiting:
                return


async def test_a_namespace_without_rights_is_told_beside_the_rows(
    kind: str, tenant: Tenant, second_tenant: Tenant, caplog: Any
) -> None:
    both = [tenant.namespace, second_tenant.namespace]
    async with KubernetesScheduler("mine", kubeconfig=str(tenant.user), namespaces=both) as scheduler:
        app_id = await scheduler.submit(app("true"), options(kind, tenant.namespace))

        assert app_id in await states(scheduler)
    assert f"the list omits the namespace {second_tenant.namespace}: " in caplog.text
    await asyncio.to_thread(tenant.clean)


async def test_a_job_that_waits_is_described_in_four_requests(kind: str, tenant: Tenant, tmp_path: Path) -> None:
    async with CuttingProxy(tenant.user, tmp_path) as proxy:
        async with KubernetesScheduler("mine", kubeconfig=str(proxy.kubeconfig)) as scheduler:
            waits = app(OBEYS, replicas=100, resource=Resource(cpu=900, gpu=0, memMB=64))
            app_id = await scheduler.submit(waits, options(kind, tenant.namespace))
            async with scheduler.watch([app_id]) as watch:
                async for event in watch:
                    if event.current is not None and event.current.msg:
                        break
            proxy.requests.clear()
            found = await scheduler.describe(app_id)

        assert found is not None
        assert (AppState.PENDING, True) == (found.state, bool(found.msg))
        asked = [request for request in proxy.requests if "watch=" not in request]
        assert 4 >= len(asked), asked
    await asyncio.to_thread(tenant.clean)


async def test_one_that_fails_ends_the_others_and_nothing_is_lost_to_a_tail(kind: str, tenant: Tenant) -> None:
    """The pods of the others are deleted as soon as they have ended, and their logs with them."""
    fails = 'case $VC_TASK_INDEX$JOB_COMPLETION_INDEX in 0) exit 3;; esac; trap "echo bye; exit 0" TERM'
    script = f"echo hello; {fails}; while :; do sleep 0.1; done"
    async with KubernetesScheduler("mine", kubeconfig=str(tenant.user)) as scheduler:
        for _ in range(3):
            app_id = await scheduler.submit(
                app(script, replicas=12), options(kind, tenant.namespace, on_failure="stop", grace_period=10.0)
            )
            lines = [line async for line in scheduler.log_iter(app_id, should_tail=True)]
            found = await ended(scheduler, app_id)

            assert (AppState.FAILED, "main/0: exit code 3") == (found.state, found.msg)
            assert [] == [(line.replica, line.gap) for line in lines if line.gap is not None]
            said = {replica: [line.text for line in lines if line.replica == replica] for replica in range(12)}
            assert ["hello"] == said.pop(0)
            assert all(texts in ([], ["hello"], ["hello", "bye"]) for texts in said.values()), said
            gaps = [line.gap.reason async for line in scheduler.log_iter(app_id) if line.gap is not None]
            assert all("app was cancelled" not in reason for reason in gaps), gaps
    await asyncio.to_thread(tenant.clean)
