"""Cancel, delete and prune: one write for each app, few reads, and nothing else is touched."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from asyncsched.clock import Clock, TimerHandle
from asyncsched.errors import ConflictError, PermissionDeniedError, UnavailableError
from asyncsched.schedulers.kubernetes import KubernetesScheduler
from asyncsched.schedulers.kubernetes.ending_commands import AGAIN_AFTER
from asyncsched.specs import AppDef, AppState
from tests._support import eventually
from tests.kubernetes._apps import BOTH, JOB, VOLCANO, app, until
from tests.kubernetes.conftest import OnFake
from tests.kubernetes_fake import FakeCluster
from tests.kubernetes_fake.errors import StatusError, conflict, forbidden, unauthorized
from tests.kubernetes_fake.faults import Fault

pytestmark = pytest.mark.service("kubernetes-fake")  # its pods are processes, in real time

POD = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox", "command": ["sleep", "1000"]}]}
FOREIGN: dict[str, Any] = {
    "jobs": {"suspend": True, "completionMode": "NonIndexed", "template": {"spec": POD}},
    "vcjobs": {
        "minAvailable": 1,
        "schedulerName": "volcano",
        "queue": "default",
        "tasks": [{"name": "a", "replicas": 1, "template": {"spec": POD}}],
    },
}


@BOTH
@pytest.mark.parametrize("roles", [1, 2])
async def test_a_cancelled_app_is_cancelled_for_every_process(
    fake: FakeCluster,
    scheduler: KubernetesScheduler,
    on_fake: OnFake,
    tmp_path: Path,
    cfg: dict[str, Any],
    roles: int,
) -> None:
    fake.pace.longest_grace = 600
    may_end = tmp_path / "may end"
    script = f"trap 'until [ -e \"{may_end}\" ]; do sleep 0.01; done; exit 0' TERM; touch {tmp_path}/ready.$$"
    app_id = await scheduler.submit(app(f"{script}; sleep 1000 & wait", roles=roles), {**cfg, "grace_period": 600})
    await eventually(lambda: roles == len([*tmp_path.glob("ready.*")]))
    await until(scheduler, app_id, AppState.RUNNING)
    fake.pace.reconcile = 0.5  # its controllers take their time

    await scheduler.cancel(app_id)
    async with on_fake() as another:
        first = await another.describe(app_id)
        assert first is not None
        assert (AppState.RUNNING, "cancelling") == (first.state, first.msg)
        fake.pace.reconcile = 0.01
        may_end.touch()
        seen: list[AppState] = []

        async def is_cancelled() -> bool:
            found = await another.describe(app_id)
            seen.append(found.state if found is not None else AppState.UNKNOWN)
            return seen[-1] is AppState.CANCELLED

        told = await scheduler.describe(app_id)
        assert told is not None
        assert told.state.is_terminal() or "cancelling" in told.msg
        await eventually(is_cancelled)

    assert {*seen} <= {AppState.RUNNING, AppState.CANCELLED}


@BOTH
async def test_what_has_ended_or_is_unknown_is_left_alone(
    fake: FakeCluster, scheduler: KubernetesScheduler, cfg: dict[str, Any]
) -> None:
    app_id = await scheduler.submit(app("true"), cfg)
    await until(scheduler, app_id, AppState.SUCCEEDED)
    before = [each for each in fake.traffic.requests if each[0] != "GET"]

    await scheduler.cancel(app_id)
    await scheduler.cancel("default:nosuch")

    assert before == [each for each in fake.traffic.requests if each[0] != "GET"]


class Patient(Clock):
    """A clock on which nobody grows impatient: a machine that is busy needs seconds for what is asked for once."""

    @override
    def call_later(self, delay: float, callback: Callable[[], None]) -> TimerHandle:
        return super().call_later(delay if delay < min(AGAIN_AFTER) else 600.0, callback)


@BOTH
async def test_many_are_cancelled_with_one_write_each_and_few_reads(
    fake: FakeCluster, scheduler: KubernetesScheduler, on_fake: OnFake, cfg: dict[str, Any]
) -> None:
    fake.run(fake.kubelet.creates.clear)  # what runs may end by itself, and what has ended is not cancelled
    ids = [await scheduler.submit(app(), cfg) for _ in range(30)]
    async with on_fake(clock=Patient(), retry_for=600.0) as another:
        before = len(fake.traffic.requests)
        told = await another.cancel_many([*ids, "default:nosuch"])
        requests = fake.traffic.requests[before:]

    assert {None} == {*told.values()}
    assert [*ids, "default:nosuch"] == list(told)
    assert 30 == sum(1 for method, _ in requests if method != "GET")
    assert 4 >= sum(1 for method, _ in requests if method == "GET")


class Stepped(Clock):
    """A clock that stands still until a test moves it; deadlines of requests take as long as ever."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.begun = 0
        self._timers: list[tuple[float, Callable[[], None], list[bool]]] = []

    @override
    def monotonic(self) -> float:
        return self.now

    @override
    def call_later(self, delay: float, callback: Callable[[], None]) -> TimerHandle:
        self.begun += 1
        cancelled: list[bool] = []
        self._timers.append((self.now + delay, callback, cancelled))
        return Cancelled(cancelled)

    @override
    def call_at_latest(self, delay: float, callback: Callable[[], None]) -> TimerHandle:
        return super().call_later(delay, callback)

    def move(self, seconds: float) -> None:
        self.now += seconds
        due = [each for each in self._timers if each[0] <= self.now]
        self._timers = [each for each in self._timers if each[0] > self.now and not each[2]]
        for _, callback, cancelled in due:
            if not cancelled:
                callback()


