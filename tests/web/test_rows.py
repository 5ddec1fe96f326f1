"""What `GET api/apps` tells, with a page and without one."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import cast

import pytest

from asyncsched.errors import AuthError
from asyncsched.runner import AppList
from asyncsched.web.hub import WebLimits
from tests._support import WITHIN, eventually
from tests.runner.rig import Rig
from tests.web.conftest import Serve
from tests.web.visitor import Visitor

SELDOM = WebLimits(look_every=3600.0)
"""A server that looks for new apps only when somebody wants to know."""


async def _states(visitor: Visitor) -> dict[str, str]:
    return {app["handle"]: app["state"] for app in (await visitor.told("GET", "/api/apps"))["apps"]}


@pytest.mark.parametrize("with_page", [False, True])
async def test_what_is_true_now_is_told(rig: Rig, serve: Serve, with_page: bool) -> None:
    one = await rig.run("push")
    async with serve(limits=SELDOM) as visitor:
        async with visitor.stream() as events:
            if with_page:
                await anext(events)
            else:
                await events.aclose()
            assert {one: "RUNNING"} == await _states(visitor)
            other = await rig.run("polled")
            assert {one: "RUNNING", other: "RUNNING"} == await _states(visitor)
            rig.vanish(one)
            third = await rig.run("push", started=False)
            assert {other: "RUNNING", third: "PENDING"} == await _states(visitor)


async def test_an_end_is_told_though_the_watch_asks_seldom(rig: Rig, serve: Serve) -> None:
    rig.schedulers["polled"].poll_interval = 3600.0
    handle = await rig.run("polled")
    async with serve(limits=SELDOM) as visitor:
        assert {handle: "RUNNING"} == await _states(visitor)
        await eventually(lambda: visitor.server.hub.board.views[handle].tally.of)  # the watch has asked
        rig.exit(handle, 3)
        assert {handle: "FAILED"} == await _states(visitor)
        (row,) = (await visitor.told("GET", "/api/apps"))["apps"]
        assert ("exited with code 3", True) == (row["reason"], row["over"])


async def test_named_apps_are_told_before_the_watch_tells_of_them(rig: Rig, serve: Serve) -> None:
    rig.schedulers["polled"].poll_interval = 3600.0
    handles = [await rig.run("push"), await rig.run("polled")]
    await rig.run("push")
    async with serve(handles=handles, limits=SELDOM) as visitor:
        assert dict.fromkeys(handles, "RUNNING") == await _states(visitor)
        rig.exit(handles[1])
        assert "SUCCEEDED" == (await _states(visitor))[handles[1]]


async def test_requests_at_the_same_time_share_one_look(rig: Rig, serve: Serve) -> None:
    handle = await rig.run("push")
    calls = Counter[str]()
    release = asyncio.Event()

    async def look(most: int) -> AppList:
        calls["look"] += 1
        await release.wait()
        return await rig.runner.list(limit=most)

    async with serve(limits=SELDOM, look=look) as visitor:
        looks = visitor.server.hub._listed
        assert looks is not None
        await eventually(lambda: calls["look"])
        asking = [asyncio.create_task(_states(visitor)) for _ in range(20)]
        await eventually(lambda: 20 == len(looks._waiting))
        release.set()
        told = await asyncio.gather(*asking)

    assert [{handle: "RUNNING"}] * 20 == told
    assert 2 == calls["look"], "the one that had begun before they asked, and one for all of them"


async def test_requests_at_the_same_time_share_one_question_about_named_apps(rig: Rig, serve: Serve) -> None:
    handle = await rig.run("push")
    async with serve(handles=[handle], limits=SELDOM) as visitor:
        asked = visitor.server.hub._asked
        async with asked._lock:
            asking = [asyncio.create_task(_states(visitor)) for _ in range(20)]
            await eventually(lambda: 20 == len(asked._lock._waiters or ()))
        told = await asyncio.gather(*asking)

    assert [{handle: "RUNNING"}] * 20 == told
    assert 1 == asked._begun


async def test_a_look_that_fails_is_told_beside_what_is_known(rig: Rig, serve: Serve) -> None:
    handle = await rig.run("push")
    failures: list[Exception] = []

    async def look(most: int) -> AppList:
        if failures:
            raise failures.pop()
        return await rig.runner.list(limit=most)

    async with serve(limits=SELDOM, look=look) as visitor:
        assert {handle: "RUNNING"} == await _states(visitor)
        failures.append(AuthError("you may not look", backend="fake"))
        told = await visitor.told("GET", "/api/apps")
        assert ([handle], True) == ([app["handle"] for app in told["apps"]], "you may not look" in told["notes"][0])
        assert [] == (await visitor.told("GET", "/api/apps"))["notes"]


async def test_a_look_that_a_plugin_cancels_is_a_failure_like_others(rig: Rig, serve: Serve) -> None:
    handle = await rig.run("push")
    failures: list[BaseException] = []

    async def look(most: int) -> AppList:
        if failures:
            raise failures.pop()
        return await rig.runner.list(limit=most)

    async with asyncio.timeout(WITHIN), serve(limits=SELDOM, look=look) as visitor:
        assert {handle: "RUNNING"} == await _states(visitor)
        failures.append(asyncio.CancelledError())
        told = await visitor.told("GET", "/api/apps")
        assert ([handle], True) == ([app["handle"] for app in told["apps"]], "was cancelled" in told["notes"][0])
        other = await rig.run("push")
        assert {handle: "RUNNING", other: "RUNNING"} == await _states(visitor)


async def test_a_request_after_the_last_look_is_refused(rig: Rig, serve: Serve) -> None:
    release = asyncio.Event()

    async def look(most: int) -> AppList:
        await release.wait()
        return cast("AppList", None)  # which ends the looks

    async with asyncio.timeout(WITHIN), serve(limits=SELDOM, look=look) as visitor:
        looks = visitor.server.hub._listed
        assert looks is not None
        asking = asyncio.create_task(visitor.ask("GET", "/api/apps"))
        await eventually(lambda: 1 == len(looks._waiting))
        release.set()
        for told in (await asking, await visitor.ask("GET", "/api/apps")):
            assert (502, True) == (told[0], "there are no more looks" in json.loads(told[1])["error"])


async def test_a_request_that_is_given_up_takes_nothing_from_the_others(rig: Rig, serve: Serve) -> None:
    handle = await rig.run("push")
    async with serve(limits=SELDOM) as visitor:
        for _ in range(5):
            asking = [asyncio.create_task(_states(visitor)) for _ in range(4)]
            await asyncio.sleep(0)
            asking[0].cancel()
            told = await asyncio.gather(*asking, return_exceptions=True)
            assert [{handle: "RUNNING"}] * 3 == told[1:]


async def test_without_a_page_and_a_request_nobody_is_asked(rig: Rig, serve: Serve) -> None:
    calls = Counter[str]()

    async def look(most: int) -> AppList:
        calls["look"] += 1
        return await rig.runner.list(limit=most)

    async with serve(limits=WebLimits(look_every=0.001), look=look) as visitor:
        await _states(visitor)
        looks = visitor.server.hub._listed
        assert looks is not None
        await eventually(lambda: not looks.is_wanted.is_set())
        before = calls["look"]
        await _states(visitor)
        assert before + 1 == calls["look"]
