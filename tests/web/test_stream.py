"""The one stream of a page: apps, lines, breaks, and its bounds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from typing import Any, cast
from urllib.parse import quote

import aiohttp
import pytest

from asyncsched.errors import AuthError
from asyncsched.runner import AppList
from asyncsched.specs import AppDef, AppHandle, Role
from asyncsched.web.hub import Hub, OpenPage, WebLimits
from tests._support import WITHIN, eventually
from tests.runner.rig import Rig
from tests.web.conftest import Serve
from tests.web.visitor import SAME_SITE, Event, Visitor

QUICK = WebLimits(look_every=0.01, pace=0.0)


class Visit:
    """What a page keeps of a stream."""

    def __init__(self) -> None:
        self.apps: dict[str, Any] = {}
        self.lines: list[str] = []
        self.kinds: list[str] = []
        self.notes: list[str] = []
        self.last = ""
        self.missed = 0
        self.summary = ""
        self.most = 0
        self.anew = 0
        """How many times the stream in progress has begun the table anew."""

    def take(self, event: Event) -> None:
        self.last = event.id
        self.kinds.append(event.kind)
        data = event.data
        if (event.kind == "log" and data["apps_anew"]) or (event.kind == "apps" and data["anew"]):
            self.apps.clear()
        if event.kind == "apps":
            self.anew += data["anew"]
        if event.kind == "log":
            self.anew = 0
            self.most = data["most"]
            if data["anew"]:
                self.lines.clear()
        if event.kind == "apps":
            self.summary = data["all"]["summary"]
            for app in data["apps"]:
                if app.get("gone"):
                    self.apps.pop(app["handle"], None)
                else:
                    self.apps[app["handle"]] = app
        if event.kind == "lines":
            self.missed += data["missed"]
            self.lines += [line["text"] for line in data["lines"]]
        if event.kind == "notes":
            self.notes = data

    async def read(self, visitor: Visitor, *handles: str, selection: str = "", until: Any = None) -> None:
        """Read a stream until something is so, or to its end."""
        stream = visitor.stream(*handles, selection=selection, after=self.last)
        async with asyncio.timeout(WITHIN), stream as events:
            async for event in events:
                self.take(event)
                if until is not None and until():
                    return

    def reason(self, handle: str) -> str:
        return str(self.apps.get(handle, {}).get("reason", ""))

    def states(self) -> dict[str, str]:
        return {handle: app["state"] for handle, app in self.apps.items()}


async def test_apps_come_and_change_and_go(rig: Rig, serve: Serve) -> None:
    one = await rig.run("push", replicas=3)
    async with serve(limits=QUICK) as visitor:
        page = Visit()
        await page.read(visitor, until=lambda: page.apps and page.apps[one]["replicas"] == "3")
        assert {one: "RUNNING"} == page.states()
        assert [["RUNNING", 3, "main/0-2"]] == page.apps[one]["strip"]
        assert "1 app: 1 running" == page.summary

        other = await rig.run("polled")
        await page.read(visitor, until=lambda: page.states() == {one: "RUNNING", other: "RUNNING"})
        rig.exit(other, 3)
        await page.read(visitor, until=lambda: page.states().get(other) == "FAILED")
        assert ("exited with code 3", True) == (page.apps[other]["reason"], page.apps[other]["over"])
        rig.vanish(one)
        await page.read(visitor, until=lambda: page.states() == {other: "FAILED"})

    assert "1 app: 1 failed" == page.summary


async def test_a_log_is_followed_to_its_end(rig: Rig, serve: Serve) -> None:
    handle = await rig.run()
    async with serve(handles=[handle], limits=QUICK) as visitor:
        page = Visit()
        rig.say(handle, "one")
        await page.read(visitor, handle, until=lambda: page.lines == ["one"])
        rig.say(handle, "two")
        rig.exit(handle)
        await page.read(visitor, handle)

        assert (["one", "two"], "end") == (page.lines, page.kinds[-1])
        assert {handle: "SUCCEEDED"} == page.states()
        headers = {**SAME_SITE, "Last-Event-ID": page.last}
        assert (204, "") == await visitor.ask("GET", f"/api/events?log={handle}", headers)
        assert 200 == (await visitor.ask("GET", f"/api/events?log={handle}", SAME_SITE))[0]


async def test_every_event_has_an_id_and_none_is_lost_or_doubled_over_breaks(rig: Rig, serve: Serve) -> None:
    handle = await rig.run()
    page = Visit()
    wanted = [f"line {number}" for number in range(3000)]
    async with serve(limits=QUICK) as visitor:
        for number, text in enumerate(wanted):
            rig.say(handle, text)
            if number % 30 == 29:  # a hundred connections, left wherever they are
                before = len(page.lines)
                await page.read(visitor, handle, until=lambda before=before: len(page.lines) > before)
        await page.read(visitor, handle, until=lambda: len(page.lines) >= len(wanted))
        assert 1 == len(visitor.server.hub.tails)

    assert (wanted, 0) == (page.lines, page.missed)


async def test_an_id_of_another_server_begins_anew(rig: Rig, serve: Serve) -> None:
    handle = await rig.run()
    rig.say(handle, "one")
    page = Visit()
    async with serve(limits=QUICK) as visitor:
        await page.read(visitor, handle, until=lambda: page.lines and page.apps)
    first = page.last
    async with serve(limits=QUICK) as visitor:
        for told in (
            first,
            "",
            "x",
            "a.b.c.d",
            f"{visitor.server.hub.name}.999999.0.x.7",
            f"{visitor.server.hub.name}.1.999999.x.7",
            "9" * 5000,
        ):
            page.last = told
            page.lines, page.apps = ["stale"], {"stale": {"state": "?"}}
            await page.read(
                visitor, handle, until=lambda: page.lines == ["one"] and page.states() == {handle: "RUNNING"}
            )


async def test_pages_share_one_log_and_one_watch(rig: Rig, serve: Serve) -> None:
    handle = await rig.run()
    rig.say(handle, "one")
    pages = [Visit() for _ in range(10)]
    async with serve(limits=QUICK) as visitor:
        reading = [
            asyncio.create_task(page.read(visitor, handle, until=lambda page=page: "two" in page.lines))
            for page in pages
        ]
        await eventually(lambda: all(page.lines == ["one"] for page in pages))
        assert (1, 1) == (rig.runner.statistics().log_streams, rig.runner.statistics().watches)
        rig.say(handle, "two")
        await asyncio.gather(*reading)

    assert {("one", "two")} == {tuple(page.lines) for page in pages}


async def test_a_log_that_nobody_reads_is_closed_after_a_while(rig: Rig, serve: Serve) -> None:
    handle = await rig.run()
    rig.say(handle, "one")
    async with serve(limits=WebLimits(look_every=0.01, pace=0.0, linger=0.01)) as visitor:
        page = Visit()
        await page.read(visitor, handle, until=lambda: page.lines)
        await eventually(lambda: not visitor.server.hub.tails and not visitor.server.hub.pages)
        await eventually(lambda: 0 == rig.runner.statistics().log_streams)


async def test_too_many_pages_and_logs_are_refused(rig: Rig, serve: Serve) -> None:
    handles = [await rig.run() for _ in range(4)]
    async with serve(limits=WebLimits(look_every=0.01, pages=3, tails=2, selected=2)) as visitor:
        async with visitor.stream(handles[0]), visitor.stream(handles[1]):
            await eventually(lambda: 2 == len(visitor.server.hub.pages))
            status, told = await visitor.ask("GET", f"/api/events?log={handles[2]}", SAME_SITE)
            assert (503, True) == (status, "at most 2 logs" in told)
            async with visitor.stream(handles[0]):
                await eventually(lambda: 3 == len(visitor.server.hub.pages))
                status, told = await visitor.ask("GET", "/api/events", SAME_SITE)
                assert (503, True) == (status, "at most 3 pages" in told)
            await eventually(lambda: 2 == len(visitor.server.hub.pages))
        await eventually(lambda: not visitor.server.hub.pages)
        many = "&".join(f"log={handle}" for handle in handles)
        status, told = await visitor.ask("GET", f"/api/events?{many}", SAME_SITE)
        assert (400, True) == (status, "at most 2 apps, got 4" in told)
        async with visitor.stream(handles[2]):  # what lingers gives way
            assert 2 == len(visitor.server.hub.tails)


async def test_a_wrong_handle_is_the_callers_mistake(visitor: Visitor) -> None:
    for handle in ("nonsense", "pusch://me/x"):
        assert 400 == (await visitor.ask("GET", f"/api/events?log={handle}", SAME_SITE))[0]
    assert 0 == len(visitor.server.hub.pages)


async def test_a_log_of_no_app_says_so(visitor: Visitor) -> None:
    page = Visit()
    await page.read(visitor, "push://me/nosuchapp", until=lambda: page.lines)

    assert "no app nosuchapp" in page.lines[0]


async def test_a_page_that_takes_nothing_is_cut_and_comes_back(rig: Rig, serve: Serve) -> None:
    handle = await rig.run()
    text = "x" * 1000
    async with serve(limits=WebLimits(look_every=0.01, pace=0.0, stall=0.3, tail_lines=10_000)) as visitor:
        hub = visitor.server.hub
        stalled = await _stalled(visitor, handle)
        await eventually(lambda: 1 == len(hub.pages))
        said = 4000
        for start in range(0, said, 500):
            rig.say(handle, "\n".join(f"{number} {text}" for number in range(start, start + 500)))
            await asyncio.sleep(0)
        await eventually(lambda: not hub.pages)
        assert hub.tails[0].bytes < 9 << 20
        stalled.close()
        page = Visit()

        def is_done() -> bool:
            return bool(page.lines) and page.lines[-1].startswith(f"{said - 1} ")

        while not is_done():
            with contextlib.suppress(aiohttp.ClientError):  # on a busy machine it may be cut, too
                await page.read(visitor, handle, until=is_done)

    numbers = [int(line.partition(" ")[0]) for line in page.lines]
    assert [*range(said)] == numbers
    assert 0 == page.missed


async def _stalled(visitor: Visitor, handle: str) -> socket.socket:
    """Ask for a stream and take nothing of it."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    host = visitor.server.address.removeprefix("http://")
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", int(host.rpartition(":")[2])))
    head = f"GET /api/events?log={handle} HTTP/1.1\r\nHost: {host}\r\nCookie: {visitor.cookie}\r\n"
    await asyncio.get_running_loop().sock_sendall(sock, f"{head}Sec-Fetch-Site: same-origin\r\n\r\n".encode())
    return sock


