"""Connections that break, logs that rotate, parts of the cluster that are stopped: nothing is lost or told twice."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from asyncsched.logs.line import LogLine
from asyncsched.schedulers.kubernetes import KubernetesScheduler
from asyncsched.specs import AppState
from asyncsched.specs.stream import Stream
from tests._support import eventually
from tests.kubernetes._cluster_apps import KINDS, OBEYS, app, counting, ended, numbers, options
from tests.kubernetes._cluster_proxy import CuttingProxy
from tests.services.kubernetes.api import Api
from tests.services.kubernetes.cluster import Cluster
from tests.services.kubernetes.tenant import Tenant
from tests.services.kubernetes.waiting import until

pytestmark = [
    pytest.mark.service("cluster"),
    pytest.mark.heavy("kubernetes"),
    pytest.mark.one_loop,
    pytest.mark.timeout(900),
]

LOG = "/log?"
"""What the request of a log's connection contains."""


@asynccontextmanager
async def scheduler_on(kubeconfig: Path, tenant: Tenant, **more: Any) -> AsyncIterator[KubernetesScheduler]:
    namespaces = [tenant.namespace]
    async with KubernetesScheduler("mine", kubeconfig=str(kubeconfig), namespaces=namespaces, **more) as made:
        yield made
    await asyncio.to_thread(tenant.clean)


@pytest.mark.parametrize("kind", KINDS)
async def test_ten_thousand_lines_through_fifty_cuts(kind: str, tenant: Tenant, tmp_path: Path) -> None:
    async with CuttingProxy(tenant.user, tmp_path) as proxy, scheduler_on(proxy.kubeconfig, tenant) as scheduler:
        proxy.lifetime = (2.0, 8.0)
        script = counting(500, at_a_time=10, pause=1.0)
        app_id = await scheduler.submit(app(script, replicas=20), options(kind, tenant.namespace))
        lines = [line async for line in scheduler.log_iter(app_id, should_tail=True)]

        assert AppState.SUCCEEDED == (await ended(scheduler, app_id)).state
        assert {replica: list(range(500)) for replica in range(20)} == numbers(lines)
        assert 50 <= proxy.cuts


@pytest.mark.parametrize("kind", KINDS)
async def test_ten_thousand_lines_through_fifty_cuts_over_rotations(
    kind: str, tenant: Tenant, own_cluster: Cluster, tmp_path: Path
) -> None:
    """Files of 1 MiB, and two for each replica. Half of the logs cannot be opened while theirs are rotated."""
    async with (
        CuttingProxy(tenant.user, tmp_path) as proxy,
        scheduler_on(proxy.kubeconfig, tenant, retry_for=300.0) as scheduler,
    ):
        proxy.lifetime = (2.0, 8.0)
        script = counting(500, at_a_time=10, pause=1.0, padding=4000)
        app_id = await scheduler.submit(app(script, replicas=20), options(kind, tenant.namespace))
        seen: dict[int, list[LogLine]] = {replica: [] for replica in range(20)}
        away: dict[int, str] = {}  # the pods whose logs cannot be opened, by their replicas
        async with asyncio.TaskGroup() as group:
            async with scheduler.log_iter(app_id, should_tail=True) as stream:
                async for line in stream:
                    seen[line.replica].append(line)
                    if line.replica < 10 and len(seen[line.replica]) == 100:
                        away[line.replica] = pod_of(proxy, app_id, line.replica, kind)
                        proxy.refuses = lambda request: any(f"{pod}{LOG}" in request for pod in away.values())
                        proxy.cut(f"{away[line.replica]}{LOG}")
                        group.create_task(back_when_rotated(own_cluster, away, line.replica))

        assert AppState.SUCCEEDED == (await ended(scheduler, app_id)).state
        assert 50 <= proxy.cuts
        assert {*range(10)} <= {replica for replica, lines in seen.items() if missing(lines)}


def pod_of(proxy: CuttingProxy, app_id: str, replica: int, kind: str) -> str:
    """Return what the request of a replica's log contains, which tells it from all others."""
    job = app_id.partition(":")[2]
    begins = f"/pods/{job}-main-{replica}{LOG[:-1]}" if kind == "volcano" else f"/pods/{job}-{replica}-"
    (found,) = {
        request.partition("?")[0].removeprefix("GET ").removesuffix("/log")
        for request in proxy.requests
        if begins in request and LOG in request
    }
    return found


async def back_when_rotated(cluster: Cluster, away: dict[int, str], replica: int) -> None:
    """Let a log be opened again once its file of now has been closed, and its lines written to another."""
    namespace, pod = away[replica].split("/")[-3], away[replica].split("/")[-1]
    (folder,) = (cluster.directory / "pod-logs").glob(f"{namespace}_{pod}_*")

    def rotated() -> set[str]:
        return {path.name.partition(".gz")[0] for path in folder.glob("main/0.log.2*")}

    before = rotated()
    await eventually(lambda: rotated() - before, within=300)
    del away[replica]


