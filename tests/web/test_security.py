"""Who may ask, tried by those who may not."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from asyncsched.errors import InvalidRequestError, NotFoundError, SchedulerError, UnavailableError
from asyncsched.web.security import Gate
from tests.runner.rig import Rig
from tests.web.conftest import Serve
from tests.web.visitor import SAME_SITE, Visitor

EVERYTHING = [
    ("GET", "/"),
    ("GET", "/app.js"),
    ("GET", "/style.css"),
    ("GET", "/nothing"),
    ("GET", "/../../etc/passwd"),
    ("GET", "/%2e%2e/pyproject.toml"),
    ("HEAD", "/api/apps"),
    ("GET", "/api/apps"),
    ("GET", "/api/app?handle=push://me/x"),
    ("GET", "/api/events"),
    ("POST", "/api/cancel"),
    ("POST", "/api/apps"),
    ("DELETE", "/api/app?handle=push://me/x"),
    ("PUT", "/api/apps"),
    ("OPTIONS", "/api/cancel"),
]


@pytest.mark.parametrize(("method", "path"), EVERYTHING)
async def test_without_the_cookie_nothing_is_told(visitor: Visitor, method: str, path: str) -> None:
    visitor.cookie = ""
    headers = {**visitor.origin, **SAME_SITE}

    assert (401, "") == await visitor.ask(method, path, headers)
    assert (401, "") == await visitor.ask(method, path, {**headers, "Cookie": f"{visitor.server.gate.cookie}=guess"})
    other = {**headers, "Cookie": "asyncsched_1=x", "Authorization": f"Bearer {visitor.server.gate.token}"}
    assert (401, "") == await visitor.ask(method, path, other)


@pytest.mark.parametrize("token", ["", "wrong", "%ff%fe", "%F0%9F%98%80", "a" * 5000, "*"])
async def test_a_wrong_token_lets_nobody_in(visitor: Visitor, token: str) -> None:
    visitor.cookie = ""
    async with visitor.request("GET", f"/?token={token}") as answer:
        assert (401, "") == (answer.status, await answer.text())
        assert "Set-Cookie" not in answer.headers


async def test_the_token_is_good_for_one_cookie(visitor: Visitor) -> None:
    path = f"/?token={visitor.server.gate.token}"

    assert (401, "") == await Visitor(visitor.server, visitor.session).ask("GET", path)
    assert 200 == (await visitor.ask("GET", path))[0]  # who is in already is led on
    async with visitor.request("GET", path) as again:
        assert "Set-Cookie" not in again.headers
    assert visitor.server.gate.token not in visitor.cookie
    assert (401, "") == await Visitor(visitor.server, visitor.session).ask(
        "GET", "/", {"Cookie": f"{visitor.server.gate.cookie}={visitor.server.gate.token}"}
    )


async def test_the_cookie_is_for_this_port_and_no_script(serve: Serve) -> None:
    async with serve() as one, serve() as other:
        first = Visitor(one.server, one.session)
        one.server.gate._is_used = False
        answer = await first.enter()
        port = one.server.address.rpartition(":")[2]
        set_cookie = answer.headers["Set-Cookie"]
        name, *flags = [part.strip() for part in set_cookie.split(";")]

        assert name.startswith(f"asyncsched_{port}=")
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} == {*flags}
        assert one.server.gate.token not in await answer.text() + set_cookie
        assert 401 == (await other.ask("GET", "/", {"Cookie": one.cookie}))[0]


async def test_the_address_bar_loses_the_token(serve: Serve) -> None:
    async with serve() as visitor:
        status, page = await visitor.ask("GET", f"/?token={visitor.server.gate.token}")

    assert 200 == status
    assert 'content="0; url=./"' in page
    assert "<script" not in page


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost:{port}.evil.example",
     "127.0.0.2:{port}", "127.0.0.1.evil.example:{port}", "localhost.:{port}",
     "evil@127.0.0.1:{port}", "[::1]", "0.0.0.0:{port}", " "],
)  # fmt: skip
async def test_a_foreign_host_is_refused(visitor: Visitor, host: str) -> None:
    port = visitor.server.address.rpartition(":")[2]
    headers = {"Host": host.format(port=port), **SAME_SITE}

    for method, path in EVERYTHING:
        assert (403, "") == await visitor.ask(method, path, headers)
    assert 403 == (await visitor.ask("GET", f"/?token={visitor.server.gate.token}", headers))[0]


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
async def test_every_name_of_this_machine_will_do(visitor: Visitor, name: str) -> None:
    host = f"{name}:{visitor.server.address.rpartition(':')[2]}"

    assert 200 == (await visitor.ask("GET", "/", {"Host": host}))[0]
    asked = json.dumps({"handles": ["push://me/nosuchapp"]})
    own = {"Host": host, "Origin": f"http://{host}", "Content-Type": "application/json"}
    assert 202 == (await visitor.ask("POST", "/api/cancel", own, data=asked))[0]


FOREIGN = ["http://evil.example", "null", "https://{host}", "http://127.0.0.1:1", "http://{host}.evil.example", ""]


@pytest.mark.parametrize("origin", FOREIGN)
async def test_a_foreign_origin_is_refused(visitor: Visitor, origin: str) -> None:
    host = visitor.server.address.removeprefix("http://")

    for method, path in [*EVERYTHING, ("GET", "/api/events?log=push://me/x"), ("GET", "/api/events?after=x")]:
        assert (403, "") == await visitor.ask(method, path, {**SAME_SITE, "Origin": origin.format(host=host)})


@pytest.mark.parametrize(("method", "path"), [each for each in EVERYTHING if each[0] not in ("GET", "HEAD")])
async def test_what_changes_something_names_its_origin(visitor: Visitor, method: str, path: str) -> None:
    assert (403, "") == await visitor.ask(method, path, SAME_SITE)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", "", None])
async def test_a_stream_is_for_this_page_alone(visitor: Visitor, site: str | None) -> None:
    headers = {} if site is None else {"Sec-Fetch-Site": site}

    assert (403, "") == await visitor.ask("GET", "/api/events", headers)


async def test_a_form_of_another_page_cannot_cancel(rig: Rig, visitor: Visitor) -> None:
    handle = await rig.run()
    asked = json.dumps({"handles": [handle]})
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        status, _ = await visitor.ask("POST", "/api/cancel", {**visitor.origin, "Content-Type": kind}, data=asked)
        assert 400 == status

    assert "RUNNING" == (await rig.schedulers["push"].describe(handle.app_id)).state.name  # type: ignore[union-attr]


@pytest.mark.parametrize("path", ["/", "/app.js", "/style.css", "/nothing", "/api/apps", "/api/app"])
@pytest.mark.parametrize("is_in", [True, False])
async def test_every_answer_has_the_headers(visitor: Visitor, path: str, is_in: bool) -> None:
    visitor.cookie = visitor.cookie if is_in else ""
    async with visitor.request("GET", path) as answer:
        rules = dict(rule.strip().split(" ", 1) for rule in answer.headers["Content-Security-Policy"].split(";"))
        told = {name: answer.headers[name] for name in ("Referrer-Policy", "X-Content-Type-Options", "Cache-Control")}

    assert {"Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"} == told
    assert ("'none'", "'none'", "'self'") == (rules["default-src"], rules["frame-ancestors"], rules["script-src"])
    assert not [rule for rule in rules.values() if "unsafe" in rule or "*" in rule or "data:" in rule]
    assert not [value for value in answer.headers.values() if "Python" in value or "aiohttp" in value]
    assert "Access-Control-Allow-Origin" not in answer.headers


async def test_the_stream_has_the_headers(visitor: Visitor) -> None:
    async with visitor.request("GET", "/api/events", SAME_SITE) as answer:
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        assert ("no-store", "no-referrer") == (answer.headers["Cache-Control"], answer.headers["Referrer-Policy"])


async def test_the_page_has_no_script_of_its_own(visitor: Visitor) -> None:
    status, page = await visitor.ask("GET", "/")

    assert 200 == status
    assert 1 == page.count("<script") == page.count('<script src="app.js"')
    assert not [word for word in ("style=", "onclick", "onload", "javascript:", "http://", "https://") if word in page]
    status, script = await visitor.ask("GET", "/app.js")
    assert 200 == status
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacent",
        "document.write",
        "eval(",
        "Function(",
        "setHTML",
        "http:",
    ):
        assert word not in script


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/api/apps"), ("DELETE", "/api/app?handle={handle}"), ("DELETE", "/api/apps")]
)
async def test_nothing_is_launched_or_deleted_by_default(rig: Rig, visitor: Visitor, method: str, path: str) -> None:
    handle = await rig.run()
    rig.exit(handle)
    asked = {"name": "x", "scheduler": "push", "entrypoint": "sh"}
    status, told = await visitor.ask(method, path.format(handle=handle), visitor.origin, json=asked)

    assert status in (403, 405)
    assert "allow_submit" in told or status == 405
    assert 1 == len(rig.push.apps)


async def test_apps_are_launched_and_deleted_where_that_is_allowed(rig: Rig, serve: Serve) -> None:
    async with serve(allow_submit=True) as visitor:
        asked: dict[str, Any] = {"name": "x", "scheduler": "push", "entrypoint": "sh", "args": ["-c", "true"]}
        status, told = await visitor.ask("POST", "/api/apps", visitor.origin, json=asked)
        handle = json.loads(told)["handle"]

        assert 201 == status
        assert "no entrypoint" in (await visitor.told("POST", "/api/apps", visitor.origin, json={"name": "x"}))["error"]
        for wrong in (
            {"replica": 2},
            {"replicas": 0},
            {"replicas": "2"},
            {"args": "x"},
            {"env": [1]},
            {"scheduler": 7},
            {"cfg": 3},
        ):
            assert 400 == (await visitor.ask("POST", "/api/apps", visitor.origin, json={**asked, **wrong}))[0]
        assert 409 == (await visitor.ask("DELETE", f"/api/app?handle={handle}", visitor.origin))[0]
        rig.push.start(handle.rpartition("/")[2])
        rig.push.exit(handle.rpartition("/")[2])
        assert (204, "") == await visitor.ask("DELETE", f"/api/app?handle={handle}", visitor.origin)

    assert {} == rig.push.apps


@pytest.mark.parametrize(
    ("error", "code"),
    [(InvalidRequestError("not found in PATH"), 400), (NotFoundError("no image x"), 400), (UnavailableError("x"), 502)],
)
async def test_who_is_to_blame_for_a_refusal(rig: Rig, serve: Serve, error: SchedulerError, code: int) -> None:
    rig.push.fail("submit", error)
    asked = {"name": "x", "scheduler": "push", "entrypoint": "sh"}
    async with serve(allow_submit=True) as visitor:
        assert code == (await visitor.ask("POST", "/api/apps", visitor.origin, json=asked))[0]


async def test_it_listens_on_this_machine_alone(visitor: Visitor) -> None:
    port = int(visitor.server.address.rpartition(":")[2])

    assert visitor.server.address == f"http://127.0.0.1:{port}"
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as other:
        other.bind(("127.0.0.2", port))  # all of 127/8 would be taken if it listened everywhere


def test_secrets_are_long_and_differ() -> None:
    gates = [Gate(1), Gate(1)]

    assert 4 == len({*(gate.token for gate in gates), *(gate.exchange(gate.token) for gate in gates)})
    assert all(len(gate.token) >= 43 for gate in gates)