async def test_a_flood_is_read_at_the_pace_of_the_page(rig: Rig, serve: Serve) -> None:
    handle = await rig.run()
    page = Visit()
    async with serve(limits=QUICK) as visitor:
        for number in range(40):
            rig.say(handle, "\n".join(f"{number * 500 + each} {'y' * 200}" for each in range(500)))
            await page.read(visitor, handle, until=lambda number=number: len(page.lines) >= number * 500)
        await page.read(visitor, handle, until=lambda: len(page.lines) >= 20_000)

    assert [*range(20_000)] == [int(line.partition(" ")[0]) for line in page.lines]
    assert 0 == page.missed


MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>"
EVIL = f"{MARKUP}\x1b[31mred\x1b[0m\x1b]0;title\x07 \u202egnp.exe\u2066 \x00\x9b2J"


async def test_what_others_have_written_is_visible_and_harmless(rig: Rig, serve: Serve) -> None:
    handle = await rig.run()
    rig.say(handle, EVIL)
    rig.push.set_reason(handle.app_id, EVIL)
    async with serve(limits=QUICK) as visitor:
        page = Visit()
        await page.read(visitor, handle, until=lambda: page.lines and page.reason(handle))
        told = await visitor.told("GET", f"/api/app?handle={handle}")

    for text in (page.lines[0], page.apps[handle]["reason"], told["reason"], json.dumps(told)):
        assert text.isprintable()
        assert "<script>alert(2)</script>" in text  # for textContent, which shows it as it is
    assert "red\\x1b]0;title\\x07 \\u202egnp.exe\\u2066" in page.lines[0]


