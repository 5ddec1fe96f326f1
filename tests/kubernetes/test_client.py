"""Calls: deadlines, retries, credentials that are renewed, streams that keep nothing waiting."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from kubernetes_asyncio.client import ApiClient, Configuration

from asyncsched.clock import Clock
from asyncsched.errors import (
    AuthError,
    ClosedError,
    ConflictError,
    NotFoundError,
    ThrottledError,
    UnavailableError,
)
from asyncsched.schedulers.kubernetes.client import AT_ONCE, LARGE_BODY, KubeClient
from asyncsched.schedulers.kubernetes.client_config import ConfigSource
from asyncsched.schedulers.kubernetes.client_wire import TLS_OF_CALL, TLS_OF_STREAM
from asyncsched.schedulers.kubernetes.errors import failure_of
from asyncsched.testing import VirtualClock
from tests._support import eventually, held_import
from tests.kubernetes._client import TOKEN, connected, kubeconfig, serving, status
from tests.kubernetes_fake.certificates import server_context

PODS = "/api/v1/namespaces/default/pods"


class Script:
    """Answers requests one after the other, the last answer again and again."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.requests: list[web.BaseRequest] = []

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, type) or answer is None:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        return answer(request) if callable(answer) else web.json_response(answer)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config"


# What is sent


async def test_a_call_has_credentials_and_our_name(path: Path) -> None:
    script = Script({"kind": "Pod"})

    async with serving(script) as url, connected(kubeconfig(path, url)) as client:
        answer = await client.request("POST", PODS, query={"dryRun": "All"}, body={"a": "ü"}, content_type="text/x")
        shown = repr(client)

    assert (200, {"kind": "Pod"}) == (answer.status, answer.json)
    sent = script.requests[0]
    assert f"Bearer {TOKEN}" == sent.headers["Authorization"]
    assert sent.headers["User-Agent"].startswith("asyncsched/")
    assert "text/x" == sent.headers["Content-Type"]
    assert f"{PODS}?dryRun=All" == sent.path_qs
    assert TOKEN not in shown
    assert url in shown


async def test_nothing_of_a_token_is_logged(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    script = Script(lambda _: status(401, "Unauthorized"))

    async with serving(script) as url, connected(kubeconfig(path, url)) as client:
        with pytest.raises(AuthError) as raised:
            await client.request("GET", PODS)

    assert TOKEN not in caplog.text
    assert TOKEN not in repr(raised.value) + str(raised.value)


# Trying again


@pytest.mark.parametrize("first", [None, lambda _: status(503), lambda _: status(500, message="etcd is away")])
async def test_a_read_is_tried_again(path: Path, first: Any) -> None:
    script = Script(first, {"n": 1})

    async with serving(script) as url, connected(kubeconfig(path, url)) as client:
        assert {"n": 1} == (await client.request("GET", PODS)).json

    assert 2 == len(script.requests)


async def test_a_write_is_sent_once_unless_it_may_be_repeated(path: Path) -> None:
    script = Script(None, None, {"n": 1})

    async with serving(script) as url, connected(kubeconfig(path, url)) as client:
        with pytest.raises(UnavailableError):
            await client.request("POST", PODS, body={})
        assert 1 == len(script.requests)
        assert {"n": 1} == (await client.request("POST", PODS, body={}, idempotent=True)).json


async def test_what_was_refused_for_the_moment_is_sent_again_after_the_pause_that_is_asked_for(path: Path) -> None:
    refused = web.Response(status=429, text="Too many requests", headers={"Retry-After": "40"})
    script = Script(lambda _: refused, {"n": 1})
    clock = VirtualClock()

    async with serving(script) as url, connected(kubeconfig(path, url), clock=clock) as client:
        began = clock.monotonic()
        assert {"n": 1} == (await client.request("POST", PODS, body={})).json
        assert clock.monotonic() - began >= 40


async def test_it_gives_up_in_time(path: Path) -> None:
    script = Script({}, lambda _: web.Response(status=429))
    clock = VirtualClock()

    async with serving(script) as url, connected(kubeconfig(path, url), clock=clock, retry_for=30) as client:
        await client.request("GET", PODS)
        began = clock.monotonic()
        with pytest.raises(ThrottledError):
            await client.request("GET", PODS)
        assert 30 <= clock.monotonic() - began < 60


async def test_a_server_that_was_never_there_is_given_up_soon(path: Path, unused_port: int) -> None:
    clock = VirtualClock()

    async with connected(kubeconfig(path, f"http://127.0.0.1:{unused_port}"), clock=clock) as client:
        began = clock.monotonic()
        with pytest.raises(UnavailableError, match=r"\(context here\) did not answer: .*check that the cluster runs"):
            await client.request("GET", PODS)
        assert clock.monotonic() - began < 15


async def test_a_server_that_is_not_there_is_told_without_objects_of_python(path: Path, unused_port: int) -> None:
    async with connected(kubeconfig(path, f"https://127.0.0.1:{unused_port}"), clock=VirtualClock()) as client:
        with pytest.raises(UnavailableError, match=rf"Cannot connect to host 127\.0\.0\.1:{unused_port} \[[^<>]*$"):
            await client.request("GET", PODS)


@pytest.fixture
def unused_port() -> Iterator[int]:
    """A port that nobody listens on, and that nobody else can take meanwhile."""
    import socket

    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])


