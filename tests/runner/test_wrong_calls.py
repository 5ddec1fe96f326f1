"""Calls that cannot be meant as they are written: each is answered with what was meant.

The answers stand in ``golden/wrong_calls.txt``; ``python -m tests.runner.test_wrong_calls`` writes them anew.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from asyncsched.errors import ConfigError, UsageError
from asyncsched.runner import Runner
from asyncsched.specs import AppDef, AppState, BindMount, Resource, Role
from asyncsched.sync import SyncRunner
from asyncsched.testing import FakeOptions, FakeScheduler
from tests.runner.rig import Rig, app

GOLDEN = Path(__file__).parent / "golden/wrong_calls.txt"
HANDLE = "push://me/job-x1"

Call = Callable[[Any, Any], Any]


CALLS: dict[str, Call] = {
    'run("x")': lambda r, _: r.run("x"),
    "run(role)": lambda r, _: r.run(Role("main", entrypoint="work")),
    "run([app])": lambda r, _: r.run([app()]),
    "run(AppDef)": lambda r, _: r.run(AppDef),
    "run(make_app)": lambda r, _: r.run(app),
    "run(runner.dryrun(app))": lambda r, later: r.run(later(r.dryrun(app()))),
    'run(app, ["push"])': lambda r, _: r.run(app(), ["push"]),
    "run(app, cfg)": lambda r, _: r.run(app(), {"queue": "a"}),
    "run(app, scheduler)": lambda r, _: r.run(app(), FakeScheduler("me")),
    'run(app, "pusch")': lambda r, _: r.run(app(), "pusch"),
    'run(app, cfg="queue=a")': lambda r, _: r.run(app(), cfg="queue=a"),
    "run(app, cfg={1: 2})": lambda r, _: r.run(app(), cfg={1: 2}),
    "run(app, cfg={misspelt})": lambda r, _: r.run(app(), cfg={"priorty": 2}),
    "run(app, cfg={mistyped})": lambda r, _: r.run(app(), cfg={"priority": "2"}),
    "run(app, workspace=Path())": lambda r, _: r.run(app(), workspace=Path()),
    "run(app, key=3)": lambda r, _: r.run(app(), key=3),
    'run(app, key="")': lambda r, _: r.run(app(), key=""),
    'AppDef("x", Role(...))': lambda r, _: r.run(AppDef("x", Role("main"))),  # type: ignore[arg-type]
    'AppDef("x", ["main"])': lambda r, _: r.run(AppDef("x", ["main"])),  # type: ignore[list-item]
    'AppDef("x", "main")': lambda r, _: r.run(AppDef("x", "main")),  # type: ignore[arg-type]
    'AppDef("x")': lambda r, _: r.run(AppDef("x")),
    "AppDef(3)": lambda r, _: r.run(AppDef(3, [Role("main")])),  # type: ignore[arg-type]
    "AppDef(metadata=[])": lambda r, _: r.run(AppDef("x", [Role("main")], [])),  # type: ignore[arg-type]
    'Role("main", "image", "sleep")': lambda r, _: r.run(AppDef("x", [Role("main", "image", "sleep")])),  # type: ignore[arg-type]
    'Role("main")': lambda r, _: r.run(AppDef("x", [Role("main")])),
    'entrypoint="sleep 1"': lambda r, _: r.run(AppDef("x", [Role("main", entrypoint="sleep 1")])),
    'entrypoint="sh -c \'a b"': lambda r, _: r.run(AppDef("x", [Role("main", entrypoint="sh -c 'a b")])),
    'entrypoint=["sleep", "1"]': lambda r, _: r.run(AppDef("x", [Role("main", entrypoint=["sleep", "1"])])),  # type: ignore[arg-type]
    "image=None": lambda r, _: r.run(AppDef("x", [Role("main", None, entrypoint="work")])),  # type: ignore[arg-type]
    'args="-c 1"': lambda r, _: r.run(app(args="-c 1")),
    "args=[1]": lambda r, _: r.run(app(args=[1])),
    'env=["A=1"]': lambda r, _: r.run(app(env=["A=1"])),
    'env={"A": 1}': lambda r, _: r.run(app(env={"A": 1})),
    'num_replicas="2"': lambda r, _: r.run(app(replicas="2")),  # type: ignore[arg-type]
    "num_replicas=0": lambda r, _: r.run(app(replicas=0)),
    'max_retries="2"': lambda r, _: r.run(app(max_retries="2")),
    "max_retries=-1": lambda r, _: r.run(app(max_retries=-1)),
    'retry_policy="replica"': lambda r, _: r.run(app(retry_policy="replica")),
    "resource={...}": lambda r, _: r.run(app(resource={"cpu": 1})),
    'resource="gpu.small"': lambda r, _: r.run(app(resource="gpu.small")),
    "resource=None": lambda r, _: r.run(app(resource=None)),
    'Resource(cpu="1")': lambda r, _: r.run(app(resource=Resource("1", 0, 1))),  # type: ignore[arg-type]
    "Resource(devices=[])": lambda r, _: r.run(app(resource=Resource(1, 0, 1, devices=[]))),  # type: ignore[arg-type]
    "port_map=[80]": lambda r, _: r.run(app(port_map=[80])),
    'port_map={"http": "80"}': lambda r, _: r.run(app(port_map={"http": "80"})),
    "metadata=[]": lambda r, _: r.run(app(metadata=[])),
    'mounts="type=bind"': lambda r, _: r.run(app(mounts="type=bind")),
    'mounts=["type=bind"]': lambda r, _: r.run(app(mounts=["type=bind"])),
    "mounts=BindMount()": lambda r, _: r.run(app(mounts=BindMount("/a", "/b"))),
    "schedule(app)": lambda r, _: r.schedule(app()),
    "schedule(handle)": lambda r, _: r.schedule(HANDLE),
    "schedule(request)": lambda r, _: r.schedule({"image": "a"}),
    "schedule(runner.dryrun(app))": lambda r, later: r.schedule(later(r.dryrun(app()))),
    'run_component("utils.echo", "--msg hi")': lambda r, _: r.run_component("utils.echo", "--msg hi"),
    'run_component("utils.echo", None)': lambda r, _: r.run_component("utils.echo", None),
    'run_component("utils.echo", ["--n", 1])': lambda r, _: r.run_component("utils.echo", ["--n", 1]),
    "run_component(app, [])": lambda r, _: r.run_component(app(), []),
    "run_component(function, [])": lambda r, _: r.run_component(app, []),
    "cancel([h])": lambda r, _: r.cancel([HANDLE]),
    "cancel(None)": lambda r, _: r.cancel(None),
    "cancel(app)": lambda r, _: r.cancel(app()),
    "cancel(bytes)": lambda r, _: r.cancel(HANDLE.encode()),
    "cancel(app_id)": lambda r, _: r.cancel("job-x1"),
    'cancel("http://...")': lambda r, _: r.cancel("http://cluster/a/b"),
    "cancel(runner.run(app))": lambda r, later: r.cancel(later(r.run(app()))),
    "cancel(row)": lambda r, _: _of_first_row(r),
    "cancel(status)": lambda r, _: _of_status(r),
    "status(runner.run(app))": lambda r, later: r.status(later(r.run(app()))),
    "wait(handle, 5)": lambda r, _: r.wait(HANDLE, 5),
    'wait(handle, timeout="5")': lambda r, _: r.wait(HANDLE, timeout="5"),
    "wait(handle, timeout=timedelta(minutes=1))": lambda r, _: r.wait(HANDLE, timeout=timedelta(minutes=1)),
    "wait(handle, timeout=nan)": lambda r, _: r.wait(HANDLE, timeout=float("nan")),
    "wait_all(None)": lambda r, _: r.wait_all(None),
    "wait_all([[handle]])": lambda r, _: r.wait_all([[HANDLE]]),
    "wait_all([runner.run(app)])": lambda r, later: r.wait_all([later(r.run(app()))]),
    "wait_all(stream)": lambda r, _: r.wait_all(r.watch()),
    "watch(3)": lambda r, _: r.watch(3),
    "events(None)": lambda r, _: r.events(None),
    "status_all(3)": lambda r, _: r.status_all(3),
    "cancel_all(3)": lambda r, _: r.cancel_all(3),
    "log_lines(handle, 0)": lambda r, _: r.log_lines(HANDLE, 0),
    "log_lines(handle, [0])": lambda r, _: r.log_lines(HANDLE, [0]),
    'log_lines(handle, k="0")': lambda r, _: r.log_lines(HANDLE, k="0"),
    "log_lines(handle, k=-1)": lambda r, _: r.log_lines(HANDLE, k=-1),
    'log_lines(handle, regex="(")': lambda r, _: r.log_lines(HANDLE, regex="("),
    'log_lines(handle, regex=b"a")': lambda r, _: r.log_lines(HANDLE, regex=b"a"),
    'log_lines(handle, since="1h")': lambda r, _: r.log_lines(HANDLE, since="1h"),
    "log_lines(handle, until=date)": lambda r, _: r.log_lines(HANDLE, until=date(2026, 1, 1)),
    'log_lines(handle, streams="out")': lambda r, _: r.log_lines(HANDLE, streams="out"),
    'log_lines(handle, tail_lines="3")': lambda r, _: r.log_lines(HANDLE, tail_lines="3"),
    "for line in log_lines(handle)": lambda r, _: list(r.log_lines(HANDLE)),
    "with log_lines(handle)": lambda r, _: _entered(r.log_lines(HANDLE)),
    "with runner": lambda r, _: _entered(r),
    'list(states="RUNNING")': lambda r, _: r.list(states="RUNNING"),
    "list(states=AppState.FAILED)": lambda r, _: r.list(states=AppState.FAILED),
    'list(states=["RUNNING"])': lambda r, _: r.list(states=["RUNNING"]),
    'list(since="1h")': lambda r, _: r.list(since="1h"),
    'list(limit="3")': lambda r, _: r.list(limit="3"),
    "list(limit=-1)": lambda r, _: r.list(limit=-1),
    'list(["push"])': lambda r, _: r.list(["push"]),
    "list(group=3)": lambda r, _: r.list(group=3),
    "list(group=group)": lambda r, _: r.list(group=r.group()),
    "scheduler(3)": lambda r, _: r.scheduler(3),
    'Runner("a b/c")': lambda r, _: Runner("a b/c"),
    "Runner(3)": lambda r, _: Runner(3),  # type: ignore[arg-type]
    'Runner("me", ["push"])': lambda r, _: Runner("me", ["push"]),  # type: ignore[arg-type]
    'Runner("me", scheduler)': lambda r, _: Runner("me", FakeScheduler("me")),  # type: ignore[arg-type]
    'Runner("me", {"mine": "push"})': lambda r, _: Runner("me", {"mine": "push"}),  # type: ignore[dict-item]
    'Runner("me", None, ["utils.echo"])': lambda r, _: Runner("me", None, ["utils.echo"]),  # type: ignore[arg-type]
    'Runner("me", region="x")': lambda r, _: Runner("me", region="x"),  # type: ignore[arg-type]
    'Runner("me", {}).run(app)': lambda r, _: Runner("me", {}).run(app()),
    "cancel(job)": lambda r, _: r.cancel(_job(r)),
    "wait_all([job])": lambda r, _: r.wait_all([_job(r)]),
    "run(job)": lambda r, _: r.run(_job(r)),
    "group(limit=0)": lambda r, _: r.group(limit=0),
    'group(limit="8")': lambda r, _: r.group(limit="8"),
    "group(retries=-1)": lambda r, _: r.group(retries=-1),
    "group(timeout=0)": lambda r, _: r.group(timeout=0),
    'group(on_failure="stop")': lambda r, _: r.group(on_failure="stop"),
    "group(max_failures=1.0)": lambda r, _: r.group(max_failures=1.0),
    'group(max_failures=3, on_failure="continue")': lambda r, _: r.group(max_failures=3, on_failure="continue"),
    'group(key="")': lambda r, _: r.group(key=""),
    'group(reuse="all")': lambda r, _: r.group(reuse="all"),
    "group(on_leave=False)": lambda r, _: r.group(on_leave=False),
    "group(keep_logs=3)": lambda r, _: r.group(keep_logs=3),
    'group(keep_logs="a\\0b")': lambda r, _: r.group(keep_logs="a\0b"),
    'group(keep_logs="~nobody-here/logs")': lambda r, _: r.group(keep_logs="~nobody-here/logs"),
    "group(cfg=3)": lambda r, _: r.group(cfg=3),
    'group(cfg="queue=a")': lambda r, _: r.group(cfg="queue=a"),
    "group(cfg=FakeOptions)": lambda r, _: r.group(cfg=FakeOptions),
    "group(workspace=3)": lambda r, _: r.group(workspace=3),
    'group("pusch")': lambda r, _: r.group("pusch"),
    'group(["push"])': lambda r, _: r.group(["push"]),
    "with group": lambda r, _: _entered(r.group()),
    "with job": lambda r, _: _entered(_job(r)),
    "start(handle)": lambda r, _: _started(r, HANDLE),
    "start([app])": lambda r, _: _started(r, [app()]),
    "start(app, cfg={misspelt})": lambda r, _: _started(r, app(), cfg={"priorty": 2}),
    "start(app, cfg={mistyped})": lambda r, _: _started(r, app(), cfg={"priority": "2"}),
    "start(app) of a group with cfg={misspelt}": lambda r, _: _started_of(r.group(cfg={"priorty": 2})),
    "start(app, cfg=3)": lambda r, _: _started(r, app(), cfg=3),
    "start(app, workspace=3)": lambda r, _: _started(r, app(), workspace=3),
    'start(app, name="")': lambda r, _: _started(r, app(), name=""),
    "start(app, name=3)": lambda r, _: _started(r, app(), name=3),
    "start(app, retries=-1)": lambda r, _: _started(r, app(), retries=-1),
    "start(app, timeout=nan)": lambda r, _: _started(r, app(), timeout=float("nan")),
    'start(app, scheduler="pusch")': lambda r, _: _started(r, app(), scheduler="pusch"),
    "start(app, scheduler=3)": lambda r, _: _started(r, app(), scheduler=3),
    "start(app, name) twice": lambda r, _: _started_twice(r),
    "start(app) in a thread": lambda r, _: asyncio.to_thread(r.group().start, app()),
    "group.log_lines(should_tial=True)": lambda r, _: r.group().log_lines(should_tial=True),
    "job(handle)": lambda r, _: r.job(HANDLE),
    "job([app])": lambda r, _: r.job([app()]),
    "job(app, cfg=3)": lambda r, _: r.job(app(), cfg=3),
    "job(app, limit=0)": lambda r, _: r.job(app(), limit=0),
    "run_all(app)": lambda r, _: r.run_all(app()),
    "run_all(None)": lambda r, _: r.run_all(None),
    'run_all("x")': lambda r, _: r.run_all("x"),
    "run_all([handle])": lambda r, _: r.run_all([HANDLE]),
    "run_all([app], limit=0)": lambda r, _: r.run_all([app()], limit=0),
    "run_all([app], cfg={misspelt})": lambda r, _: r.run_all([app()], cfg={"priorty": 2}),
    "scheduler.cancel(handle)": lambda r, _: _scheduler().cancel(HANDLE),
    "scheduler.describe([id])": lambda r, _: _scheduler().describe(["job-x1"]),  # type: ignore[arg-type]
    'scheduler.describe_many("job-x1")': lambda r, _: _scheduler().describe_many("job-x1"),
    "scheduler.watch(None)": lambda r, _: _scheduler().watch(None),  # type: ignore[arg-type]
    "scheduler.log_iter(handle)": lambda r, _: _scheduler().log_iter(HANDLE),
    "scheduler.prune(7)": lambda r, _: _scheduler().prune(7),  # type: ignore[arg-type]
    "scheduler.prune(timedelta(-1))": lambda r, _: _scheduler().prune(timedelta(-1)),
    'scheduler.prune(week, "FAILED")': lambda r, _: _scheduler().prune(timedelta(7), "FAILED"),  # type: ignore[arg-type]
    'scheduler.prune(week, ["FAILED"])': lambda r, _: _scheduler().prune(timedelta(7), ["FAILED"]),  # type: ignore[list-item]
    "scheduler.prune(week, [AppState.RUNNING])": lambda r, _: _scheduler().prune(timedelta(7), [AppState.RUNNING]),
    "scheduler.submit(role)": lambda r, _: _scheduler().submit(Role("main")),  # type: ignore[arg-type]
    'FakeScheduler("a/b")': lambda r, _: FakeScheduler("a/b"),
}


def _scheduler() -> FakeScheduler:
    return FakeScheduler("me")


def _entered(thing: Any) -> None:
    with thing:
        pass


def _job(runner: Any) -> Any:
    return runner.job(app())


async def _started(runner: Any, given: Any, **more: Any) -> None:
    async with runner.group() as group:
        group.start(given, **more)


async def _started_of(group: Any) -> None:
    async with group:
        group.start(app())


async def _started_twice(runner: Any) -> None:
    async with runner.group(limit=1, on_failure="continue") as group:
        try:
            for _ in range(2):
                group.start(app(), name="one")
        finally:
            await group.cancel()


async def _of_first_row(runner: Any) -> None:
    await runner.run(app())
    await runner.cancel((await runner.list())[0])


async def _of_status(runner: Any) -> None:
    await runner.cancel(await runner.status(await runner.run(app())))


async def answer(call: Call) -> str:
    """Make a wrong call and return what is said of it, with the class that says it."""
    made: list[Coroutine[Any, Any, object]] = []

    def later(coroutine: Coroutine[Any, Any, object]) -> Coroutine[Any, Any, object]:
        made.append(coroutine)
        return coroutine

    async with Rig() as rig:
        try:
            result = call(rig.runner, later)
            if inspect.isawaitable(result):
                await result
        except (UsageError, ConfigError) as error:
            return f"{type(error).__name__}: {error}"
        finally:
            for each in made:
                each.close()
    return "nothing was said"


def _rows() -> dict[str, str]:
    lines = GOLDEN.read_text().splitlines()
    return dict(zip(lines[::3], (line.strip() for line in lines[1::3]), strict=True))


@pytest.mark.parametrize("name", CALLS)
async def test_a_wrong_call_is_answered(name: str) -> None:
    assert _rows()[name] == await answer(CALLS[name])


def test_each_row_is_tried() -> None:
    assert list(CALLS) == list(_rows())


async def test_a_call_of_the_blocking_facade_is_answered_in_the_same_words() -> None:
    def call() -> str:
        with SyncRunner("me", {"push": lambda session_name, **_: FakeScheduler(session_name)}) as runner:
            try:
                runner.cancel([HANDLE])  # type: ignore[arg-type]  # that is the point
            except UsageError as error:
                return f"UsageError: {error}"
        return ""

    assert _rows()["cancel([h])"] == await asyncio.to_thread(call)


async def test_the_first_scheduler_is_the_default_one(rig: Rig) -> None:
    handle = await rig.runner.run(app())
    info = await rig.runner.dryrun(app())
    by_component = await rig.runner.run_component("utils.echo", ["--msg", "hi"])

    assert ["push", "push"] == [handle.scheduler, by_component.scheduler]
    assert "push" == (await rig.runner.schedule(info)).scheduler
    assert rig.schedulers["push"] is await rig.runner.scheduler()


def test_local_cwd_is_the_default_where_none_was_given() -> None:
    assert "local_cwd" == Runner("me")._backends.chosen(None)


async def test_a_path_with_a_space_is_a_program(rig: Rig) -> None:
    for path in ("/opt/my tools/run", "./my tool", "${img_root}/my tool"):
        assert await rig.runner.run(AppDef("x", [Role("main", entrypoint=path)]))


if __name__ == "__main__":

    async def _write() -> None:
        rows = [f"{name}\n    {await answer(call)}\n" for name, call in CALLS.items()]
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text("\n".join(rows))

    asyncio.run(_write())
