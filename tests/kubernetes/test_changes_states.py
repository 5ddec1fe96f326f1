"""Many watched apps cost one list and one watch for each resource, and no request for each."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from asyncsched.clock import Clock
from asyncsched.errors import InvalidRequestError, PermissionDeniedError, UnknownAppError
from asyncsched.schedulers.kubernetes import KubernetesScheduler
from asyncsched.schedulers.kubernetes.changes_states import LOOK_AGAIN, Turns
from asyncsched.specs import AppState
from tests._support import eventually
from tests.kubernetes._apps import JOB, VOLCANO, app
from tests.kubernetes._client import Ahead
from tests.kubernetes.conftest import OnFake
from tests.kubernetes_fake import FakeCluster
from tests.kubernetes_fake.errors import no_such_path
from tests.kubernetes_fake.faults import Fault

pytestmark = pytest.mark.service("kubernetes-fake")  # its pods are processes, in real time

ENDED = AppState.SUCCEEDED
CONTAINER = {"name": "theirs", "image": "busybox"}
POD = {"containers": [CONTAINER], "nodeSelector": {"zone": "moon"}, "restartPolicy": "Never"}
FOREIGN: dict[str, Any] = {
    "jobs": {"suspend": True, "completionMode": "NonIndexed", "template": {"spec": POD}},
    "vcjobs": {
        "minAvailable": 1,
        "schedulerName": "volcano",
        "queue": "default",
        "tasks": [{"name": "a", "replicas": 1, "template": {"spec": POD}}],
    },
    "pods": POD,
}


def reads(fake: FakeCluster) -> int:
    return sum(1 for method, path in fake.traffic.requests if method == "GET" and "watch=" not in path)


@pytest.mark.parametrize("cfg", [VOLCANO, JOB], ids=["volcano", "job"])
async def test_a_watch_sees_an_app_to_its_end(scheduler: KubernetesScheduler, cfg: dict[str, Any]) -> None:
    app_id = await scheduler.submit(app("sleep 0.2", replicas=2), cfg)

    states = [event.state async for event in scheduler.watch([app_id])]

    assert ENDED == states[-1]
    assert sorted({*states}, key=states.index) == [state for state in AppState if state in states]


async def test_200_apps_are_watched_by_one_watch_for_each_resource(
    fake: FakeCluster, scheduler: KubernetesScheduler, tmp_path: Path
) -> None:
    watches = [f"watch {kind}" for kind in ("jobs", "vcjobs", "pods", "podgroups")]
    script = f"until [ -e {tmp_path}/go ]; do sleep 0.1; done"
    ids = [await scheduler.submit(app(script), JOB) for _ in range(20)]
    for number in range(180):
        _waiting_job(fake, f"waits-{number}")
    ids += [f"default:waits-{number}" for number in range(180)]
    before = reads(fake)

    async with scheduler.watch(ids) as changes:
        ended = 0
        async for event in changes:
            if not (tmp_path / "go").exists():
                await eventually(lambda: all(fake.traffic.open[each] for each in watches))
                (tmp_path / "go").touch()
            ended += event.state is ENDED
            if ended == 20:
                break

    assert {1} == {fake.traffic.most_open[each] for each in watches}
    assert reads(fake) - before < 60


async def test_apps_that_volcano_has_made_no_group_for_are_asked_about_by_no_request_each(
    fake: FakeCluster, scheduler: KubernetesScheduler
) -> None:
    fake.run(fake.store.listeners.clear)  # no controller is there to make PodGroups
    ids = [await scheduler.submit(app("true"), VOLCANO) for _ in range(10)]
    for app_id in ids:
        job = fake.run(partial(fake.store.get, "vcjobs", "default", app_id.partition(":")[2]))
        fake.run(partial(fake.change, "vcjobs", job, lambda each: each.update(status={"state": {"phase": "Pending"}})))

    assert {AppState.PENDING} == {app.state for app in (await scheduler.describe_many(ids)).values() if app}
    async with scheduler.watch(ids) as changes:
        seen: set[str] = set()
        async for event in changes:
            seen.add(event.app_id)
            if len(seen) == len(ids):
                break

    assert 0 == fake.traffic.calls["get podgroups"]


def test_many_apps_that_wait_are_looked_at_some_at_a_time() -> None:
    """All at once they would hold up what is told of others: a thousand take some tenths of a second."""
    clock = Stepped()
    turns, apps = Turns(clock), [f"default:app-{number}" for number in range(1000)]
    for app_id in apps:
        turns.add(app_id)
    looks: list[tuple[float, list[str]]] = []
    while clock.now + turns.pause < 4 * LOOK_AGAIN:
        clock.now += turns.pause
        looks.append((clock.now, turns.take()))

    assert 100 == max(len(taken) for _, taken in looks)
    times = {app_id: [at for at, taken in looks if app_id in taken] for app_id in apps}
    assert {3} == {len(found) for found in times.values()}
    assert {LOOK_AGAIN} == {later - at for found in times.values() for at, later in pairwise(found)}
    assert 1.5 * LOOK_AGAIN >= max(found[0] for found in times.values())


def test_an_app_has_its_turn_while_it_waits() -> None:
    clock = Stepped()
    turns = Turns(clock)
    assert (LOOK_AGAIN, []) == (turns.pause, turns.take())
    turns.add("first")
    clock.now = 2.0
    turns.add("second")
    turns.add("first")
    assert LOOK_AGAIN - 2 == turns.pause
    turns.discard("first")
    assert LOOK_AGAIN == turns.pause
    clock.now = LOOK_AGAIN + 2
    assert ["second"] == turns.take()
    turns.clear()
    clock.now *= 2
    assert [] == turns.take()


class Stepped(Clock):
    """Stands where a test has put it."""

    now = 0.0

    @override
    def monotonic(self) -> float:
        return self.now


def _waiting_job(fake: FakeCluster, name: str) -> None:
    labels = {"asyncsched/app": name, "asyncsched/kind": "job", "asyncsched/role": "role"}
    container = {"name": "main", "image": "busybox", "command": ["true"]}
    template = {"metadata": {"labels": labels}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"suspend": True, "completions": 1, "parallelism": 1, "completionMode": "Indexed", "template": template}
    fake.create("jobs", name, metadata={"labels": labels, "annotations": {"asyncsched/request": "d"}}, spec=spec)


@pytest.mark.parametrize("cfg", [VOLCANO, JOB], ids=["volcano", "job"])
async def test_an_app_of_another_process_is_described_in_two_requests(
    fake: FakeCluster, scheduler: KubernetesScheduler, on_fake: OnFake, cfg: dict[str, Any]
) -> None:
    """Also by the first call there: its pods tell of which kind it is."""
    app_id = await scheduler.submit(app("sleep 1000", replicas=10), cfg)

    async def runs() -> bool:
        found = await scheduler.describe(app_id)
        return found is not None and {AppState.RUNNING} == {each.state for each in found.replicas}

    await eventually(runs)
    async with on_fake() as another:
        before = len(fake.traffic.requests)
        found = await another.describe(app_id)

    assert found is not None
    assert 10 == len(found.replicas)
    assert 2 == len(fake.traffic.requests) - before


async def test_what_came_while_the_watch_was_cut_is_told(fake: FakeCluster, scheduler: KubernetesScheduler) -> None:
    ids = [await scheduler.submit(app("sleep 0.5"), cfg) for cfg in (VOLCANO, JOB)]

    async def watched() -> dict[str, AppState]:
        return {event.app_id: event.state async for event in scheduler.watch(ids)}

    def go_on() -> bool:
        return {"Succeeded"} != {pod.get("status", {}).get("phase") for pod in fake.store.list("pods")}

    watching = asyncio.ensure_future(watched())
    while fake.run(go_on):  # cut for ever, a watch might never come to tell anything
        fake.cut("watch .*")
        await asyncio.sleep(0.1)

    assert dict.fromkeys(ids, ENDED) == await watching


async def test_a_server_that_has_just_started_ends_neither_tails_nor_watches(
    fake: FakeCluster, scheduler: KubernetesScheduler, tmp_path: Path
) -> None:
    """Until it knows its roles it refuses everything, the question whether it is ready included."""
    gate = tmp_path / "gate"
    script = f"echo begun; while [ ! -e {gate} ]; do sleep 0.05; done; echo done"
    app_ids = [await scheduler.submit(app(script), JOB) for _ in range(4)]
    lines: dict[str, list[str]] = {app_id: [] for app_id in app_ids}

    async def tail(app_id: str) -> None:
        async for line in scheduler.log_iter(app_id, should_tail=True):
            lines[app_id].append(line.text)

    async def watch(app_id: str) -> AppState:
        async with scheduler.watch([app_id]) as changes:
            return [event.state async for event in changes][-1]

    async with asyncio.TaskGroup() as group:
        for app_id in app_ids:
            group.create_task(tail(app_id))
        watches = [group.create_task(watch(app_id)) for app_id in app_ids]
        await eventually(lambda: all(lines.values()))
        fake.starting = 24
        fake.cut()
        await eventually(lambda: not fake.starting)
        gate.touch()

    assert [["begun", "done"]] * 4 == [*lines.values()]
    assert [ENDED] * 4 == [task.result() for task in watches]


async def test_an_app_does_not_fall_back_where_its_pods_are_told_later_than_its_job(
    fake: FakeCluster, scheduler: KubernetesScheduler
) -> None:
    _waiting_job(fake, "first")
    fake.fail("watch jobs", Fault(slow=4.0, pause=0.6))  # one change after the other
    fake.fail("watch pods", Fault(slow=3600.0, times=-1))

    async with scheduler.watch(["default:first"]) as others:
        await anext(others)  # jobs and pods were listed; what comes now is told by watches, that of the jobs first
        app_id = await scheduler.submit(app("sleep 1000"), JOB)

        async def runs() -> bool:
            found = await scheduler.describe(app_id)
            return found is not None and found.state is AppState.RUNNING

        await eventually(runs)

        async def watched() -> list[AppState]:
            return [event.state async for event in scheduler.watch([app_id])]

        watching = asyncio.ensure_future(watched())
        await eventually(lambda: fake.traffic.open["watch jobs"])  # it tells of the job, which has no pods yet
        await asyncio.sleep(0.5)  # in which nothing is to be said of it
        await scheduler.cancel(app_id)
        states = await watching

    assert [*sorted(states)] == states


async def test_an_app_that_is_removed_is_gone(fake: FakeCluster, scheduler: KubernetesScheduler) -> None:
    app_id = await scheduler.submit(app("sleep 1000"), VOLCANO)
    name = app_id.partition(":")[2]

    async with scheduler.watch([app_id]) as changes:
        await anext(changes)
        fake.run(lambda: fake.store.remove("vcjobs", fake.store.get("vcjobs", "default", name)))
        events = [event async for event in changes]

    assert events[-1].gone


async def test_a_namespace_without_rights_fails_its_own_apps_only(scheduler: KubernetesScheduler) -> None:
    app_id = await scheduler.submit(app("sleep 0.2"), JOB)

    with pytest.raises(PermissionDeniedError, match="in the namespace secret"):
        async for _ in scheduler.watch(["secret:app"]):
            pass
    assert ENDED == [event.state async for event in scheduler.watch([app_id])][-1]


async def test_foreign_objects_are_left_alone(fake: FakeCluster, scheduler: KubernetesScheduler) -> None:
    for number, labels in enumerate(
        [{"asyncsched/app": ""}, {"asyncsched/app": "x" * 63}, {"asyncsched/app": "app", "asyncsched/kind": "else"}, {}]
    ):
        for kind in ("jobs", "vcjobs", "pods"):
            metadata = {"labels": labels, "annotations": {"asyncsched/roles": "["}}
            fake.create(kind, f"foreign-{number}", metadata=metadata, spec=FOREIGN[kind])
    app_id = await scheduler.submit(app("true"), VOLCANO)

    assert ENDED == [event.state async for event in scheduler.watch([app_id])][-1]
    assert app_id in [row.app_id for row in await scheduler.list()]
    assert await scheduler.describe("default:foreign-3") is None
    writes = [path for method, path in fake.traffic.requests if method != "GET"]
    assert [] == [path for path in writes if "foreign" in path]


async def test_a_volcano_of_another_version_is_none(fake: FakeCluster, scheduler: KubernetesScheduler) -> None:
    """Its jobs are served under another version, and what is asked of ours is not found."""
    fake.create("vcjobs", "foreign", metadata={"labels": {"asyncsched/app": "foreign"}}, spec=FOREIGN["vcjobs"])
    fake.fail("discover /apis/batch.volcano.sh/v1alpha1", Fault(error=no_such_path(), times=-1))
    fake.fail(".* (vcjobs|podgroups)", Fault(error=no_such_path(), times=-1))
    app_id = await scheduler.submit(app("true"))

    assert ENDED == [event.state async for event in scheduler.watch([app_id])][-1]
    assert [app_id] == [row.app_id for row in await scheduler.list()]
    with pytest.raises(InvalidRequestError, match=r"has no Volcano.*install Volcano, or use kind=job"):
        await scheduler.submit(app("true"), VOLCANO)


async def test_the_wait_for_a_pod_that_fits_nowhere_is_told_to_watchers(
    fake: FakeCluster, scheduler: KubernetesScheduler
) -> None:
    app_id = await scheduler.submit(app("true"), {**JOB, "node_selector": {"zone": "moon"}})

    async with scheduler.watch([app_id]) as changes:
        async for event in changes:
            if event.current is not None and "affinity/selector" in event.current.msg:
                break

    assert event.current is not None
    assert "unschedulable" == event.current.cause


async def test_slow_events_hold_up_no_state(fake: FakeCluster, on_fake: OnFake, tmp_path: Path) -> None:
    """They are read beside the states of their namespace."""
    gate = tmp_path / "gate"
    clock = Ahead()
    async with on_fake(clock=clock) as scheduler:
        fits_nowhere = await scheduler.submit(app("true"), {**JOB, "node_selector": {"zone": "moon"}})
        runs = await scheduler.submit(app(f"until [ -e {gate} ]; do sleep 0.05; done"), JOB)
        fake.fail("list events", Fault(slow=600.0, times=-1))
        async with scheduler.watch([fits_nowhere, runs]) as watch:
            await anext(watch)
            clock.ahead += 60.0
            async with asyncio.timeout(60):
                async for event in watch:
                    if fake.traffic.calls["list events"]:
                        gate.touch()
                    if event.app_id == runs and event.state is ENDED:
                        break
                    if event.app_id == runs and event.state is AppState.RUNNING:
                        await eventually(lambda: fake.traffic.calls["list events"])
                        gate.touch()
        assert 1 == fake.traffic.calls["list events"]


async def test_an_unknown_app_is_told_with_the_cluster_that_was_asked(
    fake: FakeCluster, scheduler: KubernetesScheduler
) -> None:
    with pytest.raises(UnknownAppError, match=rf"no app default:nosuch in {fake.url} \(context fake\)"):
        async for _ in scheduler.log_iter("default:nosuch"):
            pass
    assert f"{fake.url} (context fake)" == scheduler.place
