"""The control protocol: a detached supervisor outlives an upgrade, and so does a client in a process that runs on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsched import AppDef, AppState, Role
from asyncsched.schedulers import Scheduler, get_scheduler
from tests._support import eventually_blocking
from tests.formats._frozen import HERE, HOME, here, install_home
from tests.formats._talk import Client, Message, OldSupervisor, faults, pairs, start_supervisor, transcript

RUNS_ON = AppDef("long", [Role("worker", "", entrypoint="sleep", args=["3600"], num_replicas=2)])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("ASYNCSCHED_HOME", str(tmp_path / "home"))
    yield tmp_path / "home"
    eventually_blocking(lambda: not list((tmp_path / "home").glob("supervisors/*.sock")))


@pytest.mark.parametrize("way", ["cancel", "kill"])
def test_a_present_client_and_an_old_supervisor(release: str, home: Path, way: str) -> None:
    install_home(release, home, place=here())
    (app,) = (home / "apps").glob("detached-*")
    ended = json.loads((HERE / release / "local" / "detached-ended.json").read_text().replace(HOME, str(home)))
    supervisor = OldSupervisor(release, home, app / "state.json", {**ended, "place": here()})
    path = home / "supervisors" / ended["supervisor"]["socket"]
    supervisor.serve(path)

    async def look() -> None:
        async with get_scheduler("local_cwd", "other") as scheduler:
            states = {row.app_id: row.state for row in await scheduler.list()}
            assert AppState.RUNNING is states[app.name]
            described = await scheduler.describe(app.name)
            assert described is not None
            assert [AppState.RUNNING] * 2 == [each.state for each in described.replicas]
            async with scheduler.watch([app.name]) as watch:
                assert AppState.RUNNING is (await anext(watch)).state
                await (scheduler.cancel(app.name) if way == "cancel" else _kill(scheduler, app.name))
                assert AppState.CANCELLED is [event.state async for event in watch][-1]
            assert ["ready", "ready"] == [line.text async for line in scheduler.log_iter(app.name)]
            await scheduler.delete(app.name)
            assert await scheduler.describe(app.name) is None

    try:
        asyncio.run(look())
    finally:
        supervisor.close()
        path.unlink()
    assert way in [request["op"] for request in supervisor.heard]


async def _kill(scheduler: Scheduler, app_id: str) -> None:
    await scheduler.kill(app_id)  # not in the contract, but local's


def test_an_old_owner_and_a_present_supervisor(release: str, home: Path) -> None:
    """A process that has loaded the old code starts what an upgrade has put in its place."""
    lines = transcript(release, "owner", home)
    said = [line for line in lines if "supervisor" in line]
    answers = {(line["talk"], line["supervisor"].get("re")): line["supervisor"] for line in said}
    (argv, *_) = (line["argv"] for line in lines if "argv" in line)
    clients: dict[int, Client] = {}
    found: list[str] = []
    for talk, request in ((line["talk"], line["client"]) for line in lines if "client" in line):
        if talk not in clients:
            clients[talk] = start_supervisor(argv, home)
        then, now = answers[talk, request["n"]], clients[talk].ask(request)
        while request["op"] == "forget" and now.get("error") == "running":
            now = clients[talk].ask(request)  # as the client does
        if request["op"] != "forget" or "error" not in then:
            found += faults(request, then, now)
    for client in clients.values():
        client.hear_out()
        client.close()

    assert [] == found
    told = {event["app_id"] for client in clients.values() for event in client.events if event["event"] == "app"}
    then = {line["supervisor"]["app_id"] for line in lines if "event" in line.get("supervisor", ())}
    assert then <= told


@pytest.mark.parametrize("end", ["cancel", "kill", ""])
def test_an_old_visitor_and_a_present_supervisor(release: str, home: Path, end: str) -> None:
    name, detach = ("visitor", True) if end else ("others", False)

    async def start_and_play() -> tuple[list[str], list[Message]]:
        async with get_scheduler("local_cwd", "session") as scheduler:
            app_id = await scheduler.submit(RUNS_ON, {"detach": detach})
            (path,) = (home / "supervisors").iterdir()
            return await asyncio.to_thread(_play, transcript(release, name, home), app_id, path, end)

    found, events = asyncio.run(start_and_play())

    assert [] == found
    assert not detach or events


def _play(lines: list[Message], app_id: str, path: Path, end: str) -> tuple[list[str], list[Message]]:
    """Ask all that was asked, of this app; its `end` comes last, and other ways to end it are left out."""
    client = Client.to(path)
    found: list[str] = []
    asked = [pair for pair in pairs(lines) if pair[0]["op"] not in ("cancel", "kill") or not end]
    asked += [next(pair for pair in pairs(lines) if pair[0]["op"] == end)] if end else []
    for number, (request, then) in enumerate(asked):
        app = _app_of(request)
        message = json.loads(json.dumps(request).replace(app, app if app == "nobody" else app_id))
        found += faults(request, {**then, "re": number}, client.ask({**message, "n": number}))
    if end:
        client.hear_out()
    client.close()
    return found, client.events


def _app_of(request: Message) -> str:
    """Return the app that a request is about."""
    named = [request.get("app_id", ""), *request.get("app_ids", ()), request.get("app", {}).get("app_id", ""), "nobody"]
    return next(name for name in named if name)