async def test_secrets_do_not_come_to_the_page(rig: Rig, serve: Serve) -> None:
    handle = await rig.run()
    line = "login with --password hunter2 and DB_PASSWORD=hunter2 at https://me:hunter2@host/x"
    for text in (line, "DB_PASS\x1b[0mWORD=hunter2", f"{'z' * 4080} https://me:{'hunter2' * 40}@host"):
        rig.say(handle, text)
    rig.push.set_reason(handle.app_id, line)
    async with serve(limits=QUICK) as visitor:
        page = Visit()
        await page.read(visitor, handle, until=lambda: len(page.lines) == 3 and page.reason(handle))
        everything = [
            json.dumps([page.lines, page.apps]),
            (await visitor.ask("GET", "/api/apps"))[1],
            (await visitor.ask("GET", f"/api/app?handle={handle}"))[1],
        ]

    for told in everything:
        assert "***" in told
        assert "hunter2" not in told


async def test_a_long_line_is_cut_and_says_so(rig: Rig, serve: Serve) -> None:
    handle = await rig.run()
    rig.say(handle, "w" * 50_000)
    async with serve(limits=QUICK) as visitor:
        page = Visit()
        await page.read(visitor, handle, until=lambda: page.lines)

    assert page.lines[0].startswith("w" * 4096 + "…")
    assert page.lines[0].endswith("more characters")