class Cancelled:
    def __init__(self, told: list[bool]) -> None:
        self._told = told

    def cancel(self) -> None:
        self._told.append(True)


async def test_nothing_is_sent_again_while_a_busy_controller_ends_one_after_the_other(
    fake: FakeCluster, scheduler: KubernetesScheduler, on_fake: OnFake
) -> None:
    """It ends 5 jobs in a second: the last of 200 after 40."""
    fake.run(fake.kubelet.creates.clear)
    ids = await asyncio.gather(*(scheduler.submit(app(), VOLCANO) for _ in range(200)))

    def phases() -> set[str]:
        return {job.get("status", {}).get("state", {}).get("phase", "") for job in fake.store.list("vcjobs")}

    await eventually(lambda: fake.run(phases) == {"Pending"})
    fake.pace.reconcile = 600.0  # each job tells one thing: that it is Aborting
    held: list[Any] = []
    fake.run(lambda: setattr(fake.volcano_jobs, "held", held))
    clock = Stepped()
    async with on_fake(clock=clock, retry_for=8.0) as another:
        before = len(fake.traffic.requests)
        cancel = asyncio.create_task(another.cancel_many(ids))

        def moved(seen: int) -> bool:
            return clock.begun > seen or cancel.done()

        await eventually(lambda: len(held) == 200 and fake.traffic.open["watch vcjobs"])
        while held and not cancel.done():
            seen = clock.begun
            fake.run(lambda: fake.volcano_jobs.read_command(held.pop(0)))
            await eventually(partial(moved, seen))
            clock.move(0.2)
        told = await cancel
        requests = fake.traffic.requests[before:]

    assert {None} == {*told.values()}
    assert 200 == sum(1 for method, _ in requests if method != "GET")
    assert 4 >= sum(1 for method, _ in requests if method == "GET")


def _touch(fake: FakeCluster, kind: str) -> None:
    note = {"touched": "true"}
    fake.store.update(
        kind, fake.store.list(kind)[0], lambda obj: obj["metadata"].setdefault("annotations", {}).update(note)
    )


