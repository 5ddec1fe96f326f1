"""Many apps at once: more than their names would fit into the first line of a request."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from asyncsched.specs import AppHandle
from asyncsched.web.api import LONGEST_HEAD
from asyncsched.web.hub import WebLimits
from tests._support import eventually
from tests.runner.rig import Rig
from tests.web.conftest import Serve
from tests.web.test_stream import QUICK, Visit
from tests.web.visitor import SAME_SITE, Visitor

APPS = 1000


@pytest.mark.guard(loop_step=False, blocking=False, reason="a thousand apps are made by the test itself")
async def test_a_thousand_apps_are_selected_read_and_cancelled(rig: Rig, serve: Serve) -> None:
    handles: list[AppHandle] = [await rig.run(name=f"an-app-with-a-long-name-{number:04}") for number in range(APPS)]
    for number, handle in enumerate(handles):
        rig.say(handle, f"line of {number}")
    async with serve(limits=QUICK) as visitor:
        name = await visitor.select(*handles)
        page = Visit()
        await page.read(visitor, selection=name, until=lambda: len(page.lines) == APPS)
        rig.say(handles[-1], "one more")
        await page.read(visitor, selection=name, until=lambda: page.lines[-1] == "one more")
        assert (0, 1) == (page.missed, len(visitor.server.hub.tails))

        asked = {"handles": handles}
        told = await visitor.told("POST", "/api/cancel", visitor.origin, json=asked)
        assert {"asked": APPS, "failed": {}} == told
        await page.read(visitor, selection=name, until=lambda: {*page.states().values()} == {"CANCELLED"})

    assert {f"line of {number}" for number in range(APPS)} | {"one more"} == {*page.lines}


@pytest.mark.guard(loop_step=False, blocking=False, reason="two thousand apps are made by the test itself")
async def test_a_page_shows_all_apps_after_many_have_gone(rig: Rig, serve: Serve) -> None:
    handles: list[AppHandle] = [await rig.run("push", name=f"job-{number:04}") for number in range(2 * APPS)]
    kept, gone = handles[:700], handles[700:]
    async with serve(limits=QUICK) as visitor:
        hub = visitor.server.hub
        old = Visit()
        await old.read(visitor, until=lambda: len(old.apps) == 2 * APPS)
        await eventually(lambda: not hub.pages)
        for handle in gone:
            rig.vanish(handle)
        await hub.refresh()  # without a page nothing looks by itself
        assert len(kept) == len(hub.board)
        new = Visit()
        for page in (old, new):  # the old one was away meanwhile
            await page.read(visitor, until=lambda page=page: page.states().keys() == {*kept} or page.anew > 2)

    assert [({*kept}, 1)] * 2 == [({*page.apps}, page.anew) for page in (old, new)]


async def test_the_same_apps_are_the_same_selection_and_the_same_log(rig: Rig, serve: Serve) -> None:
    one, other = await rig.run(), await rig.run()
    async with serve(limits=QUICK) as visitor:
        name = await visitor.select(one, other)
        assert name == await visitor.select(other, one, one)
        assert name != await visitor.select(one)
        async with visitor.stream(selection=name), visitor.stream(one, other):
            await eventually(lambda: 2 == len(visitor.server.hub.pages))
            assert 1 == len(visitor.server.hub.tails)


async def test_a_selection_that_is_not_remembered_is_told_with_what_to_do(rig: Rig, serve: Serve) -> None:
    handles = [await rig.run() for _ in range(3)]
    async with serve(limits=WebLimits(look_every=0.01, selections=2)) as visitor:
        names = [await visitor.select(handle) for handle in handles[:2]]
        assert names[0] == await visitor.select(handles[0])  # which makes it the latest
        await visitor.select(handles[2])
        async with visitor.stream(selection=names[0]):
            pass
        for name in (names[1], "nonsense", "", "x" * 5000):
            status, told = await visitor.ask("GET", f"/api/events?selection={name}", SAME_SITE)
            assert (404, True) == (status, "POST its handles again" in json.loads(told)["error"])
        assert not visitor.server.hub.tails or len(visitor.server.hub.tails) == 1


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ('{"handles": []}', "at least one"),
        ("{}", "no handles"),
        ('{"handles": [1]}', "a list"),
        ('{"handles": ["nonsense"]}', "is not a handle"),
        ('{"handles": ["nosuch://me/x"]}', "got one on 'nosuch'"),
        (json.dumps({"handles": ["push://me/\ud800"]}), "must be text that UTF-8 can encode: U+D800"),
        (json.dumps({"handles": [f"push://me/{number}" for number in range(APPS + 1)]}), "at most 1000 apps, got 1001"),
    ],
)
async def test_a_wrong_selection_is_told(visitor: Visitor, data: str, told: str) -> None:
    headers = {**visitor.origin, "Content-Type": "application/json"}
    status, answer = await visitor.ask("POST", "/api/selections", headers, data=data)

    assert 400 == status
    assert told in json.loads(answer)["error"]


async def test_a_selection_and_named_apps_are_bounded_together(rig: Rig, serve: Serve) -> None:
    handles = [await rig.run() for _ in range(3)]
    async with serve(limits=WebLimits(look_every=0.01, selected=2)) as visitor:
        name = await visitor.select(*handles[:2])
        status, told = await visitor.ask("GET", f"/api/events?selection={name}&log={handles[2]}", SAME_SITE)
        assert (400, True) == (status, "at most 2 apps, got 3" in told)
        page = Visit()
        await page.read(visitor, handles[0], selection=name, until=lambda: page.most)
        assert 2 == page.most


async def test_more_names_than_fit_into_a_request_are_refused_with_what_to_do(visitor: Visitor) -> None:
    handles = [f"push://{'s' * 60}/{'a' * 60}{number}" for number in range(APPS)]
    query = "&".join(f"log={quote(handle, safe='')}" for handle in handles)
    status, told = await visitor.ask("GET", f"/api/events?{query}", SAME_SITE)

    assert len(query) > LONGEST_HEAD
    assert (400, True) == (status, "POST api/selections" in json.loads(told)["error"])


async def test_a_selection_is_made_by_this_page_alone(visitor: Visitor) -> None:
    asked = {"handles": ["push://me/x"]}

    assert (403, "") == await visitor.ask("POST", "/api/selections", json=asked)
    assert (403, "") == await visitor.ask("POST", "/api/selections", {"Origin": "http://evil.example"}, json=asked)
    visitor.cookie = ""
    assert (401, "") == await visitor.ask("POST", "/api/selections", visitor.origin, json=asked)
