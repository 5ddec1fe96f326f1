"""Many jobs on a real cluster cost few requests; what others have in the namespace is left alone."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from asyncsched.schedulers.kubernetes import KubernetesScheduler
from asyncsched.specs import AppState
from tests._support import eventually
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

MANY = 200
NOWHERE = {"asyncsched/no-node-has-this": "1"}
READS = ("GET",)
NAMESPACES = "/namespaces/"
"""What the address of an object contains, and that of what the server can do does not."""


def watched(proxy: CuttingProxy) -> Counter[str]:
    """Count the open watches of each resource, by its path."""
    open_now = [request for request in proxy.open if "watch=" in request]
    return Counter(request.partition("?")[0].removeprefix("GET ") for request in open_now)


async def test_many_jobs_are_watched_by_one_connection_for_each_resource_and_ended_by_one_write_each(
    kind: str, tenant: Tenant, tmp_path: Path
) -> None:
    async with CuttingProxy(tenant.user, tmp_path) as proxy:
        async with KubernetesScheduler("mine", kubeconfig=str(proxy.kubeconfig)) as scheduler:
            cfg = options(kind, tenant.namespace, node_selector=NOWHERE)
            apps = await asyncio.gather(*(scheduler.submit(app(OBEYS), cfg) for _ in range(MANY)))
            most: Counter[str] = Counter()

            async def count() -> None:
                nonlocal most
                while True:
                    most |= watched(proxy)
                    await asyncio.sleep(0.05)

            counting = asyncio.ensure_future(count())
            async with scheduler.watch(apps) as watch:
                pending: set[str] = set()
                async for event in watch:
                    pending.add(event.app_id)
                    if len(pending) == MANY:
                        break
            waits = [asyncio.ensure_future(ended(scheduler, app_id)) for app_id in apps]
            await eventually(lambda: watched(proxy)[tenant.path("pods")] == 1)
            told, sent = await cancelled(apps, tenant, tmp_path)
            ends = await asyncio.gather(*waits)
            counting.cancel()

        assert dict.fromkeys(apps) == told
        assert {AppState.CANCELLED} == {found.state for found in ends}
        writes = [request for request in sent if not request.startswith(READS)]
        reads = [request for request in sent if request.startswith(READS) and "watch=" not in request]
        assert MANY == len(writes)
        assert 4 >= len(reads), reads
        assert {1} == {*most.values()}, most
    await asyncio.to_thread(tenant.clean)


async def cancelled(apps: list[str], tenant: Tenant, directory: Path) -> tuple[dict[str, Any], list[str]]:
    """Cancel apps from another process's point of view; return what was told, and what was asked for that."""
    folder = directory / "another"
    folder.mkdir()
    async with CuttingProxy(tenant.user, folder) as proxy:
        async with KubernetesScheduler("another", kubeconfig=str(proxy.kubeconfig)) as another:
            return await another.cancel_many(apps), [request for request in proxy.requests if NAMESPACES in request]


async def test_what_others_have_in_the_namespace_is_neither_shown_nor_touched(
    kind: str, tenant: Tenant, tmp_path: Path
) -> None:
    async with KubernetesScheduler("mine", kubeconfig=str(tenant.user), namespaces=[tenant.namespace]) as scheduler:
        others = theirs(tenant, f"theirs-{kind}")
        app_id = await scheduler.submit(app("echo ours"), options(kind, tenant.namespace))
        async with scheduler.watch([app_id]) as watch:
            states = [event.state async for event in watch]

        assert AppState.SUCCEEDED == states[-1]
        rows = {row.app_id for row in await scheduler.list()}
        assert app_id in rows
        for path, made in others.items():
            assert made["metadata"]["uid"] == tenant.api.get(path)["metadata"]["uid"]
        found = await scheduler.describe(
            f"{tenant.namespace}:theirs-{kind}"
        )  # nothing of ours but a label: told, or not known, and no error
        assert found is None or isinstance(found.state, AppState)
    await asyncio.to_thread(tenant.clean)


def theirs(tenant: Tenant, name: str) -> dict[str, Any]:
    """Make objects that look like ours where they can, and are not."""
    labels = {"asyncsched/app": name, "asyncsched/kind": "nonsense", "asyncsched/role-index": "x"}
    spec = {"restartPolicy": "Never", "containers": [{"name": "other", "image": BUSYBOX, "command": ["true"]}]}
    pod = {
        "metadata": {"name": f"{name}-pod", "labels": labels, "annotations": {"asyncsched/roles": "{"}},
        "spec": spec,
    }
    job = {
        "metadata": {"name": name, "labels": {"asyncsched/app": name}, "annotations": {"asyncsched/roles": "[]"}},
        "spec": {"template": {"spec": spec}},
    }
    service = {"metadata": {"name": name}, "spec": {"clusterIP": "None", "selector": {"x": "y"}}}
    bodies = {
        tenant.path("pods"): pod,
        tenant.path("jobs", "/apis/batch/v1"): job,
        tenant.path("services"): service,
    }
    made = {}
    for path, body in bodies.items():
        created = tenant.api.call("POST", path, body)
        made[f"{path}/{created['metadata']['name']}"] = created
    return made