async def test_looks_at_a_slow_controller_open_no_further_watch(
    fake: FakeCluster, scheduler: KubernetesScheduler, on_fake: OnFake
) -> None:
    """It reads one Command at each look, and ends no job meanwhile."""
    fake.run(fake.kubelet.creates.clear)
    ids = [await scheduler.submit(app(), VOLCANO) for _ in range(6)]
    held: list[Any] = []
    fake.run(lambda: setattr(fake.volcano_jobs, "held", held))
    clock = Stepped()
    async with on_fake(clock=clock, retry_for=600.0) as another:
        before = len(fake.traffic.requests)
        cancel = asyncio.create_task(another.cancel_many(ids))
        await eventually(lambda: len(held) == 6 and fake.traffic.open["watch vcjobs"])
        opened = clock.begun
        fake.run(lambda: _touch(fake, "vcjobs"))
        await eventually(
            lambda: clock.begun > opened
        )  # it reads the watch: a stop while it is opened would open another
        looks, seen = fake.traffic.calls["list commands"], clock.begun
        clock.move(20)
        await eventually(lambda: fake.traffic.calls["list commands"] > looks and clock.begun > seen)
        while held:
            fake.run(lambda: fake.volcano_jobs.read_command(held.pop(0)))
        assert {None} == {*(await cancel).values()}
        requests = [path for method, path in fake.traffic.requests[before:] if method == "GET"]

    assert 1 == sum(1 for path in requests if "watch=" in path)
    assert not any("batch/v1/" in path for path in requests), "all of them are Volcano's"


async def test_a_cancel_is_told_by_the_watch_that_there_is(fake: FakeCluster, scheduler: KubernetesScheduler) -> None:
    fake.run(fake.kubelet.creates.clear)
    ids = [await scheduler.submit(app(), VOLCANO) for _ in range(6)]
    async with scheduler.watch(ids) as watch:
        await anext(watch)
        await eventually(lambda: fake.traffic.open["watch vcjobs"])
        before = len(fake.traffic.requests)
        assert {None} == {*(await scheduler.cancel_many(ids[1:])).values()}
        requests = [path for method, path in fake.traffic.requests[before:] if method == "GET"]
        await scheduler.cancel(ids[0])
        ended = {event.app_id: event.state async for event in watch}

    assert {AppState.CANCELLED} == {*ended.values()}
    assert 1 == fake.traffic.most_open["watch vcjobs"]
    assert [] == [path for path in requests if "watch=" in path and "batch.volcano" in path]


async def test_a_job_that_is_removed_while_its_end_is_watched_is_not_waited_for(
    fake: FakeCluster, scheduler: KubernetesScheduler
) -> None:
    app_id = await scheduler.submit(app(), VOLCANO)
    held: list[Any] = []
    fake.run(lambda: setattr(fake.volcano_jobs, "held", held))
    async with scheduler.watch([app_id]) as watch:
        await anext(watch)
        await eventually(lambda: fake.traffic.open["watch vcjobs"])
        cancel = asyncio.create_task(scheduler.cancel(app_id))
        await eventually(lambda: held)
        fake.run(lambda: fake.owners.delete("vcjobs", fake.store.list("vcjobs")[0]))
        await cancel


async def test_a_command_that_is_still_there_is_not_sent_again(fake: FakeCluster, on_fake: OnFake) -> None:
    """That Volcano takes Commands away is progress, too: it has them in mind."""
    clock = Stepped()
    async with on_fake() as scheduler, on_fake(clock=clock, retry_for=80.0) as another:
        ids = [await scheduler.submit(app(), VOLCANO) for _ in range(3)]
        held: list[Any] = []
        fake.run(lambda: setattr(fake.volcano_jobs, "held", held))
        cancel = asyncio.create_task(another.cancel_many(ids))
        await eventually(lambda: len(held) == 3 and fake.traffic.open["watch vcjobs"])

        async def look() -> None:
            looks, seen = fake.traffic.calls["list commands"], clock.begun
            clock.move(max(AGAIN_AFTER))
            await eventually(lambda: fake.traffic.calls["list commands"] > looks and clock.begun > seen)

        await look()
        assert 3 == len(held)
        fake.run(lambda: setattr(fake.volcano_jobs, "loses", 1))
        fake.run(lambda: fake.volcano_jobs.read_command(held.pop(0)))
        await look()
        assert 2 == len(held)
        await look()
        await eventually(lambda: len(held) == 3)
        while held:
            fake.run(lambda: fake.volcano_jobs.read_command(held.pop(0)))
        assert {None} == {*(await cancel).values()}


async def test_a_role_that_may_not_list_commands_has_lost_ones_sent_again(
    fake: FakeCluster, scheduler: KubernetesScheduler
) -> None:
    fake.fail("list commands", Fault(error=forbidden("alice", "list", "commands.bus.volcano.sh", "default"), times=-1))
    app_id = await scheduler.submit(app(), VOLCANO)
    fake.run(lambda: setattr(fake.volcano_jobs, "loses", 1))

    await scheduler.cancel(app_id)

    assert 2 <= fake.traffic.calls["create commands"]


