"""The example service, with real HTTP clients."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from asyncsched.errors import InvalidRequestError, NotFoundError, SchedulerError, UnavailableError
from asyncsched.runner import Runner
from tests._support import WITHIN, eventually
from tests.runner.rig import Rig

SERVICE = Path(__file__).parents[2] / "docs" / "examples" / "service.py"
_spec = importlib.util.spec_from_file_location("service", SERVICE)
assert _spec is not None
assert _spec.loader is not None
service = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(service)


@dataclass
class Site:
    """A service that listens, and a client's session."""

    rig: Rig
    base: str
    session: aiohttp.ClientSession
    runner: web.AppRunner

    async def ask(self, method: str, path: str, data: Any = None) -> tuple[int, Any]:
        async with self.session.request(method, self.base + path, json=data) as response:
            text = await response.text()
            return response.status, json.loads(text) if text else None

    @asynccontextmanager
    async def stream(self, *handles: str) -> AsyncIterator[AsyncGenerator[tuple[str, Any]]]:
        query = [("handle", handle) for handle in handles]
        async with self.session.get(self.base + "/events", params=query) as response:
            assert 200 == response.status
            yield _events(response)


async def _events(response: aiohttp.ClientResponse) -> AsyncGenerator[tuple[str, Any]]:
    kind = ""
    async for raw in response.content:
        line = raw.decode().rstrip("\n")
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield kind, json.loads(line.removeprefix("data: "))


@pytest.fixture
async def site(rig: Rig) -> AsyncGenerator[Site]:
    async with _serving(rig, rig.runner) as site:
        yield site


@pytest.fixture
async def local(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Site]:
    """A service with the processes of this machine."""
    monkeypatch.setenv("ASYNCSCHED_HOME", str(tmp_path))
    async with Runner("me") as runner, _serving(rig, runner) as site:
        yield site


@asynccontextmanager
async def _serving(rig: Rig, jobs: Runner) -> AsyncIterator[Site]:
    runner = web.AppRunner(service.make_service(jobs), handler_cancellation=True, access_log=None)
    await runner.setup()
    listening = web.TCPSite(runner, "127.0.0.1", 0)
    await listening.start()
    patient = aiohttp.ClientTimeout(total=None)  # a busy machine may take longer than its five minutes
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=patient) as session:
        yield Site(rig, f"http://127.0.0.1:{runner.addresses[0][1]}", session, runner)
    await runner.cleanup()


def path(handle: str) -> str:
    return f"/apps/{handle.replace('://', '/')}"


async def test_submit_status_cancel(site: Site) -> None:
    asked = {"name": "hello", "scheduler": "push", "entrypoint": "work", "replicas": 2, "key": "one"}
    code, answer = await site.ask("POST", "/apps", asked)
    handle = answer["handle"]

    assert 201 == code
    assert (201, {"handle": handle}) == await site.ask("POST", "/apps", asked)
    assert (200, "PENDING") == ((found := await site.ask("GET", path(handle)))[0], found[1]["state"])
    assert (202, None) == await site.ask("DELETE", path(handle))
    assert "CANCELLED" == (await site.ask("GET", path(handle)))[1]["state"]
    assert (200, {"apps": [{"handle": handle, "state": "CANCELLED"}], "failures": {}}) == await site.ask("GET", "/apps")


@pytest.mark.parametrize(
    ("method", "where", "data", "code", "told"),
    [
        ("GET", "/apps/push/me/nosuchapp", None, 404, "no app push://me/nosuchapp"),
        ("GET", "/apps/pusch/me/x", None, 400, "did you mean push?"),
        ("GET", "/events?handle=nonsense", None, 400, "is not a handle"),
        ("POST", "/apps", {"name": "x", "scheduler": "push"}, 400, "the request has no 'entrypoint'"),
        ("POST", "/apps", [], 400, "a JSON object"),
        ("POST", "/apps", {"name": "x", "scheduler": 7, "entrypoint": "w"}, 400, "scheduler"),
        ("POST", "/apps", {"name": 7, "scheduler": "push", "entrypoint": "w"}, 400, "name"),
        ("POST", "/apps", {"name": "x", "scheduler": "push", "entrypoint": ["w"]}, 400, "entrypoint"),
        ("POST", "/apps", {"name": "x", "scheduler": "push", "entrypoint": "w", "env": 3}, 400, "env"),
        ("POST", "/apps", {"name": "x", "scheduler": "push", "entrypoint": "w", "args": 3}, 400, "args"),
        ("POST", "/apps", {"name": "x", "scheduler": "push", "entrypoint": "w", "replicas": "2"}, 400, "replicas"),
        ("POST", "/apps", {"name": "x", "scheduler": "push", "entrypoint": "w", "cfg": 3}, 400, "a mapping"),
        ("POST", "/apps", {"name": "x", "scheduler": "push", "entrypoint": "w", "key": 3}, 400, "key"),
        ("POST", "/apps", {"name": "x", "scheduler": "push", "entrypoint": "w", "replicas": 0}, 400, "num_replicas of"),
        ("POST", "/apps", {"name": "x", "scheduler": "push", "entrypoint": "w", "cfg": {"a": 1}}, 400, "run option: a"),
    ],
)
async def test_what_is_wrong_is_told(site: Site, method: str, where: str, data: Any, code: int, told: str) -> None:
    answer = await site.ask(method, where, data)

    assert code == answer[0]
    assert told in answer[1]["error"]


