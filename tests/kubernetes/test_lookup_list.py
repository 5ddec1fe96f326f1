"""A list tells what `describe` tells, also where a job alone does not: one list of pods for each namespace."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from asyncsched.schedulers.kubernetes import KubernetesScheduler
from asyncsched.schedulers.kubernetes.status_jobs import JobRecord
from asyncsched.schedulers.kubernetes.status_rows import needs_pods, rows_of
from asyncsched.specs import AppState, Role, macros
from tests.kubernetes._apps import app, options
from tests.kubernetes._objects import ended, indexed, over, read, up, volcano
from tests.kubernetes._objects import pod as a_pod
from tests.kubernetes_fake import FakeCluster, StatusError
from tests.kubernetes_fake.faults import Fault

pytestmark = pytest.mark.service("kubernetes-fake")  # its pods are processes, in real time

BOTH = pytest.mark.parametrize("kind", ["volcano", "job"])
SIDECAR = json.dumps({"spec": {"containers": [{"name": "beside", "image": "busybox", "command": ["sleep", "1000"]}]}})
FORBIDDEN = 'pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default"'
LIVES_ON = [{"name": "main", **ended()}, {"name": "beside", "ready": True, "state": {"running": {}}}]


async def told(scheduler: KubernetesScheduler, app_id: str, state: AppState) -> None:
    """Wait until `describe` tells a state."""
    async for event in scheduler.watch([app_id]):
        if event.state is state:
            return
    raise AssertionError(f"{app_id} never was {state.name}")


async def listed(scheduler: KubernetesScheduler) -> dict[str, AppState]:
    return {row.app_id: row.state for row in await scheduler.list()}


@BOTH
@pytest.mark.parametrize(("code", "state"), [(0, AppState.SUCCEEDED), (3, AppState.FAILED)])
async def test_an_app_whose_sidecars_live_on_has_ended(
    scheduler: KubernetesScheduler, kind: str, code: int, state: AppState
) -> None:
    ids = [await scheduler.submit(app(f"exit {code}", roles=2), options(kind, overlay=SIDECAR)) for _ in range(2)]
    runs = await scheduler.submit(app(), options(kind, overlay=SIDECAR))
    for app_id in ids:
        await told(scheduler, app_id, state)
    await told(scheduler, runs, AppState.RUNNING)

    assert {**dict.fromkeys(ids, state), runs: AppState.RUNNING} == await listed(scheduler)
    assert {*ids} == {*await scheduler.prune(timedelta(0))}
    assert {runs: AppState.RUNNING} == await listed(scheduler)


@pytest.mark.parametrize(("more", "state"), [({}, AppState.SUCCEEDED), ({"on_failure": "stop"}, AppState.FAILED)])
async def test_an_app_that_may_lose_replicas_is_listed_as_it_is_described(
    scheduler: KubernetesScheduler, more: dict[str, str], state: AppState
) -> None:
    """A table tells neither how many replicas have to succeed nor what Volcano does when one fails."""
    elastic = app("exit $((VC_TASK_INDEX * 3))", replicas=2)
    elastic.roles[0].min_replicas = 1
    elastic.roles.append(Role("ranked", "busybox", entrypoint="true", env={"RANK": macros.replica_id}, num_replicas=2))
    app_id = await scheduler.submit(elastic, options("volcano", overlay=SIDECAR, **more))
    await told(scheduler, app_id, state)

    assert {app_id: state} == await listed(scheduler)


async def test_the_pods_of_a_namespace_are_listed_once_and_only_where_something_goes_on(
    fake: FakeCluster, tmp_path: Path
) -> None:
    fake.create("namespaces", "lab", "", status={"phase": "Active"})
    admin = str(fake.kubeconfig(tmp_path / "admin", "admin"))
    both = ["default", "lab"]
    async with KubernetesScheduler("a", kubeconfig=admin) as scheduler:
        for _ in range(3):
            await told(scheduler, await scheduler.submit(app("true"), options("volcano")), AppState.SUCCEEDED)
    async with KubernetesScheduler("b", kubeconfig=admin, namespaces=both) as another:
        assert ["jobs", "jobs", "jobs", "jobs"] == await read_by_list(fake, another)
        for namespace in both:
            for _ in range(3):
                await another.submit(app(), {**options("job"), "namespace": namespace})

        assert ["jobs", "jobs", "pods", "jobs", "jobs", "pods"] == await read_by_list(fake, another)


@pytest.mark.parametrize(
    ("min_replicas", "expected"),
    [(None, ["jobs", "jobs", "pods"]), (1, ["jobs", "jobs", "pods", "jobs"])],
)
async def test_jobs_are_read_again_only_if_replicas_may_fail(
    fake: FakeCluster, tmp_path: Path, min_replicas: int | None, expected: list[str]
) -> None:
    failing = app("exit $((VC_TASK_INDEX * 3))", replicas=2)
    failing.roles[0].min_replicas = min_replicas
    admin = str(fake.kubeconfig(tmp_path / "admin", "admin"))
    async with KubernetesScheduler("a", kubeconfig=admin, namespaces=["default"]) as scheduler:
        app_id = await scheduler.submit(failing, options("volcano", overlay=SIDECAR))
        await told(scheduler, app_id, AppState.FAILED if min_replicas is None else AppState.SUCCEEDED)

        assert expected == await read_by_list(fake, scheduler)


async def read_by_list(fake: FakeCluster, scheduler: KubernetesScheduler) -> list[str]:
    """List apps; return the kinds of objects that were asked for."""
    fake.run(fake.traffic.requests.clear)
    await scheduler.list()
    paths = fake.run(lambda: [path for _, path in fake.traffic.requests])
    return [path.partition("?")[0].rpartition("/")[2] for path in paths if "/namespaces/" in path]


async def test_without_the_right_to_list_pods_the_jobs_tell(
    fake: FakeCluster, scheduler: KubernetesScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    app_id = await scheduler.submit(app(), options("volcano"))
    for _ in range(2):
        fake.fail("list pods", Fault(error=StatusError(403, "Forbidden", FORBIDDEN), times=2))

        assert {app_id} == {*await listed(scheduler)}
    assert 1 == caplog.text.count("the jobs of the namespace default without their pods: alice may not list")


# From records


def state(jobs: list[JobRecord], *pods: Any) -> AppState:
    told = [(job, AppState.RUNNING) for job in jobs]
    (row,) = rows_of(told, pods)
    return row.state


def kept(replica: int = 0, **more: Any) -> Any:
    return read(a_pod("role0", replica, phase="Running", containerStatuses=LIVES_ON, **more))


def test_only_apps_that_go_on_need_pods() -> None:
    jobs = [volcano("Running", app()), indexed(app(), "Complete")]

    assert {("default", jobs[0].app)} == needs_pods([(jobs[0], AppState.RUNNING), (jobs[1], AppState.SUCCEEDED)])
    assert not needs_pods([(jobs[0], AppState.UNKNOWN)])


def test_pods_of_others_decide_nothing() -> None:
    job = volcano("Running", app())

    assert AppState.RUNNING is state([job], kept(owner="another job"))
    assert AppState.SUCCEEDED is state([job], kept())


def test_where_more_replicas_run_than_the_note_tells_of_the_app_goes_on() -> None:
    """A table does not tell how many tasks a job has, and a request may have been edited."""
    job = replace(volcano("Running", app()), tasks=())

    assert AppState.SUCCEEDED is state([job], kept())
    assert AppState.RUNNING is state([job], kept(), up("role0", 1))
    assert AppState.SUCCEEDED is state([job], kept(), over(0, "role0", 1))


def test_without_a_note_of_its_roles_an_app_is_told_by_its_job() -> None:
    job = replace(volcano("Running", app()), tasks=(), note="")

    assert AppState.RUNNING is state([job], kept())