async def test_a_command_that_volcano_has_lost_is_sent_again(fake: FakeCluster, scheduler: KubernetesScheduler) -> None:
    """It removes a Command before it does what that says."""
    app_id = await scheduler.submit(app(), VOLCANO)
    await until(scheduler, app_id, AppState.RUNNING)
    fake.run(lambda: setattr(fake.volcano_jobs, "loses", 1))

    await scheduler.cancel(app_id)

    await until(scheduler, app_id, AppState.CANCELLED)
    assert 2 <= fake.traffic.calls["create commands"]


async def test_a_cancel_is_not_passed_over_while_volcano_restarts_the_job(
    fake: FakeCluster, scheduler: KubernetesScheduler, tmp_path: Path
) -> None:
    """The first replica fails once the second one ends as slowly as it wants."""
    fake.pace.longest_grace = 600
    ready, go = tmp_path / "ready", tmp_path / "go"
    fails = f"until [ -e {ready} ]; do sleep 0.01; done; [ -e {go} ] || exit 3"
    waits = f"trap 'until [ -e {go} ]; do sleep 0.01; done; exit 1' TERM; touch {ready}"
    slow = app(f"if [ $VC_TASK_INDEX = 0 ]; then {fails}; else {waits}; fi; sleep 1000 & wait").roles[0]
    slow.num_replicas, slow.max_retries = 2, 5
    app_id = await scheduler.submit(AppDef("app", [slow]), {**VOLCANO, "grace_period": 600})

    def phases() -> list[str]:
        jobs = fake.run(lambda: fake.store.list("vcjobs"))
        return [job.get("status", {}).get("state", {}).get("phase", "") for job in jobs]

    await eventually(lambda: phases() == ["Restarting"])
    cancel = asyncio.create_task(scheduler.cancel(app_id))
    await eventually(lambda: fake.traffic.calls["create commands"])
    await eventually(lambda: not fake.run(lambda: fake.store.list("commands")))  # it was passed over
    go.touch()
    await cancel

    assert phases()[0] in ("Aborting", "Aborted")
    await until(scheduler, app_id, AppState.CANCELLED)


class Fast(Clock):
    """A clock that runs sixty times as fast, and whose deadlines take as long as ever: what is under way has time."""

    @override
    def monotonic(self) -> float:
        return super().monotonic() * 60

    @override
    def call_later(self, delay: float, callback: Callable[[], None]) -> TimerHandle:
        return super().call_later(delay / 60, callback)

    @override
    def call_at_latest(self, delay: float, callback: Callable[[], None]) -> TimerHandle:
        return super().call_later(delay, callback)


async def test_a_cancel_that_volcano_does_not_take_up_is_an_error(fake: FakeCluster, on_fake: OnFake) -> None:
    async with on_fake(clock=Fast()) as scheduler:
        ids = [await scheduler.submit(app(), VOLCANO) for _ in range(4)]
        fake.run(lambda: setattr(fake.volcano_jobs, "loses", -1))

        with pytest.raises(UnavailableError, match="has not started to end"):
            await scheduler.cancel(ids[0])
        told = await scheduler.cancel_many(ids)
    assert {UnavailableError} == {type(error) for error in told.values()}


async def test_a_job_that_goes_while_it_is_cancelled_is_not_waited_for(
    fake: FakeCluster, scheduler: KubernetesScheduler
) -> None:
    app_id = await scheduler.submit(app(), VOLCANO)
    fake.fail("create commands", Fault(slow=0.3))
    cancel = asyncio.create_task(scheduler.cancel(app_id))
    await eventually(lambda: fake.traffic.calls["create commands"])
    fake.run(lambda: fake.owners.delete("vcjobs", fake.store.list("vcjobs")[0]))

    await cancel
    assert await scheduler.describe(app_id) is None


@BOTH
async def test_a_server_that_has_just_started_refuses_nothing_for_good(
    fake: FakeCluster, scheduler: KubernetesScheduler, cfg: dict[str, Any]
) -> None:
    """It knows neither users nor roles in its first second, and says so; a cancel must not delete the job then."""
    app_id = await scheduler.submit(app(), cfg)
    await until(scheduler, app_id, AppState.RUNNING)
    async with scheduler.watch([app_id]) as watch:
        await anext(watch)
        fake.starting = 4
        fake.cut()

        await scheduler.cancel(app_id)
        states = [event.state async for event in watch]

    assert AppState.CANCELLED == states[-1]