async def test_each_call_has_a_deadline(path: Path) -> None:
    over = asyncio.Event()

    async def silent(_: web.BaseRequest) -> web.Response:
        await over.wait()
        return web.Response()

    async with serving(silent) as url, connected(kubeconfig(path, url), request_timeout=0.1) as client:
        with pytest.raises(UnavailableError, match="no answer in time"):
            await client.request("POST", PODS, body={})
        over.set()


async def test_half_an_answer_is_no_answer(path: Path) -> None:
    script = Script(lambda _: web.Response(text='{"items": [{}'))

    async with serving(script) as url, connected(kubeconfig(path, url), retry_for=0) as client:
        for asked in (client.request("GET", PODS), client.page(PODS, lambda item: item)):
            with pytest.raises(UnavailableError, match="not the expected JSON"):
                await asked


# Lists


@pytest.mark.parametrize("count", [3, 2000])
async def test_a_page_is_read_item_by_item(path: Path, count: int) -> None:
    items = [{"metadata": {"name": f"pod-{number}"}, "spec": "x" * 300} for number in range(count)]
    body = {"kind": "PodList", "metadata": {"resourceVersion": "7", "continue": "next"}, "items": items}
    assert (len(json.dumps(body)) > LARGE_BODY) == (count == 2000)

    async with serving(Script(body)) as url, connected(kubeconfig(path, url)) as client:
        page = await client.page(PODS, lambda item: item["metadata"]["name"])

    assert ([f"pod-{number}" for number in range(count)], "7", "next") == page


async def test_a_list_that_expires_while_it_is_read_is_read_in_one_piece(path: Path) -> None:
    def page(*names: str, rest: str = "") -> dict[str, Any]:
        return {"metadata": {"resourceVersion": "7", "continue": rest}, "items": [{"name": name} for name in names]}

    script = Script(page("a", rest="x"), page("b", rest="y"), lambda _: status(410, "Expired"), page("a", "b", "c"))

    async with serving(script) as url, connected(kubeconfig(path, url)) as client:
        found = await client.items(PODS, lambda item: item["name"])

    assert ["a", "b", "c"] == found.items
    assert [("500", None), ("500", "x"), ("500", "y"), (None, None)] == [
        (each.query.get("limit"), each.query.get("continue")) for each in script.requests
    ]


# Credentials