def missing(lines: list[LogLine]) -> int:
    """Count the lines that rotation took from a replica: each hole is told where it is, and no line comes twice."""
    expected = 0
    is_told = False
    lost = 0
    for line in lines:
        if line.gap is not None:
            assert not is_told, "a hole is told once"
            assert "rotated" in line.gap.reason
            is_told = True
            continue
        number = int(line.split()[0])
        assert number == expected or (is_told and number > expected), (number, expected, is_told)
        lost += number - expected
        expected, is_told = number + 1, False
    assert expected == 500 or is_told
    return lost + 500 - expected


@pytest.mark.parametrize("program", ["kubelet", "apiserver"])
async def test_a_part_of_the_cluster_stops_amid_tails_and_waits(
    program: str, tenant: Tenant, own_cluster: Cluster
) -> None:
    async with scheduler_on(tenant.user, tenant) as scheduler:
        apps = {
            await scheduler.submit(
                app(counting(60, at_a_time=1, pause=1.0)), options(KINDS[n % 2], tenant.namespace)
            ): n
            for n in range(20)
        }
        begun: set[str] = set()

        async def tail(app_id: str) -> list[int]:
            found: list[int] = []
            async for line in scheduler.log_iter(app_id, should_tail=True):
                begun.add(app_id)
                assert line.gap is None
                found.append(int(line.split()[0]))
            return found

        async with asyncio.TaskGroup() as group:
            tails = [group.create_task(tail(app_id)) for app_id in apps]
            waits = [group.create_task(ended(scheduler, app_id)) for app_id in apps]
            await eventually(lambda: len(begun) == len(apps), within=300)
            await asyncio.to_thread(own_cluster.stop, program)
            await asyncio.sleep(5)  # how long the outage lasts: nothing is waited for
            await asyncio.to_thread(own_cluster.start, program)

        assert [list(range(60))] * 20 == [task.result() for task in tails]
        assert {AppState.SUCCEEDED} == {task.result().state for task in waits}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_a_cancel_right_after_the_api_server_was_restarted_ends_the_app(
    number: signal.Signals, tenant: Tenant, own_cluster: Cluster
) -> None:
    """Volcano's controller comes back half a minute later, or more, and may lose what it is told meanwhile."""
    async with scheduler_on(tenant.user, tenant, retry_for=300.0) as scheduler:
        apps = [await scheduler.submit(app(OBEYS), options(kind, tenant.namespace)) for kind in KINDS * 2]
        async with scheduler.watch(apps) as watch:
            running: set[str] = set()
            async for event in watch:
                if event.state is AppState.RUNNING:
                    running.add(event.app_id)
                if len(running) == len(apps):
                    break
        await asyncio.to_thread(own_cluster.stop, "apiserver", number)
        await asyncio.to_thread(own_cluster.start, "apiserver")
        for app_id in apps:
            await scheduler.cancel(app_id)

        assert {AppState.CANCELLED} == {(await ended(scheduler, app_id)).state for app_id in apps}


@asynccontextmanager
async def without_split_streams(cluster: Cluster) -> AsyncIterator[None]:
    """Run the API server as it is by default: it does not tell stdout and stderr apart."""
    await asyncio.to_thread(set_split_streams, cluster, splits=False)
    try:
        yield
    finally:
        await asyncio.to_thread(set_split_streams, cluster, splits=True)


def set_split_streams(cluster: Cluster, *, splits: bool) -> None:
    cluster.stop("apiserver")
    cluster.splits_streams = splits
    cluster.start("apiserver")
    until(Api(cluster.kubeconfig).answers, "the API server")


@pytest.mark.parametrize("kind", KINDS)
async def test_streams_are_refused_where_the_cluster_does_not_tell_them_apart(
    kind: str, tenant: Tenant, own_cluster: Cluster
) -> None:
    async with without_split_streams(own_cluster), scheduler_on(tenant.user, tenant) as scheduler:
        app_id = await scheduler.submit(app("echo out; echo err >&2"), options(kind, tenant.namespace))
        for tail in (True, False):
            with pytest.raises(ValueError, match=r"cannot separate stdout from stderr .*PodLogsQuerySplitStreams"):
                await anext(scheduler.log_iter(app_id, streams=Stream.STDERR, should_tail=tail))

            lines = [line.text async for line in scheduler.log_iter(app_id, should_tail=tail)]
            assert ["err", "out"] == sorted(lines)


async def test_a_submit_whose_answer_was_lost_leaves_one_job(tenant: Tenant, tmp_path: Path) -> None:
    async with CuttingProxy(tenant.user, tmp_path) as proxy, scheduler_on(proxy.kubeconfig, tenant) as scheduler:
        for kind in KINDS:
            lost: list[str] = []

            def loses(request: str, lost: list[str] = lost) -> bool:
                if request.startswith("POST") and request.partition("?")[0].endswith("/jobs") and not lost:
                    lost.append(request)
                    return True
                return False

            proxy.loses = loses
            app_id = await scheduler.submit(app(OBEYS), options(kind, tenant.namespace))

            assert 1 == len(lost)
            assert app_id in {row.app_id for row in await scheduler.list()}
        assert 2 == len(await scheduler.list())