@pytest.mark.parametrize("knows", ["the user", "nobody"])
@pytest.mark.parametrize(("cfg", "refused"), [(VOLCANO, "create commands"), (JOB, "patch jobs")])
async def test_a_refusal_of_a_server_that_is_ready_a_moment_later_removes_no_job(
    fake: FakeCluster, scheduler: KubernetesScheduler, cfg: dict[str, Any], refused: str, knows: str
) -> None:
    """It may become ready between its refusal and the question whether it is: what it says then counts."""
    app_id = await scheduler.submit(app(), cfg)
    await until(scheduler, app_id, AppState.RUNNING)
    verb, _, kind = refused.partition(" ")
    fake.fail(refused, forbidden("alice", verb, kind, "default") if knows == "the user" else unauthorized())

    await scheduler.cancel(app_id)

    await until(scheduler, app_id, AppState.CANCELLED)


async def test_a_job_that_its_controller_writes_at_the_same_moment_is_suspended_all_the_same(
    fake: FakeCluster, scheduler: KubernetesScheduler
) -> None:
    app_id = await scheduler.submit(app(), JOB)
    await until(scheduler, app_id, AppState.RUNNING)
    fake.fail("patch jobs", Fault(error=conflict("jobs.batch", app_id.partition(":")[2]), times=2))

    await scheduler.cancel(app_id)

    await until(scheduler, app_id, AppState.CANCELLED)


@pytest.mark.parametrize(("cfg", "refused"), [(VOLCANO, "create commands"), (JOB, "patch jobs")])
async def test_where_it_may_not_be_ended_it_is_removed(
    fake: FakeCluster, scheduler: KubernetesScheduler, cfg: dict[str, Any], refused: str
) -> None:
    app_id = await scheduler.submit(app(), cfg)
    verb, _, kind = refused.partition(" ")
    fake.fail(refused, Fault(error=forbidden("alice", verb, kind, "default"), times=-1))

    await scheduler.cancel(app_id)

    assert await scheduler.describe(app_id) is None
    await eventually(lambda: not fake.run(lambda: fake.store.list("pods")))


@BOTH
async def test_only_what_has_ended_is_deleted(
    fake: FakeCluster, scheduler: KubernetesScheduler, tmp_path: Path, cfg: dict[str, Any]
) -> None:
    script = f"until [ -e {tmp_path}/go ]; do sleep 0.01; done"
    app_id = await scheduler.submit(app(script, roles=2), cfg)
    with pytest.raises(ConflictError, match="cancel it first"):
        await scheduler.delete(app_id)
    (tmp_path / "go").touch()
    await until(scheduler, app_id, AppState.SUCCEEDED)

    await scheduler.delete(app_id)
    await scheduler.delete(app_id)

    assert await scheduler.describe(app_id) is None
    await eventually(lambda: not fake.run(lambda: [*fake.store.list("pods"), *fake.store.list("jobs")]))


async def test_prune_takes_what_ended_long_ago(scheduler: KubernetesScheduler) -> None:
    ended = [await scheduler.submit(app("true"), cfg) for cfg in (VOLCANO, JOB)]
    runs = [await scheduler.submit(app(), cfg) for cfg in (VOLCANO, JOB)]
    for app_id in ended:
        await until(scheduler, app_id, AppState.SUCCEEDED)

    assert [] == await scheduler.prune(timedelta(hours=1))
    assert {*ended} == {*await scheduler.prune(timedelta(0))}
    assert {*runs} == {row.app_id for row in await scheduler.list()}