def plugin(folder: Path, lines: str) -> Path:
    program = folder / "plugin"
    program.write_text(f"#!/bin/sh\necho run >> {folder}/runs\n{lines}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def credential(token: str = "$1", expires: datetime | None = None) -> str:
    told = {"token": token, **({"expirationTimestamp": expires.isoformat()} if expires else {})}
    return json.dumps({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": told})


def runs(folder: Path) -> int:
    return (folder / "runs").read_text().count("run")


async def test_an_exec_plugin_is_run_once_for_many_calls(path: Path, tmp_path: Path) -> None:
    plugin(tmp_path, f"head -c 200000 /dev/zero >&2; echo '{credential('t1')}'")
    script = Script({})
    user = {"exec": {"command": "./plugin", "apiVersion": "client.authentication.k8s.io/v1"}}

    async with serving(script) as url, connected(kubeconfig(path, url, user=user)) as client:
        await asyncio.gather(*(client.request("GET", PODS) for _ in range(20)))

    assert 1 == runs(tmp_path)
    assert {"Bearer t1"} == {each.headers["Authorization"] for each in script.requests}


async def test_an_exec_plugin_is_run_again_before_its_token_expires(path: Path, tmp_path: Path) -> None:
    clock = VirtualClock()
    expires = datetime.fromtimestamp(clock.time_ns() / 1e9, UTC) + timedelta(hours=1)
    plugin(tmp_path, f"echo '{credential('t', expires)}'")
    user = {"exec": {"command": "./plugin", "apiVersion": "client.authentication.k8s.io/v1"}}

    async with serving(Script({})) as url, connected(kubeconfig(path, url, user=user), clock=clock) as client:
        await client.request("GET", PODS)
        await clock.sleep(54 * 60)
        await client.request("GET", PODS)
        assert 1 == runs(tmp_path)
        await clock.sleep(2 * 60)
        await client.request("GET", PODS)
        assert 2 == runs(tmp_path)


async def test_a_refused_token_is_renewed_once_for_all(path: Path, tmp_path: Path) -> None:
    plugin(tmp_path, f"echo '{credential('tNUMBER')}' | sed s/NUMBER/$(grep -c run {tmp_path}/runs)/")
    user = {"exec": {"command": "./plugin", "apiVersion": "client.authentication.k8s.io/v1"}}
    valid = "Bearer t1"

    async def check(request: web.BaseRequest) -> web.Response:
        return web.json_response({}) if request.headers.get("Authorization") == valid else status(401, "Unauthorized")

    async with serving(check) as url, connected(kubeconfig(path, url, user=user)) as client:
        await client.request("GET", PODS)
        valid = "Bearer t2"
        await asyncio.gather(*(client.request("GET", PODS) for _ in range(20)))
        assert 2 == runs(tmp_path)
        valid = "Bearer none"
        with pytest.raises(AuthError):
            await client.request("GET", PODS)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("echo sesame; exit 3", "exit code 3"),
        ("echo please sign in >&2; exit 1", "please sign in"),
        ('echo \'{"token": "sesame"}\'', "its answer is not an ExecCredential"),
        ("echo sesame", "its answer is not an ExecCredential"),
    ],
)
async def test_a_plugin_that_tells_nothing_is_named(path: Path, tmp_path: Path, lines: str, said: str) -> None:
    plugin(tmp_path, lines)
    user = {"exec": {"command": "./plugin", "apiVersion": "client.authentication.k8s.io/v1"}}

    async with connected(kubeconfig(path, "http://127.0.0.1:9", user=user)) as client:
        with pytest.raises(AuthError, match=said) as raised:
            await client.request("GET", PODS)

    assert "sesame" not in str(raised.value)


async def test_a_plugin_that_is_not_installed_says_how_to_get_it(path: Path) -> None:
    user = {"exec": {"command": "no-such-plugin-17", "installHint": "brew install it"}}

    async with connected(kubeconfig(path, "http://127.0.0.1:9", user=user)) as client:
        with pytest.raises(AuthError, match="no such program; brew install it"):
            await client.request("GET", PODS)


async def test_a_file_with_a_token_is_read_again(path: Path, tmp_path: Path) -> None:
    clock, script = VirtualClock(), Script({})
    (tmp_path / "token").write_text("t1\n")

    async with (
        serving(script) as url,
        connected(kubeconfig(path, url, user={"tokenFile": "token"}), clock=clock) as client,
    ):
        await client.request("GET", PODS)
        (tmp_path / "token").write_text("t2\n")
        await client.request("GET", PODS)
        await clock.sleep(61)
        await client.request("GET", PODS)

    assert ["Bearer t1", "Bearer t1", "Bearer t2"] == [each.headers["Authorization"] for each in script.requests]


async def test_a_pod_sends_its_token_and_the_one_that_replaces_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    valid = "t1"

    async def answer(request: web.BaseRequest) -> web.Response:
        seen.append(request.headers["Authorization"])
        return web.json_response({}) if seen[-1] == f"Bearer {valid}" else status(401, "Unauthorized")

    (tmp_path / "token").write_text("t1")
    async with tls_server(answer) as (port, authority):
        (tmp_path / "ca.crt").write_bytes(authority)
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(port))
        client = KubeClient(ConfigSource(service_account=tmp_path), clock=Clock())
        await client.request("GET", PODS)
        valid = "t2"
        (tmp_path / "token").write_text("t2")
        await client.request("GET", PODS)
        await client.close()

    assert ["Bearer t1", "Bearer t1", "Bearer t2"] == seen