async def test_cancel_and_status(rig: Rig, serve: Serve) -> None:
    first, second = await rig.run("push", replicas=2), await rig.run("polled")
    async with serve(limits=QUICK) as visitor:
        asked = {"handles": [first, second, "push://me/nosuchapp"]}
        assert {"asked": 3, "failed": {}} == await visitor.told("POST", "/api/cancel", visitor.origin, json=asked)
        page = Visit()
        await page.read(visitor, until=lambda: {*page.states().values()} == {"CANCELLED"})
        told = await visitor.told("GET", f"/api/app?handle={first}")
        rows = await visitor.told("GET", "/api/apps")

    assert ("CANCELLED", 2) == (told["state"], len(told["time"]["bars"]))
    assert {first, second} == {app["handle"] for app in rows["apps"]}
    assert "2 apps: 2 cancelled" == rows["all"]["summary"]


@pytest.mark.parametrize(
    ("method", "path", "data", "status", "told"),
    [
        ("GET", "/api/app", None, 400, "no handle"),
        ("GET", "/api/app?handle=nonsense", None, 400, "is not a handle"),
        ("GET", "/api/app?handle=pusch://me/x", None, 400, "did you mean push?"),
        ("GET", "/api/app?handle=push://me/x", None, 404, "no app"),
        ("POST", "/api/cancel", "[]", 400, "a JSON object"),
        ("POST", "/api/cancel", "{", 400, "not JSON"),
        ("POST", "/api/cancel", "[" * 100_000, 400, "not JSON"),
        ("POST", "/api/cancel", '{"handles": []}', 400, "at least one"),
        ("POST", "/api/cancel", '{"handles": "push://me/x"}', 400, "type list"),
        ("POST", "/api/cancel", '{"handles": [1]}', 400, "a list"),
        ("POST", "/api/cancel", '{"handles": ["nonsense"]}', 400, "is not a handle"),
        ("POST", "/api/cancel", json.dumps({"handles": ["x"] * 1001}), 400, "at most 1000"),
    ],
)
async def test_a_mistake_of_the_caller_is_told(
    visitor: Visitor, method: str, path: str, data: str | None, status: int, told: str
) -> None:
    headers = {**visitor.origin, "Content-Type": "application/json"}
    answer = await visitor.ask(method, path, headers, data=data)

    assert status == answer[0]
    assert told in json.loads(answer[1])["error"]


