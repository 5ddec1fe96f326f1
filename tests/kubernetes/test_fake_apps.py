"""Apps on the fake cluster, for what a real one cannot be made to show: sidecars, watches that are too old, chaos."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest

from asyncsched.schedulers.kubernetes import KubernetesScheduler
from asyncsched.specs import macros
from asyncsched.specs.app import Role
from asyncsched.specs.state import AppState
from tests.kubernetes._apps import app, options
from tests.kubernetes._logs import until
from tests.kubernetes_fake import FakeCluster

pytestmark = pytest.mark.service("kubernetes-fake")

PATIENCE = 120.0
SIDECAR = {"spec": {"containers": [{"name": "proxy", "image": "busybox", "command": ["sleep", "1000"]}]}}


async def last_state(scheduler: KubernetesScheduler, app_id: str) -> AppState:
    async with asyncio.timeout(PATIENCE):
        return [event async for event in scheduler.watch([app_id])][-1].state


async def test_each_task_of_a_job_needs_its_own_least_number_of_successes(scheduler: KubernetesScheduler) -> None:
    """As Volcano has it, where the job needs as many as its tasks do together."""
    elastic = app("true", replicas=2, min_replicas=1)
    ranked = Role("ranked", "busybox", entrypoint="sh", args=["-c", "exit $RANK"], num_replicas=2)
    ranked.env = {"RANK": macros.replica_id}
    elastic.roles.append(ranked)

    assert AppState.FAILED is await last_state(scheduler, await scheduler.submit(elastic, options("volcano")))


@pytest.mark.parametrize("kind", ["volcano", "job"])
@pytest.mark.parametrize(("code", "state"), [(0, AppState.SUCCEEDED), (3, AppState.FAILED)])
async def test_a_sidecar_that_never_ends_keeps_no_app_alive(
    scheduler: KubernetesScheduler, kind: str, code: int, state: AppState
) -> None:
    cfg = options(kind, overlay=json.dumps(SIDECAR))
    app_id = await scheduler.submit(app(f"echo one; echo two; exit {code}", replicas=2), cfg)
    async with asyncio.timeout(PATIENCE):
        lines = [line.text async for line in scheduler.log_iter(app_id, should_tail=True)]

    assert Counter(one=2, two=2) == Counter(lines)
    assert state is await last_state(scheduler, app_id)
    found = await scheduler.describe(app_id)
    assert found is not None
    assert [code, code] == [replica.exit_code for replica in found.replicas]


@pytest.mark.parametrize("as_status", [True, False])
async def test_what_ended_while_a_watch_was_too_old_is_found_by_the_next_list(
    fake: FakeCluster, scheduler: KubernetesScheduler, as_status: bool
) -> None:
    fake.pace.expired_as_status = as_status
    app_id = await scheduler.submit(app("while [ ! -e go ]; do sleep 0.01; done"), options("volcano"))
    waiting = asyncio.create_task(last_state(scheduler, app_id))
    await until(fake, lambda: fake.traffic.open["watch pods"] and fake.traffic.open["watch vcjobs"])
    await until(fake, lambda: any(pod.main[0].process for pod in fake.kubelet.pods.values()))

    def forget() -> None:
        """Let the watches be gone, all changes be forgotten, and the app end meanwhile."""
        fake.server.cut("watch .*")
        for pod in fake.kubelet.pods.values():
            (pod.directory / "go").touch()
        fake.later(0.0, fake.store.compact)
        fake.later(0.5, fake.store.compact)

    lists = fake.traffic.calls["list vcjobs"]
    fake.run(forget)

    assert AppState.SUCCEEDED is await waiting
    assert fake.traffic.calls["list vcjobs"] > lists


async def test_a_watch_that_is_told_in_its_middle_that_it_is_too_old_lists_again(
    fake: FakeCluster, scheduler: KubernetesScheduler
) -> None:
    app_id = await scheduler.submit(app("while [ ! -e go ]; do sleep 0.01; done"), options("volcano"))
    waiting = asyncio.create_task(last_state(scheduler, app_id))
    await until(fake, lambda: fake.traffic.open["watch pods"] and fake.traffic.open["watch vcjobs"])
    await until(fake, lambda: any(pod.main[0].process for pod in fake.kubelet.pods.values()))
    fake.run(lambda: [watch.expire() for watch in fake.watches])
    fake.run(lambda: [(pod.directory / "go").touch() for pod in fake.kubelet.pods.values()])

    assert AppState.SUCCEEDED is await waiting


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_twenty_replicas_through_sixty_cuts(fake: FakeCluster, scheduler: KubernetesScheduler) -> None:
    script = "i=0; while [ ! -e go ]; do echo $i; i=$((i+1)); sleep 0.1; done; echo last"
    app_id = await scheduler.submit(app(script, replicas=20), options("job"))

    async def break_things() -> None:
        cuts = 0
        while cuts < 60:
            cuts += fake.cut("get pods/log")
            fake.cut("watch .*")
            await asyncio.sleep(0.1)
        fake.run(lambda: [(pod.directory / "go").touch() for pod in fake.kubelet.pods.values()])

    breaking = asyncio.create_task(break_things())
    seen: dict[int, list[str]] = {}
    async with asyncio.timeout(3 * PATIENCE):
        async for line in scheduler.log_iter(app_id, should_tail=True):
            assert line.gap is None
            seen.setdefault(line.replica, []).append(line.text)
    await breaking

    assert 20 == len(seen)
    for lines in seen.values():
        assert [*map(str, range(len(lines) - 1)), "last"] == lines
    assert AppState.SUCCEEDED is await last_state(scheduler, app_id)


async def test_an_attempt_that_was_deleted_before_anybody_read_it_is_a_gap(scheduler: KubernetesScheduler) -> None:
    app_id = await scheduler.submit(app("echo try; exit 1", max_retries=1), options("volcano"))
    assert AppState.FAILED is await last_state(scheduler, app_id)
    async with asyncio.timeout(PATIENCE):
        lines = [line async for line in scheduler.log_iter(app_id)]

    assert ["gap", "try"] == ["gap" if line.gap is not None else line.text for line in lines]
    assert [0, 1] == [line.attempt for line in lines]