async def test_a_client_of_the_callers_is_used_and_not_closed() -> None:
    script = Script({})
    renewals: list[str] = []

    async with serving(script) as url:
        configuration = Configuration(host=url)
        configuration.api_key = {"BearerToken": "Bearer theirs"}
        configuration.refresh_api_key_hook = lambda _: renewals.append("renewed")
        async with ApiClient(configuration) as theirs:
            client = KubeClient(ConfigSource(client=theirs), clock=Clock())
            await client.request("GET", PODS)
            await client.close()
            assert not theirs.rest_client.pool_manager.closed

    assert "Bearer theirs" == script.requests[0].headers["Authorization"]
    assert ["renewed"] == renewals


@pytest.fixture
def blocking_sdk() -> Any:
    return pytest.importorskip("kubernetes.client", reason="the package kubernetes is not installed")


async def test_a_blocking_client_of_the_callers_is_used_in_the_same_way(blocking_sdk: Any) -> None:
    script = Script({})
    renewals: list[threading.Thread] = []

    async with serving(script) as url:
        configuration = blocking_sdk.Configuration(host=url)
        configuration.api_key = {"authorization": "Bearer theirs"}
        configuration.refresh_api_key_hook = lambda _: renewals.append(threading.current_thread())
        theirs = blocking_sdk.ApiClient(configuration, header_name="X-Team", header_value="lab")
        client = KubeClient(ConfigSource(client=theirs), clock=Clock())
        await client.request("GET", PODS)
        await client.close()

    assert ("Bearer theirs", "lab") == tuple(script.requests[0].headers[name] for name in ("Authorization", "X-Team"))
    assert 1 == len(renewals)
    assert threading.main_thread() not in renewals


async def test_a_configuration_that_tells_its_token_without_awaiting_is_asked_in_a_thread() -> None:
    script = Script({})
    asked: list[threading.Thread] = []

    class Blocking(Configuration):
        def get_api_key_with_prefix(self, identifier: str, alias: str | None = None) -> Any:
            asked.append(threading.current_thread())
            return "Bearer theirs"

    class Client:
        configuration: Any = None

    async with serving(script) as url:
        Client.configuration = Blocking(host=url)
        client = KubeClient(ConfigSource(client=Client()), clock=Clock())
        await client.request("GET", PODS)
        await client.close()

    assert "Bearer theirs" == script.requests[0].headers["Authorization"]
    assert [False] == [each is threading.main_thread() for each in asked]


class tls_server:  # noqa: N801 - it reads as a function
    """A server with a certificate of an authority of its own."""

    def __init__(self, handler: Any) -> None:
        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            return await handler(request)

        self._runner = web.ServerRunner(web.Server(handle), shutdown_timeout=0.1)

    async def __aenter__(self) -> tuple[int, bytes]:
        context, authority = server_context()
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context).start()
        return int(self._runner.addresses[0][1]), authority

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()