@pytest.mark.parametrize("kind", ["jobs", "vcjobs"])
async def test_a_job_of_others_that_is_labelled_with_its_own_name_is_not_ours(
    fake: FakeCluster, scheduler: KubernetesScheduler, kind: str
) -> None:
    """Only a submit of ours writes the annotation with the digest of what was asked for."""
    foreign = {name: f"default:{name}" for name in ("one", "two", "three")}
    for name in foreign:
        metadata = {"labels": {"asyncsched/app": name}, "annotations": {"asyncsched/roles": "[]"}}
        fake.create(kind, name, metadata=metadata, spec=FOREIGN[kind])
    writes = [each for each in fake.traffic.requests if each[0] != "GET"]

    assert [] == await scheduler.list()
    assert {None} == {await scheduler.describe(app_id) for app_id in foreign.values()}
    await scheduler.cancel(foreign["one"])
    assert dict.fromkeys(foreign.values()) == await scheduler.cancel_many(foreign.values())
    await scheduler.delete(foreign["one"])
    assert [] == await scheduler.prune(timedelta(0))
    async with scheduler.watch([foreign["one"]]) as watch:
        assert [AppState.UNKNOWN] == [event.state async for event in watch]
    assert writes == [each for each in fake.traffic.requests if each[0] != "GET"]


async def test_a_job_of_others_with_the_name_of_an_app_makes_no_second_row(
    fake: FakeCluster, scheduler: KubernetesScheduler
) -> None:
    app_id = await scheduler.submit(app(), VOLCANO)
    name = app_id.partition(":")[2]
    fake.create("jobs", name, metadata={"labels": {"asyncsched/app": name}}, spec=FOREIGN["jobs"])

    assert [app_id] == [row.app_id for row in await scheduler.list()]


class Stopwatch(Clock):
    """A clock whose timers of `LIMIT` are over when a test says so."""

    LIMIT = 977.0

    def __init__(self) -> None:
        self.limits: list[Callable[[], None]] = []

    @override
    def call_later(self, delay: float, callback: Callable[[], None]) -> TimerHandle:
        if delay == self.LIMIT:
            self.limits.append(callback)
        return super().call_later(delay, callback)


@BOTH
async def test_an_app_that_does_not_start_in_time_has_failed(
    fake: FakeCluster, on_fake: OnFake, cfg: dict[str, Any]
) -> None:
    clock = Stopwatch()
    fake.pace.second_of_deadline = 1 / clock.LIMIT  # Volcano looks at the time itself
    async with on_fake(clock=clock) as scheduler:
        limit: dict[str, Any] = {"pending_timeout": clock.LIMIT, "node_selector": {"zone": "moon"}}
        app_id = await scheduler.submit(app(), {**cfg, **limit})
        await eventually(lambda: "Unschedulable" in str(fake.run(lambda: fake.store.list("pods"))))
        await eventually(lambda: cfg == VOLCANO or clock.limits)
        for expire in clock.limits:
            expire()

        found = await until(scheduler, app_id, *(state for state in AppState if state.is_terminal()))

    assert (AppState.FAILED, "unschedulable") == (found.state, found.cause)


@pytest.mark.parametrize("timed", [{}, {"pending_timeout": 60}])
async def test_an_app_whose_pods_are_refused_until_volcano_gives_up_tells_what_refused_them(
    fake: FakeCluster, scheduler: KubernetesScheduler, on_fake: OnFake, timed: dict[str, Any]
) -> None:
    said = 'pods "x" is forbidden: exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0'
    fake.pod_refusal = lambda pod: StatusError(403, "Forbidden", said)
    app_id = await scheduler.submit(app(), {**VOLCANO, **timed})

    await until(scheduler, app_id, AppState.FAILED)
    async with on_fake() as another:
        found, watched = await another.describe(app_id), [event async for event in another.watch([app_id])]

    assert found is not None
    assert (AppState.FAILED, "quota", f"its pods are refused: {said}") == (found.state, found.cause, found.msg)
    assert found == watched[-1].current


@pytest.mark.parametrize("tail", [False, True])
async def test_nothing_is_missing_of_pods_that_were_refused(
    fake: FakeCluster, scheduler: KubernetesScheduler, on_fake: OnFake, *, tail: bool
) -> None:
    fake.pod_refusal = lambda pod: StatusError(403, "Forbidden", "pods is forbidden: exceeded quota: none")
    app_id = await scheduler.submit(app(), VOLCANO)

    await until(scheduler, app_id, AppState.FAILED)
    async with on_fake() as another:  # what comes to read it late
        lines = [line async for line in another.log_iter(app_id, should_tail=tail)]

    assert [] == [(line, line.gap) for line in lines]


