"""A server that has just been started refuses for a moment what it allows; what stays refused is told."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from asyncsched.errors import AuthError, PermissionDeniedError, UnavailableError
from asyncsched.schedulers.kubernetes.client_ready import UNSYNCED_FOR
from asyncsched.testing import VirtualClock
from tests.kubernetes._client import TOKEN, connected, kubeconfig, serving, status

PODS = "/api/v1/namespaces/default/pods"
REFUSED = 'pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default"'


class Starting:
    """A server that knows neither roles nor, if so, tokens; `refuses` counts how many more questions that takes.

    Args:
        refuses: So many calls are refused; -1 for ever.
        readyz: What ``/readyz`` answers who has credentials meanwhile; with 401 those without get 403.
        role_is_gone: Whether ``/readyz`` is refused afterwards, too.
    """

    def __init__(self, refuses: int, *, readyz: int = 403, role_is_gone: bool = False) -> None:
        self.refuses, self.readyz, self.role_is_gone = refuses, readyz, role_is_gone
        self.calls = 0

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        has_token = request.headers.get("Authorization") == f"Bearer {TOKEN}"
        knows_tokens = self.readyz != 401
        if request.path == "/readyz":
            if not self.refuses and not self.role_is_gone:
                return web.Response(text="ok")
            if has_token and not knows_tokens:
                return status(401, "Unauthorized")
            return status(403 if self.readyz == 401 else self.readyz, "Forbidden", 'cannot get path "/readyz"')
        self.calls += 1
        if not self.refuses:
            return web.json_response({"n": 1})
        self.refuses -= 1
        return status(403, "Forbidden", REFUSED) if knows_tokens else status(401, "Unauthorized")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config"


@pytest.mark.parametrize("readyz", [403, 500, 401])
async def test_a_call_is_made_again_until_the_server_knows_its_roles(path: Path, readyz: int) -> None:
    """Also the first one of a client: who answers that is there."""
    server = Starting(4, readyz=readyz)

    async with serving(server) as url, connected(kubeconfig(path, url), clock=VirtualClock()) as client:
        assert {"n": 1} == (await client.request("GET", PODS)).json


@pytest.mark.parametrize("readyz", [403, 500, 401])
async def test_a_stream_may_be_opened_again(path: Path, readyz: int) -> None:
    server = Starting(2, readyz=readyz)

    async with serving(server) as url, connected(kubeconfig(path, url), clock=VirtualClock()) as client:
        with pytest.raises(UnavailableError, match="just started") as raised:
            async with client.stream(PODS, {"watch": "true"}):
                pass
        assert raised.value.retryable
        async with client.stream(PODS, {"watch": "true"}) as stream:
            assert 200 == stream.status


@pytest.mark.parametrize("readyz", [403, 401])
async def test_what_stays_refused_is_told_where_nobody_may_ask_whether_the_server_is_ready(
    path: Path, readyz: int
) -> None:
    server, clock = Starting(-1, readyz=readyz, role_is_gone=True), VirtualClock()
    expected = PermissionDeniedError if readyz == 403 else AuthError

    async with serving(server) as url, connected(kubeconfig(path, url), clock=clock) as client:
        began = clock.monotonic()
        with pytest.raises(expected):
            await client.request("GET", PODS)
        assert UNSYNCED_FOR <= clock.monotonic() - began <= 2 * UNSYNCED_FOR
        before = server.calls
        with pytest.raises(expected):
            await client.request("GET", PODS)

    assert server.calls <= before + 2, "it is known by then"


async def test_a_right_that_is_taken_away_is_told_there_too_and_a_later_restart_is_another_matter(path: Path) -> None:
    server, clock = Starting(0, role_is_gone=True), VirtualClock()

    async with serving(server) as url, connected(kubeconfig(path, url), clock=clock) as client:
        for _ in range(2):
            await client.request("GET", PODS)
            server.refuses = -1
            with pytest.raises(UnavailableError):
                async with client.stream(PODS, {"watch": "true"}):
                    pass
            await clock.sleep(UNSYNCED_FOR + 1)
            with pytest.raises(PermissionDeniedError):
                async with client.stream(PODS, {"watch": "true"}):
                    pass
            server.refuses = 0
            async with client.stream(PODS, {"watch": "true"}):
                pass


async def test_what_a_ready_server_refuses_is_told_at_once(path: Path) -> None:
    async def refusing(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text="ok") if request.path == "/readyz" else status(403, "Forbidden", REFUSED)

    clock = VirtualClock()
    async with serving(refusing) as url, connected(kubeconfig(path, url), clock=clock) as client:
        began = clock.monotonic()
        with pytest.raises(PermissionDeniedError, match="alice may not list pods"):
            await client.request("GET", PODS)
        with pytest.raises(PermissionDeniedError, match="alice may not list pods"):
            async with client.stream(PODS, {"watch": "true"}):
                pass
        assert clock.monotonic() - began < 1


async def test_many_calls_that_are_refused_together_are_told_together(path: Path) -> None:
    server = Starting(-1, role_is_gone=True)

    async with serving(server) as url, connected(kubeconfig(path, url), clock=VirtualClock()) as client:
        calls = [client.request("GET", f"{PODS}/{number}") for number in range(20)]
        told = await asyncio.gather(*calls, return_exceptions=True)

    assert [PermissionDeniedError] * 20 == [type(each) for each in told]