async def test_a_certificate_of_another_authority_is_refused_and_a_replaced_one_is_found(path: Path) -> None:
    async with tls_server(Script({})) as (port, authority):
        url = f"https://127.0.0.1:{port}"
        async with connected(kubeconfig(path, url)) as client:
            with pytest.raises(AuthError, match="no trusted connection"):
                await client.request("GET", PODS)
            inline = {"certificate-authority-data": base64.b64encode(authority).decode()}
            kubeconfig(path, url, cluster=inline)
            await eventually(lambda: _answers(client))


async def _answers(client: KubeClient) -> bool:
    try:
        await client.request("GET", PODS)
    except AuthError:
        return False
    return True


# Streams


async def _slowly(request: web.BaseRequest) -> web.StreamResponse:
    if request.path.endswith("/log"):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"line\n")
        await eventually(lambda: request.transport is None or request.transport.is_closing(), within=600)
        return response
    return web.json_response({})


async def test_streams_never_keep_a_call_waiting(path: Path) -> None:
    async with serving(_slowly) as url, connected(kubeconfig(path, url)) as client, AsyncExitStack() as open_ones:
        for _ in range(2 * AT_ONCE + 120):
            stream = await open_ones.enter_async_context(client.stream(f"{PODS}/x/log"))
            assert b"line\n" == await stream.read_chunk()
        assert {} == (await client.request("GET", PODS)).json
        assert 2 * AT_ONCE + 120 == client.streams


async def test_a_stream_ends_or_breaks(path: Path) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"line\n")
        if request.query.get("cut"):
            await eventually(lambda: read)
            assert request.transport is not None
            request.transport.abort()
        return response

    read: list[bytes] = []
    async with serving(answer) as url, connected(kubeconfig(path, url)) as client:
        async with client.stream(PODS) as stream:
            assert [b"line\n", b""] == [await stream.read_chunk(), await stream.read_chunk()]
        async with client.stream(PODS, {"cut": "1"}) as stream:
            read.append(await stream.read_chunk())
            with pytest.raises(UnavailableError, match="did not answer"):
                await stream.read_chunk()
        assert 0 == client.streams


async def test_a_stream_that_is_refused_raises_with_the_refusal(path: Path) -> None:
    script = Script(lambda _: status(400, "BadRequest", "is waiting to start"), lambda _: web.Response(status=204))

    async with serving(script) as url, connected(kubeconfig(path, url)) as client:
        with pytest.raises(Exception, match="is waiting to start") as raised:
            async with client.stream(PODS):
                pass
        failure = failure_of(raised.value)
        assert failure is not None
        assert 400 == failure.code
        async with client.stream(PODS) as stream:
            assert (204, b"") == (stream.status, await stream.read_chunk())


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="it shows the timers of connections")
async def test_a_stream_that_is_silent_asks_whether_its_peer_is_there(path: Path) -> None:
    """Nothing comes over the log of a quiet container: only TCP can tell a peer that has nothing to say from none."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"x")
        await looked.wait()
        return response

    looked = asyncio.Event()

    async with serving(answer) as url, connected(kubeconfig(path, url)) as client:
        port = f":{int(url.rpartition(':')[2]):04X}"
        async with client.stream(PODS) as stream:
            assert b"x" == await stream.read_chunk()
            rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
            looked.set()
            timers = [row[5].partition(":")[0] for row in rows if row[2].endswith(port) and row[3] == "01"]

    assert ["02"] == timers, "of keep-alive"


@pytest.mark.one_loop
async def test_a_connection_holds_little_for_tls(path: Path) -> None:
    """A loop holds 256 KiB for each, which would be most of what a thousand open logs take; uvloop's stays as it is."""
    async with tls_server(Script({})) as (port, authority):
        inline = {"certificate-authority-data": base64.b64encode(authority).decode()}
        async with connected(kubeconfig(path, f"https://127.0.0.1:{port}", cluster=inline)) as client:
            await client.request("GET", PODS)
            async with client.stream(PODS):
                assert client._sessions is not None
                held = [_held_for_tls(session.connector) for session in client._sessions]

    assert [[TLS_OF_CALL], [TLS_OF_STREAM]] == held