@BOTH
async def test_an_app_that_starts_in_time_runs_on(scheduler: KubernetesScheduler, cfg: dict[str, Any]) -> None:
    app_id = await scheduler.submit(app("sleep 0.2"), {**cfg, "pending_timeout": 600})

    await until(scheduler, app_id, AppState.SUCCEEDED)
    await eventually(lambda: not scheduler._limits._tasks)


async def test_lists_look_where_they_are_told(fake: FakeCluster, tmp_path: Path) -> None:
    fake.create("namespaces", "lab", "", status={"phase": "Active"})
    admin = str(fake.kubeconfig(tmp_path / "admin", "admin"))
    async with (
        KubernetesScheduler("a", kubeconfig=admin) as one,
        KubernetesScheduler("b", kubeconfig=admin, namespaces="lab") as lab,
        KubernetesScheduler("c", kubeconfig=admin, namespaces="*") as every,
    ):
        ids = [await one.submit(app(), {**JOB, "namespace": space}) for space in ("default", "lab")]

        assert {*ids} == {row.app_id for row in await one.list()}
        assert [ids[1]] == [row.app_id for row in await lab.list()]
        assert {*ids} == {row.app_id for row in await every.list()}


async def test_a_namespace_without_rights_is_told_beside_the_rows(
    fake: FakeCluster, on_fake: OnFake, caplog: pytest.LogCaptureFixture
) -> None:
    async with on_fake("a", namespaces=["default", "secret"]) as both, on_fake("b", namespaces=["secret"]) as none:
        app_id = await both.submit(app(), JOB)

        assert [app_id] == [row.app_id for row in await both.list()]
        assert "the list omits the namespace secret: alice may not list" in caplog.text
        with pytest.raises(PermissionDeniedError, match="in the namespace secret"):
            await none.list()


async def test_a_submit_that_is_refused_leaves_nothing_to_be_told(
    scheduler: KubernetesScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(PermissionDeniedError, match=r"alice may not create jobs\.batch in the namespace secret"):
        await scheduler.submit(app(), {**JOB, "namespace": "secret"})

    assert "left behind" not in caplog.text


@BOTH
async def test_an_app_whose_programs_have_ended_is_not_cancelled_because_its_job_goes_on(
    scheduler: KubernetesScheduler, cfg: dict[str, Any]
) -> None:
    """A sidecar keeps the job, and the end of a job is told later than that of its pods."""
    sidecar = {"name": "beside", "image": "busybox", "command": ["sleep", "1000"]}
    overlay = json.dumps({"spec": {"containers": [sidecar]}})
    app_id = await scheduler.submit(app("true"), {**cfg, "overlay": overlay})
    await until(scheduler, app_id, AppState.SUCCEEDED)
    others = [f"default:nosuchapp-x{number}" for number in range(5)]

    assert dict.fromkeys([app_id, *others]) == await scheduler.cancel_many([app_id, *others])
    found = await scheduler.describe(app_id)
    assert found is not None
    assert (AppState.SUCCEEDED, "") == (found.state, found.msg)


@pytest.mark.parametrize("volcano", [False, True])
@pytest.mark.parametrize("may_use_volcano", [False, True])
async def test_jobs_are_cancelled_whatever_there_is_of_volcano(
    tmp_path: Path, volcano: bool, may_use_volcano: bool
) -> None:
    """A kind that is not there is told by 404 to those with a right to it, and by 403 to others."""
    with FakeCluster(volcano=volcano) as fake:
        if not may_use_volcano:
            rules = fake.rights.rules["alice"]
            fake.rights.rules["alice"] = tuple(rule for rule in rules if not rule.group.endswith("volcano.sh"))
        path = str(fake.kubeconfig(tmp_path / "config"))
        async with KubernetesScheduler("session", kubeconfig=path) as scheduler:
            ids = [await scheduler.submit(app(), JOB) for _ in range(4)]
        async with KubernetesScheduler("another", kubeconfig=path) as another:
            assert dict.fromkeys(ids) == await another.cancel_many(ids)
            assert dict.fromkeys(ids) == await another.cancel_many(ids)
            for app_id in ids:
                await until(another, app_id, AppState.CANCELLED)
        assert [] == fake.faults()
