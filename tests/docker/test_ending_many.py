"""Many apps are cancelled over one list of their containers."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from asyncsched.errors import SchedulerError
from asyncsched.schedulers.docker import DockerScheduler
from asyncsched.schedulers.docker import names as labels
from asyncsched.specs import AppState
from tests._support import eventually
from tests.docker._apps import OBEYS, app, shell
from tests.docker._fake_daemon import FakeDaemon
from tests.docker._proxy import CuttingProxy

COUNT = 1000


@pytest.fixture
async def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeDaemon]:
    daemon = FakeDaemon()
    async with daemon.listening(tmp_path) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        yield daemon


def told_of(daemon: FakeDaemon) -> dict[str, tuple[str, str]]:
    return {key: (each["name"].removeprefix(key), each["state"]) for key, each in daemon.containers.items()}


@pytest.mark.guard(loop_step=False, reason="the daemon shares this loop with the scheduler")
async def test_a_thousand_apps_are_cancelled_over_one_list(fake: FakeDaemon) -> None:
    ids = [f"job-{number}" for number in range(COUNT)]
    for app_id in ids:
        fake.add(app_id)
    fake.add("over", state="exited")
    fake.add("not-meant")

    async with DockerScheduler("session") as scheduler:
        told = await scheduler.cancel_many([*ids, "over", "nobody"])

        assert dict.fromkeys([*ids, "over", "nobody"]) == told
        # Each is asked for by itself whether it has ended: a list tells of that late.
        each = dict.fromkeys(("inspect", "rename", "stop"), COUNT)
        assert {"list": 1, **each} == fake.calls
        await eventually(lambda: [*told_of(fake).values()].count((labels.CANCELLED, "exited")) == COUNT)
        assert ("", "exited") == told_of(fake)["over-worker-0"]
        assert ("", "running") == told_of(fake)["not-meant-worker-0"]


async def test_one_app_is_looked_for_by_its_id(fake: FakeDaemon) -> None:
    fake.add("job")
    fake.add("not-meant")
    async with DockerScheduler("session") as scheduler:
        assert {"job": None} == await scheduler.cancel_many(["job"])
    assert {"list": 1, "inspect": 1, "rename": 1, "stop": 1} == fake.calls


async def test_an_app_whose_submit_goes_on_behind_the_list_is_cancelled_whole(fake: FakeDaemon) -> None:
    fake.add("job")
    fake.add("starting", 0, state="created")

    def go_on() -> None:
        if fake.calls["list"] == 1:
            fake.add("starting", 1)
            fake.containers["starting-worker-0"]["state"] = "running"

    fake.on_listed = go_on
    async with DockerScheduler("session") as scheduler:
        assert {"job": None, "starting": None} == await scheduler.cancel_many(["job", "starting"])
        ended = dict.fromkeys(("job-worker-0", "starting-worker-0", "starting-worker-1"), (labels.CANCELLED, "exited"))
        await eventually(lambda: told_of(fake) == ended)


async def test_a_list_that_cannot_be_had_is_the_answer_for_each_app(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'nobody.sock'}")
    async with DockerScheduler("session") as scheduler:
        told = await scheduler.cancel_many(["one", "two"])
    assert ["one", "two"] == [*told]
    assert all(isinstance(error, SchedulerError) for error in told.values())


@pytest.mark.service("dockerd")
async def test_apps_of_a_daemon_are_cancelled_over_one_list(proxy: CuttingProxy) -> None:
    async with DockerScheduler("session") as submitter, DockerScheduler("another") as scheduler:
        ids = [await submitter.submit(app(shell(OBEYS))) for _ in range(4)]
        await submitter.cancel(ids[0])
        await anext(event async for event in submitter.watch(ids[:1]) if event.is_terminal())
        await scheduler.list()  # that it is connected
        proxy.requests.clear()

        told = await scheduler.cancel_many([*ids, "nobody"])

        made = Counter(kind_of(line) for line in proxy.requests if "/events" not in line)
        async with submitter.watch(ids) as watch:
            ends = {event.app_id: event.state async for event in watch if event.is_terminal()}

    assert dict.fromkeys([*ids, "nobody"]) == told
    assert {"list": 1, "inspect": 3, "rename": 3, "stop": 3} == made
    assert dict.fromkeys(ids, AppState.CANCELLED) == ends


def kind_of(line: str) -> str:
    """Return what a request is called by the counts of `FakeDaemon`."""
    path = line.split()[1].partition("?")[0]
    return "list" if path.endswith("/containers/json") else path.rpartition("/")[2].replace("json", "inspect")