def _held_for_tls(connector: Any) -> list[int]:
    """Return the sizes of the buffers for TLS of the connections that are open."""
    idle = [protocol for them in connector._conns.values() for protocol, _ in them]
    return [protocol.transport._ssl_protocol.max_size for protocol in [*idle, *connector._acquired]]


async def test_a_slow_reader_stops_the_server(path: Path) -> None:
    written = 0

    async def flood(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal written
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65536)
            written += 65536

    async with serving(flood) as url, connected(kubeconfig(path, url)) as client:
        async with client.stream(PODS) as stream:
            await stream.read_chunk()
            before = -1
            while before != written:  # until nothing moves any more
                before = written
                await asyncio.sleep(0.2)
            waiting = len(stream._response.content._buffer)

    assert waiting <= 16


# The cluster


async def test_kinds_are_told_by_discovery_and_asked_for_once(path: Path) -> None:
    clock = VirtualClock()

    async def answer(request: web.BaseRequest) -> web.Response:
        asked.append(request.path)
        if "volcano" in request.path:
            return web.Response(status=404, text="404 page not found\n")
        return web.json_response({"resources": [{"name": "jobs"}, {"name": "jobs/status"}]})

    asked: list[str] = []
    async with serving(answer) as url, connected(kubeconfig(path, url), clock=clock) as client:
        for _ in range(3):
            assert await client.discovery.has("batch/v1", "jobs")
            assert not await client.discovery.has("batch.volcano.sh/v1alpha1", "jobs")
        assert 2 == len(asked)
        await clock.sleep(61)
        assert not await client.discovery.has("batch.volcano.sh/v1alpha1", "jobs")
        assert 3 == len(asked)


async def test_the_version_is_read_once(path: Path) -> None:
    script = Script({"major": "1", "minor": "34+", "gitVersion": "v1.34.4"})

    async with serving(script) as url, connected(kubeconfig(path, url)) as client:
        assert (1, 34) == await client.discovery.version() == await client.discovery.version()

    assert 1 == len(script.requests)


async def test_many_who_ask_for_the_version_and_what_there_is_share_one_answer(path: Path) -> None:
    script = Script(
        {"major": "1", "minor": "34", "resources": [{"name": "jobs"}]},
        {"major": "1", "minor": "34", "resources": [{"name": "jobs"}]},
    )

    async with serving(script) as url, connected(kubeconfig(path, url)) as client:
        gone = asyncio.ensure_future(client.discovery.version())
        await asyncio.sleep(0)
        versions = asyncio.gather(*(client.discovery.version() for _ in range(20)))
        found = asyncio.gather(*(client.discovery.has("batch/v1", "jobs") for _ in range(20)))
        await asyncio.sleep(0)
        gone.cancel()
        assert {(1, 34)} == {*await versions}
        assert {True} == {*await found}

    assert 2 == len(script.requests)


async def test_many_who_ask_for_a_group_share_one_answer_which_is_good_for_a_minute(path: Path) -> None:
    clock = VirtualClock()
    script = Script({"kind": "APIGroup"})

    async with serving(script) as url, connected(kubeconfig(path, url), clock=clock) as client:
        assert {True} == {*await asyncio.gather(*(client.discovery.has_group("kueue.x-k8s.io") for _ in range(1000)))}
        assert await client.discovery.has_group("kueue.x-k8s.io")
        assert 1 == len(script.requests)
        await clock.sleep(61)
        assert await client.discovery.has_group("kueue.x-k8s.io")

    assert 2 == len(script.requests)


async def test_a_group_that_was_not_there_is_found_as_soon_as_it_is(path: Path) -> None:
    script = Script(lambda _: status(404, "NotFound"), {"kind": "APIGroup"})

    async with serving(script) as url, connected(kubeconfig(path, url)) as client:
        absent = await asyncio.gather(*(client.discovery.has_group("kueue.x-k8s.io") for _ in range(20)))
        assert {False} == {*absent}
        assert await client.discovery.has_group("kueue.x-k8s.io")

    assert 2 == len(script.requests)


