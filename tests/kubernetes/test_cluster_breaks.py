"""Connections that break, logs that rotate, parts of the cluster that are stopped: nothing is lost or told twice."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

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
async def scheduler_on(kubeconfig: Path, tenant: Tenant) -> AsyncIterator[KubernetesScheduler]:
    async with KubernetesScheduler("mine", kubeconfig=str(kubeconfig), namespaces=[tenant.namespace]) as made:
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
async def test_lines_that_rotation_took_while_nobody_was_connected_are_a_gap(
    kind: str, tenant: Tenant, own_cluster: Cluster, tmp_path: Path
) -> None:
    """Files of 1 MiB: what is written in three megabytes while no log can be opened cannot all be read later."""
    async with CuttingProxy(tenant.user, tmp_path) as proxy, scheduler_on(proxy.kubeconfig, tenant) as scheduler:
        # A burst that goes over several files, between lines that are read while they are written.
        script = f"{counting(100, pause=0.5)}\n{counting(10_000, at_a_time=500, pause=1.0, padding=400)}"
        app_id = await scheduler.submit(app(script), options(kind, tenant.namespace))
        seen: list[LogLine] = []
        async with scheduler.log_iter(app_id, should_tail=True) as stream:
            async for line in stream:
                seen.append(line)
                if len(seen) in (50, 3000, 6000):
                    proxy.cut(LOG)
        told = [line for line in seen if line.gap is None]
        gaps = [line for line in seen if line.gap is not None]
        (found,) = numbers(told).values()

        assert found[:100] == list(range(100))
        second = found[100:]
        assert sorted(set(second)) == second, "a line came twice, or out of order"
        assert second[-1] == 9999
        assert bool(gaps) == (len(second) < 10_000), "what is missing is told, and nothing else"


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
    """Volcano's controller comes back to it up to half a minute later, and may lose what it is told meanwhile."""
    async with scheduler_on(tenant.user, tenant) as scheduler:
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
            with pytest.raises(ValueError, match=r"cannot separate stderr .*PodLogsQuerySplitStreams"):
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