async def test_a_body_that_is_nested_too_deeply(site: Site) -> None:
    async with site.session.post(site.base + "/apps", data="[" * 100_000) as response:
        assert 400 == response.status
        assert "not JSON" in (await response.json())["error"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidRequestError("not found in PATH"), 400),
        (NotFoundError("no image x"), 400),
        (UnavailableError("no answer"), 502),
        (SchedulerError("broken"), 502),
    ],
)
async def test_who_is_to_blame_for_a_refusal(site: Site, error: SchedulerError, code: int) -> None:
    site.rig.push.fail("submit", error)
    asked = {"name": "x", "scheduler": "push", "entrypoint": "w"}

    assert (code, {"error": str(error)}) == await site.ask("POST", "/apps", asked)


@pytest.mark.parametrize(
    "wrong",
    [
        {"entrypoint": "no-such-program"},
        {"entrypoint": "a\0b"},
        {"args": ["a\0b"]},
        {"env": {"A": "a\0b"}},
        {"entrypoint": "a\ud800"},
        {"args": ["a\ud800"]},
        {"env": {"A": "a\ud800"}},
    ],
)
async def test_what_no_program_can_get_is_the_callers_mistake(local: Site, wrong: dict[str, Any]) -> None:
    asked = {"name": "x", "scheduler": "local_cwd", "entrypoint": "true", **wrong}
    code, told = await local.ask("POST", "/apps", asked)

    assert 400 == code, told


async def test_a_stream_of_lines_and_states(site: Site) -> None:
    handle = await site.rig.run("push")
    async with site.stream(handle) as events:
        assert ("state", {"handle": handle, "state": "RUNNING", "gone": False}) == await anext(events)
        site.rig.say(handle, "hello\nwörld")
        lines = [await anext(events), await anext(events)]
        assert [("log", "hello"), ("log", "wörld")] == [(kind, data["text"]) for kind, data in lines]
        assert (handle.app_id, "main", 0) == tuple(lines[0][1][name] for name in ("app_id", "role", "replica"))
        site.rig.exit(handle, 3)
        assert [("state", "FAILED"), ("end", None)] == [(kind, data.get("state")) async for kind, data in events]


async def test_an_app_that_does_not_exist_is_told_in_the_stream(site: Site) -> None:
    async with site.stream("push://me/nosuchapp") as events:
        told = [(kind, data) async for kind, data in events]

    assert ("error", {"message": "no app nosuchapp; list the scheduler's apps to see those that exist"}) == told[-1]


async def test_clients_that_vanish_leave_nothing(site: Site) -> None:
    handle = await site.rig.run("push")
    runner = site.rig.runner
    for _ in range(5):
        async with site.stream(handle) as events:
            await anext(events)
            assert (1, 1) == (runner.statistics().log_streams, runner.statistics().watches)
        await eventually(lambda: (0, 0) == (runner.statistics().log_streams, runner.statistics().watches))

    assert "RUNNING" == (await site.ask("GET", path(handle)))[1]["state"]


async def test_a_shutdown_ends_the_streams_and_not_the_jobs(site: Site) -> None:
    handle = await site.rig.run("push")
    async with site.stream(handle) as events:
        await anext(events)
        async with asyncio.timeout(WITHIN):
            await site.runner.cleanup()
        assert ["error"] == [kind async for kind, _ in events]
    described = await site.rig.schedulers["push"].describe(handle.app_id)

    assert described is not None
    assert "RUNNING" == described.state.name


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_fifty_clients_follow_twenty_apps_and_nothing_is_lost(site: Site) -> None:
    rounds = 5
    # Each polled replica costs each client five calls a second, so that many of them need more the slower the machine.
    handles = [await site.rig.run(scheduler, replicas=8) for scheduler in ["polled", *["push"] * 9] * 2]
    wanted = Counter((handle.app_id, k, f"line {n}") for handle in handles for k in range(8) for n in range(rounds))
    running = asyncio.Event()
    ready = 0

    async def follow() -> tuple[Counter[tuple[str, int, str]], Counter[str]]:
        nonlocal ready
        lines: Counter[tuple[str, int, str]] = Counter()
        states: Counter[str] = Counter()
        async with site.stream(*handles) as events:
            async for kind, data in events:
                if kind == "log":
                    lines[data["app_id"], data["replica"], data["text"]] += 1
                elif kind == "state":
                    states[data["state"]] += 1
                    ready += data["state"] == "RUNNING"
                    if ready == 50 * len(handles):
                        running.set()
        return lines, states

    clients = [asyncio.create_task(follow()) for _ in range(50)]
    begun = asyncio.create_task(running.wait())
    await asyncio.wait([begun, *clients], return_when=asyncio.FIRST_COMPLETED)
    assert begun.done(), "a client has ended before all of them saw all apps run"
    for n in range(rounds):
        for handle in handles:
            site.rig.say(handle, f"line {n}")
            await asyncio.sleep(0)
    for handle in handles:
        site.rig.exit(handle)
        await asyncio.sleep(0)
    for client in clients:
        lines, states = await client

        assert wanted == lines
        assert 20 == states["SUCCEEDED"]
        await asyncio.sleep(0)  # the next comparison is another step