async def test_a_closed_client_says_so(path: Path) -> None:
    async with serving(Script({})) as url, connected(kubeconfig(path, url)) as client:
        await client.close()
        with pytest.raises(ClosedError):
            await client.request("GET", PODS)


async def test_a_client_that_is_closed_while_it_opens_opens_nothing(path: Path) -> None:
    async with serving(Script({})) as url, connected(kubeconfig(path, url)) as client:
        with held_import("aiohttp") as begun:
            call = asyncio.create_task(client.request("GET", PODS))
            await eventually(begun.is_set)
            await client.close()
        with pytest.raises(ClosedError):
            await call

    assert client._sessions is None


async def test_a_conflict_and_a_missing_object_are_not_tried_again(path: Path) -> None:
    script = Script(lambda _: status(409, "AlreadyExists"), lambda _: status(404, "NotFound"))

    async with serving(script) as url, connected(kubeconfig(path, url)) as client:
        with pytest.raises(ConflictError):
            await client.request("POST", PODS, body={}, idempotent=True)
        with pytest.raises(NotFoundError):
            await client.request("GET", PODS)

    assert 2 == len(script.requests)


# The way there


async def test_a_kubeconfigs_proxy_is_used(path: Path) -> None:
    script = Script({"n": 1})

    async with serving(script) as proxy:
        config = kubeconfig(path, "http://cluster.invalid:6443", cluster={"proxy-url": proxy})
        async with connected(config) as client:
            assert {"n": 1} == (await client.request("GET", PODS)).json
            async with client.stream(PODS) as stream:
                assert b'{"n": 1}' == await stream.read_chunk()

    assert {"cluster.invalid:6443"} == {each.headers["Host"] for each in script.requests}


@pytest.mark.parametrize(("name", "fits"), [("localhost", True), ("elsewhere", False)])
async def test_the_name_in_the_servers_certificate_may_be_another_one(path: Path, name: str, fits: bool) -> None:
    async with tls_server(Script({})) as (port, authority):
        (path.parent / "ca.crt").write_bytes(authority)
        cluster = {"certificate-authority": "ca.crt", "tls-server-name": name}
        async with connected(kubeconfig(path, f"https://127.0.0.1:{port}", cluster=cluster)) as client:
            assert fits == await _answers(client)


async def test_a_server_that_is_not_verified_is_told_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with tls_server(Script({})) as (port, _):
        config = kubeconfig(path, f"https://127.0.0.1:{port}", cluster={"insecure-skip-tls-verify": True})
        async with connected(config) as client:
            for _ in range(3):
                await client.request("GET", PODS)

    assert 1 == caplog.text.count("is not verified: insecure-skip-tls-verify is set")


async def test_a_certificate_that_was_replaced_is_sent_after_a_refusal(path: Path, tmp_path: Path) -> None:
    seen: list[bool] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        seen.append(len(seen) == 0)
        if seen[-1]:  # an API server refuses a certificate that has expired by 401, and not in the handshake
            await asyncio.to_thread(write)
        return status(401, "Unauthorized") if seen[-1] else web.json_response({})

    def write() -> None:
        for file, data in zip(("client.crt", "client.key"), client_certificate(), strict=True):
            (tmp_path / file).write_bytes(data)

    async with tls_server(answer) as (port, authority):
        (tmp_path / "ca.crt").write_bytes(authority)
        write()
        user = {"client-certificate": "client.crt", "client-key": "client.key"}
        cluster = {"certificate-authority": "ca.crt"}
        async with connected(kubeconfig(path, f"https://127.0.0.1:{port}", user=user, cluster=cluster)) as client:
            assert {} == (await client.request("GET", PODS)).json

    assert [True, False] == seen


def client_certificate() -> tuple[bytes, bytes]:
    """Return a certificate that signs itself, and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "someone")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    dates = builder.serial_number(x509.random_serial_number()).not_valid_before(now).not_valid_after(now + timedelta(1))
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    return dates.sign(key, hashes.SHA256()).public_bytes(pem), secret
