"""Requests that are no HTTP, or not ours: the answer is ours, with the headers of all others, and says nothing more."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from io import BytesIO
from typing import NamedTuple

import pytest

from asyncsched.web.security import HEADERS
from tests._support import WITHIN
from tests.runner.rig import Rig
from tests.web.conftest import Serve
from tests.web.visitor import SAME_SITE, Visitor

TELLTALES = ("aiohttp", "python", "traceback", 'file "', "llhttp", "yarl", "unknown expect", "got itself")


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


async def _send(visitor: Visitor, request: bytes) -> list[Answer]:
    """Send these bytes; return all answers until the server closes the connection, or has answered one."""
    host = visitor.server.address.removeprefix("http://")
    reader, writer = await asyncio.open_connection("127.0.0.1", int(host.rpartition(":")[2]))
    answers: list[Answer] = []
    try:
        async with asyncio.timeout(WITHIN):
            writer.write(request.replace(b"{host}", host.encode()).replace(b"{cookie}", visitor.cookie.encode()))
            while head := await _head(reader):
                first, *lines = head.decode().split("\r\n")
                headers = dict(line.split(": ", 1) for line in lines if line)
                body = await reader.readexactly(int(headers.get("Content-Length", "0")))
                answers.append(Answer(int(first.split()[1]), headers, body))
                if headers.get("Connection") != "close" and answers[-1].status != 100:
                    break
    finally:
        writer.close()
    return answers


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


def _is_ours(answer: Answer) -> None:
    assert HEADERS == {name: answer.headers.get(name) for name in HEADERS}
    everything = f"{answer.headers} {answer.body.decode()}".lower()
    assert not [word for word in TELLTALES if word in everything], everything


IN = b"Host: {host}\r\nCookie: {cookie}\r\n"
OURS = IN + b"Origin: http://{host}\r\n"
JSON = b"Content-Type: application/json\r\n"

MALFORMED = {
    "no http": b"hello\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "http 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a version that is none": b"GET / HTTP/9.9\r\n" + IN + b"\r\n",
    "a method that is none": b"G@T / HTTP/1.1\r\n" + IN + b"\r\n",
    "a header without a colon": b"GET / HTTP/1.1\r\n" + IN + b"nonsense\r\n\r\n",
    "a header with a zero byte": b"GET / HTTP/1.1\r\n" + IN + b"X: a\x00b\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: {host}\r\n" + IN + b"\r\n",
    "a line that is too long": b"GET /?" + b"a" * (1 << 18) + b" HTTP/1.1\r\n" + IN + b"\r\n",
    "a header that is too long": b"GET / HTTP/1.1\r\n" + IN + b"X: " + b"a" * (1 << 18) + b"\r\n\r\n",
    "too many headers": b"GET / HTTP/1.1\r\n" + IN + b"X: a\r\n" * 100_000 + b"\r\n",
    "a length that is none": b"POST /api/cancel HTTP/1.1\r\n" + OURS + b"Content-Length: two\r\n\r\n",
    "a length below zero": b"POST /api/cancel HTTP/1.1\r\n" + OURS + b"Content-Length: -1\r\n\r\n",
    "two lengths": b"POST /api/cancel HTTP/1.1\r\n" + OURS + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a length and chunks": b"POST /api/cancel HTTP/1.1\r\n"
    + OURS
    + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a coding that is none": b"POST /api/cancel HTTP/1.1\r\n" + OURS + b"Transfer-Encoding: nonsense\r\n\r\n",
    "chunks that are none": b"POST /api/cancel HTTP/1.1\r\n"
    + OURS
    + JSON
    + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "chunks that break off": b"POST /api/cancel HTTP/1.1\r\n"
    + OURS
    + JSON
    + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}xx\r\n",
    "gzip that is none": b"POST /api/cancel HTTP/1.1\r\n"
    + OURS
    + JSON
    + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
    "gzip that breaks off": b"POST /api/cancel HTTP/1.1\r\n"
    + OURS
    + JSON
    + b"Content-Encoding: gzip\r\nContent-Length: 20\r\n\r\n"
    + gzip.compress(b"{}" * 99)[:20],
    "an address that is none": b"GET //[ HTTP/1.1\r\n" + IN + b"\r\n",
    "a port that is none": b"GET http://{host}x:y/ HTTP/1.1\r\n" + IN + b"\r\n",
    "an encoding that is none": b"POST /api/cancel HTTP/1.1\r\n"
    + OURS
    + b"Content-Type: application/json; charset=nonsense\r\nContent-Length: 2\r\n\r\n\xff{",
}


@pytest.mark.parametrize("what", MALFORMED)
async def test_a_malformed_request_gets_an_answer_of_ours(
    visitor: Visitor, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.get_running_loop().set_debug(True)  # aiohttp shows tracebacks then
    with caplog.at_level(logging.WARNING):
        answers = await _send(visitor, MALFORMED[what])

    assert answers, "a connection is not closed without an answer"
    for answer in answers:
        _is_ours(answer)
        assert 400 <= answer.status < 500
        assert answer.body == b"" or json.loads(answer.body)["error"]
    assert [] == [record.message for record in caplog.records if record.name != "asyncio"], "it is no error of ours"


@pytest.mark.parametrize("what", ["a line that is too long", "a header that is too long"])
async def test_what_is_too_long_is_told_with_the_bound_and_with_what_to_do(visitor: Visitor, what: str) -> None:
    (answer,) = await _send(visitor, MALFORMED[what])
    told = json.loads(answer.body)["error"]

    assert 400 == answer.status
    assert "131072 bytes" in told
    assert "api/selections" in told


@pytest.mark.parametrize("cookie", [b"Cookie: {cookie}\r\n", b""])
@pytest.mark.parametrize("expected", [b"100-continue", b"nonsense", b"a" * 500])
async def test_what_a_request_expects_is_looked_at_after_its_access(
    visitor: Visitor, expected: bytes, cookie: bytes
) -> None:
    request = b"POST /api/cancel HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n" + JSON + cookie
    answers = await _send(visitor, request + b"Expect: " + expected + b"\r\nContent-Length: 2\r\n\r\n{}")
    answer = answers[-1]

    _is_ours(answer)
    if not cookie:
        assert [(401, b"")] == [(each.status, each.body) for each in answers]
    elif expected == b"100-continue":
        assert [100, 400] == [each.status for each in answers]
    else:
        assert (417, "expect") == (answer.status, json.loads(answer.body)["error"].partition(" ")[0].lower())


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nothing", 404), ("GET", "/api/nothing", 404), ("PUT", "/api/apps", 405), ("POST", "/", 405)],
)
async def test_what_is_not_there_is_told_as_everything_else(
    visitor: Visitor, method: str, path: str, status: int
) -> None:
    async with visitor.request(method, path, visitor.origin) as answer:
        told = Answer(answer.status, dict(answer.headers), await answer.read())

    _is_ours(told)
    assert status == told.status
    assert json.loads(told.body)["error"]
    assert (status == 405) == ("Allow" in told.headers)


async def test_a_body_that_is_too_long_is_told_with_its_bound(visitor: Visitor) -> None:
    headers = {**visitor.origin, "Content-Type": "application/json"}
    async with visitor.request("POST", "/api/cancel", headers, data=BytesIO(b" " * (1 << 20) + b"[]")) as answer:
        told = Answer(answer.status, dict(answer.headers), await answer.read())

    _is_ours(told)
    assert 413 == told.status
    assert "at most 1048576 bytes" in json.loads(told.body)["error"]


@pytest.mark.parametrize("accepted", ["*/*", "text/html"])
async def test_a_failure_of_ours_is_told_without_its_insides_and_logged_with_them(
    rig: Rig, serve: Serve, accepted: str, caplog: pytest.LogCaptureFixture
) -> None:
    handle = await rig.run()
    async with serve() as visitor:
        asyncio.get_running_loop().set_debug(True)
        rig.push.fail("describe", *[KeyError("an inside")] * 20)  # type: ignore[arg-type]  # a plugin's mistake
        async with visitor.request("GET", f"/api/app?handle={handle}", {"Accept": accepted}) as answer:
            told = Answer(answer.status, dict(answer.headers), await answer.read())

    _is_ours(told)
    assert told.status in (500, 502)
    assert json.loads(told.body)["error"]
    if told.status == 500:
        assert b"an inside" not in told.body
        assert "an inside" in caplog.text
        assert "asyncsched.web" in {record.name for record in caplog.records}
    assert not [record for record in caplog.records if record.name.startswith("aiohttp")]


async def test_the_stream_of_who_may_not_read_it_says_nothing(visitor: Visitor) -> None:
    visitor.cookie = ""
    async with visitor.request("GET", "/api/events", {**SAME_SITE, "Expect": "nonsense"}) as answer:
        told = Answer(answer.status, dict(answer.headers), await answer.read())

    _is_ours(told)
    assert (401, b"") == (told.status, told.body)
