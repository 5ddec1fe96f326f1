"""What pods of a real cluster do: meet by name, wait for a reason, and end when the program that matters has ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from asyncsched.components import dist
from asyncsched.schedulers.kubernetes import KubernetesScheduler
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.specs import AppDef, AppState, FailureCause, Resource, Role, VolumeMount, macros
from asyncsched.specs.secret_ref import SecretRef
from tests.kubernetes._cluster_apps import KINDS, OBEYS, app, ended, options
from tests.services.kubernetes.cluster import Cluster
from tests.services.kubernetes.images import PYTHON
from tests.services.kubernetes.tenant import Tenant
from tests.services.kubernetes.waiting import until

pytestmark = [
    pytest.mark.service("cluster"),
    pytest.mark.heavy("kubernetes"),
    pytest.mark.one_loop,
    pytest.mark.parametrize("kind", KINDS),
]

WITHIN = 120.0


@pytest.fixture
async def scheduler(tenant: Tenant) -> AsyncIterator[KubernetesScheduler]:
    async with KubernetesScheduler("mine", kubeconfig=str(tenant.user), namespaces=[tenant.namespace]) as made:
        yield made
    await asyncio.to_thread(tenant.clean)


async def told(scheduler: KubernetesScheduler, app_id: str, *words: str) -> DescribeAppResponse:
    """Watch an app until its message contains these words."""
    seen: list[object] = []
    async with asyncio.timeout(WITHIN):
        async with scheduler.watch([app_id]) as watch:
            async for event in watch:
                seen.append((event.state, event.current and event.current.msg))
                if event.current is not None and all(word in event.current.msg for word in words):
                    return event.current
    raise AssertionError(f"{words} was never said: {seen}")


async def test_two_pods_of_a_distributed_job_meet_by_name(
    kind: str, scheduler: KubernetesScheduler, tenant: Tenant, own_cluster: Cluster
) -> None:
    job = dist.ddp(script="/job/meeting.py", image=PYTHON, j="2x2")
    job.roles[0].resource = Resource(cpu=0, gpu=0, memMB=0)  # the node may have two processors
    app_id = await scheduler.submit(job, options(kind, tenant.namespace))
    async with asyncio.timeout(WITHIN):
        lines = [line.text async for line in scheduler.log_iter(app_id, should_tail=True)]

    assert AppState.SUCCEEDED == (await ended(scheduler, app_id)).state
    ranks = sorted("rank " + line.partition("rank ")[2] for line in lines if "rank " in line)
    assert [f"rank {rank} of 4: the ranks add up to 6" for rank in range(4)] == ranks


async def test_two_roles_run_beside_each_other(kind: str, scheduler: KubernetesScheduler, tenant: Tenant) -> None:
    roles = [app(f"echo {name}; sleep 1", name=name, replicas=2).roles[0] for name in ("trainer", "reader")]
    app_id = await scheduler.submit(AppDef("job", roles), options(kind, tenant.namespace))
    lines = [(line.role, line.replica, line.text) async for line in scheduler.log_iter(app_id, should_tail=True)]

    assert AppState.SUCCEEDED == (await ended(scheduler, app_id)).state
    assert [(name, n, name) for name in ("reader", "trainer") for n in range(2)] == sorted(lines)


@pytest.mark.parametrize(
    ("wrong", "words", "cause"),
    [
        ({"image": "docker.io/local/nosuch:1"}, ("nosuch",), FailureCause.IMAGE),
        ({"resource": Resource(cpu=900, gpu=0, memMB=64)}, ("cpu",), FailureCause.UNSCHEDULABLE),
        ({"env": {"PASS": SecretRef("nosuch", "key")}}, ("nosuch",), FailureCause.CONFIG),
        ({"mounts": [VolumeMount("nosuch", "/data")]}, ('"nosuch" not found',), FailureCause.UNSCHEDULABLE),
    ],
    ids=["image", "cpu", "secret", "claim"],
)
async def test_what_an_app_waits_for_is_told(
    kind: str,
    scheduler: KubernetesScheduler,
    tenant: Tenant,
    wrong: dict[str, Any],
    words: tuple[str, ...],
    cause: FailureCause,
) -> None:
    app_id = await scheduler.submit(app(OBEYS, **wrong), options(kind, tenant.namespace))
    found = await told(scheduler, app_id, *words)

    assert (AppState.PENDING, cause) == (found.state, found.cause)
    await scheduler.cancel(app_id)
    assert AppState.CANCELLED == (await ended(scheduler, app_id)).state


@pytest.mark.parametrize(
    ("rule", "spec", "words", "cause"),
    [
        ("resourcequotas", {"hard": {"pods": "0"}}, "quota", FailureCause.QUOTA),
        (
            "limitranges",
            {"limits": [{"type": "Container", "max": {"memory": "8Mi"}}]},
            "maximum memory usage per Container is 8Mi",
            FailureCause.CONFIG,
        ),
    ],
)
async def test_a_rule_of_the_namespace_that_refuses_the_pods_is_told(
    kind: str, second_tenant: Tenant, rule: str, spec: dict[str, Any], words: str, cause: FailureCause
) -> None:
    made = {"metadata": {"name": "rule"}, "spec": spec}
    second_tenant.api.call("POST", second_tenant.path(rule), made)
    async with KubernetesScheduler(
        "mine", kubeconfig=str(second_tenant.user), namespaces=[second_tenant.namespace]
    ) as scheduler:
        job = app(OBEYS, resource=Resource(cpu=0, gpu=0, memMB=1100))
        app_id = await scheduler.submit(job, options(kind, second_tenant.namespace))
        found = await told(scheduler, app_id, words)
        await scheduler.cancel(app_id)

    assert (AppState.PENDING, cause) == (found.state, found.cause)


async def test_pods_that_the_namespace_does_not_admit_are_told(kind: str, second_tenant: Tenant) -> None:
    restricted = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    path = f"/api/v1/namespaces/{second_tenant.namespace}"
    second_tenant.api.call("PATCH", path, restricted, "application/merge-patch+json")
    async with KubernetesScheduler(
        "mine", kubeconfig=str(second_tenant.user), namespaces=[second_tenant.namespace]
    ) as scheduler:
        app_id = await scheduler.submit(app(OBEYS), options(kind, second_tenant.namespace))
        found = await told(scheduler, app_id, "PodSecurity")
        await scheduler.cancel(app_id)

    assert AppState.PENDING == found.state


async def test_a_sidecar_that_never_ends_keeps_no_app_alive(
    kind: str, scheduler: KubernetesScheduler, tenant: Tenant
) -> None:
    sidecar = {"name": "beside", "image": app("").roles[0].image, "command": ["sh", "-c", OBEYS]}
    overlay = json.dumps({"spec": {"containers": [sidecar]}})
    app_id = await scheduler.submit(app("exit 3"), options(kind, tenant.namespace, overlay=overlay))
    found = await ended(scheduler, app_id)

    assert (AppState.FAILED, FailureCause.EXIT) == (found.state, found.cause)
    assert [3] == [replica.exit_code for replica in found.replicas]


async def test_an_init_container_that_fails_tells_its_reason(
    kind: str, scheduler: KubernetesScheduler, tenant: Tenant
) -> None:
    first = {"name": "first", "image": app("").roles[0].image, "command": ["sh", "-c", "echo no data; exit 4"]}
    overlay = json.dumps({"spec": {"initContainers": [first]}})
    app_id = await scheduler.submit(app("echo never"), options(kind, tenant.namespace, overlay=overlay))
    found = await told(scheduler, app_id, "first", "no data")

    assert AppState.SUCCEEDED is not found.state
    assert AppState.FAILED == (await ended(scheduler, app_id)).state


async def test_an_app_of_which_its_least_number_has_succeeded_tells_what_has_failed(
    kind: str, scheduler: KubernetesScheduler, tenant: Tenant
) -> None:
    script = "sleep 1; case $VC_TASK_INDEX$JOB_COMPLETION_INDEX in 1) exit 3;; esac"
    app_id = await scheduler.submit(app(script, replicas=2, min_replicas=1), options(kind, tenant.namespace))
    found = await ended(scheduler, app_id)

    assert "main/1: exit code 3" == found.msg
    assert (AppState.SUCCEEDED if kind == "volcano" else AppState.FAILED) == found.state


@pytest.mark.parametrize("more", [{}, {"on_failure": "stop"}], ids=["continue", "stop"])
async def test_what_containers_tell_of_an_app_that_may_lose_replicas_is_what_volcano_makes_of_its_pods(
    kind: str, scheduler: KubernetesScheduler, tenant: Tenant, more: dict[str, str]
) -> None:
    """The programs have ended before their pods, which a sidecar keeps for some seconds."""
    if kind == "job":
        pytest.skip("a plain Job has no least number")
    elastic = app("sleep 1; exit $((VC_TASK_INDEX * 3))", replicas=2, min_replicas=1)
    elastic.roles.append(app("true", name="ranked", replicas=2, env={"RANK": macros.replica_id}).roles[0])
    sidecar = {"name": "beside", "image": elastic.roles[0].image, "command": ["sleep", "15"]}
    overlay = json.dumps({"spec": {"containers": [sidecar]}})
    app_id = await scheduler.submit(elastic, options(kind, tenant.namespace, overlay=overlay, **more))
    early = await ended(scheduler, app_id)
    rows = {row.app_id: row.state for row in await scheduler.list()}
    await asyncio.to_thread(_until_over, tenant, app_id.partition(":")[2])

    assert (AppState.FAILED if more else AppState.SUCCEEDED) == early.state
    assert early.state == rows[app_id]
    found = await scheduler.describe(app_id)
    assert found is not None
    assert early.state == found.state


def _until_over(tenant: Tenant, name: str) -> None:
    path = tenant.path(f"jobs/{name}", "/apis/batch.volcano.sh/v1alpha1")
    until(lambda: tenant.api.get(path)["status"]["state"]["phase"] in ("Completed", "Failed"), "Volcano's verdict")


async def test_memory_that_is_used_up_is_the_cause(kind: str, scheduler: KubernetesScheduler, tenant: Tenant) -> None:
    eats = "x=a; while :; do x=$x$x; done"
    role = Role("main", app("").roles[0].image, entrypoint="sh", args=["-c", eats])
    role.resource = Resource(cpu=0, gpu=0, memMB=32)
    app_id = await scheduler.submit(AppDef("eater", [role]), options(kind, tenant.namespace, reserved_memmb=0))
    found = await ended(scheduler, app_id)

    assert (AppState.FAILED, FailureCause.OOM) == (found.state, found.cause)