async def test_a_scheduler_that_cannot_be_asked_is_a_note(rig: Rig, serve: Serve) -> None:
    handle = await rig.run("push")
    await rig.run("polled")
    rig.polled.fail("list", *[AuthError("you may not look", backend="fake") for _ in range(200)])
    async with serve(limits=QUICK) as visitor:
        page = Visit()
        await page.read(visitor, until=lambda: page.notes and page.apps)

    assert "you may not look" in page.notes[0]
    assert {handle: "RUNNING"} == page.states()


async def test_a_look_that_fails_is_followed_by_others(rig: Rig, serve: Serve) -> None:
    handle = await rig.run()
    failures: list[Exception] = [KeyError("a plugin's own"), AuthError("you may not look", backend="fake")]

    async def look(most: int) -> AppList:
        if failures:
            raise failures.pop()
        return await rig.runner.list(limit=most)

    async with serve(look=look, limits=QUICK) as visitor:
        page = Visit()
        await page.read(visitor, until=lambda: page.apps)

    assert {handle: "RUNNING"} == page.states()


async def test_a_log_that_fails_says_why(rig: Rig, visitor: Visitor) -> None:
    handle = await rig.run()
    rig.push.fail("logs", cast("AuthError", RuntimeError("a plugin's own")))
    rig.exit(handle)
    page = Visit()
    await page.read(visitor, handle, until=lambda: page.lines)

    assert "main/0 broke off: a plugin's own" in page.lines[0]


async def test_rows_are_found_without_a_page(rig: Rig, serve: Serve) -> None:
    one = await rig.run()
    async with serve(limits=WebLimits(look_every=0.0)) as visitor:
        assert [one] == [app["handle"] for app in (await visitor.told("GET", "/api/apps"))["apps"]]
        await eventually(lambda: not visitor.server.hub.pages)
        other = await rig.run("polled")
        assert {one, other} == {app["handle"] for app in (await visitor.told("GET", "/api/apps"))["apps"]}


async def test_as_many_logs_as_a_page_selects_fit_into_a_request(visitor: Visitor) -> None:
    handles = [f"push://{'s' * 60}/{'a' * 60}{number}" for number in range(visitor.server.hub.limits.selected)]
    named = "&".join(f"log={quote(handle, safe='')}" for handle in handles[:200])

    for query in (f"selection={await visitor.select(*handles)}", named):
        async with visitor.request("GET", f"/api/events?{query}", SAME_SITE) as answer:
            assert 200 == answer.status


async def test_the_end_of_the_server_ends_the_streams_and_no_app(rig: Rig, serve: Serve) -> None:
    handle = await rig.run()
    async with serve(limits=QUICK) as visitor:
        reading = asyncio.create_task(Visit().read(visitor, handle))
        await eventually(lambda: 1 == len(visitor.server.hub.pages))
        await visitor.server.hub.close()
        with pytest.raises(aiohttp.ClientError):
            await reading
    found = await rig.runner.status(handle)

    assert found is not None
    assert "RUNNING" == found.state.name
    assert (0, 0) == (rig.runner.statistics().log_streams, rig.runner.statistics().watches)


async def test_a_server_that_ends_before_a_log_was_opened_leaves_no_stream_open(rig: Rig) -> None:
    handle = await rig.run()
    hub = Hub(rig.runner)
    hub.start()
    hub.join(OpenPage(lambda: None), [handle])
    await hub.close()

    statistics = rig.runner.statistics()
    assert (0, 0) == (statistics.log_streams, statistics.watches)


async def test_a_thousand_apps_come_in_pieces(rig: Rig, serve: Serve) -> None:
    one = AppDef("many", [Role("main", "image", entrypoint="work")])
    handles: list[AppHandle] = [await rig.runner.run(one, "push") for _ in range(1000)]
    async with serve(limits=QUICK) as visitor:
        page = Visit()
        await page.read(visitor, until=lambda: len(page.apps) == 1000)

    assert {*handles} == {*page.apps}
