"""The example service with FastAPI."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest

from asyncsched.errors import InvalidRequestError, NotFoundError, SchedulerError, UnavailableError
from tests.runner.rig import Rig

SERVICE = Path(__file__).parents[2] / "docs" / "examples" / "service_fastapi.py"
APP: dict[str, Any] = {"name": "x", "scheduler": "push", "entrypoint": "w"}


@pytest.fixture
async def client(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[httpx.AsyncClient]:
    spec = importlib.util.spec_from_file_location("service_fastapi", SERVICE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, module.__name__, module)  # its annotations are looked up there
    spec.loader.exec_module(module)
    transport = httpx.ASGITransport(app=module.make_service(rig.runner))
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        yield client


pytestmark = pytest.mark.guard(loop_step=False, blocking=False, reason="FastAPI makes its models in the loop")


async def test_submit_follow_and_status(rig: Rig, client: httpx.AsyncClient) -> None:
    answer = await client.post("/apps", json=APP)
    handle = answer.json()["handle"]
    app_id = handle.rpartition("/")[2]
    rig.push.start(app_id)
    rig.push.say(app_id, "hello\n")
    rig.push.exit(app_id, 3)
    told = (await client.get("/events", params={"handle": handle})).text

    assert 201 == answer.status_code
    assert told.count("event: log") == 1
    assert '"FAILED"' in told
    assert told.rstrip().endswith("event: end\ndata: {}")
    assert "FAILED" == (await client.get("/app", params={"handle": handle})).json()["state"]
    assert 202 == (await client.delete("/app", params={"handle": handle})).status_code


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({}, 422),
        ({**APP, "args": 3}, 422),
        ({**APP, "replicas": 0}, 400),
        ({**APP, "scheduler": "pusch"}, 400),
        ({**APP, "cfg": {"a": 1}}, 400),
    ],
)
async def test_a_mistake_is_the_callers(client: httpx.AsyncClient, asked: dict[str, Any], code: int) -> None:
    assert code == (await client.post("/apps", json=asked)).status_code


@pytest.mark.parametrize("field", ["name", "entrypoint", "scheduler", "key"])
async def test_half_a_character_is_the_callers_mistake(client: httpx.AsyncClient, field: str) -> None:
    answer = await client.post("/apps", content=json.dumps({**APP, field: "a\ud800"}))

    assert answer.status_code in (400, 422)


async def test_a_body_that_is_nested_too_deeply(client: httpx.AsyncClient) -> None:
    assert (await client.post("/apps", content="[" * 100_000)).status_code in (400, 422)


@pytest.mark.parametrize(
    ("error", "code"),
    [(InvalidRequestError("not found in PATH"), 400), (NotFoundError("no image x"), 400), (UnavailableError("x"), 502)],
)
async def test_who_is_to_blame_for_a_refusal(
    rig: Rig, client: httpx.AsyncClient, error: SchedulerError, code: int
) -> None:
    rig.push.fail("submit", error)

    assert code == (await client.post("/apps", json=APP)).status_code


async def test_no_such_app(client: httpx.AsyncClient) -> None:
    assert 404 == (await client.get("/app", params={"handle": "push://me/nosuchapp"})).status_code
    assert 400 == (await client.get("/events", params={"handle": "nonsense"})).status_code
