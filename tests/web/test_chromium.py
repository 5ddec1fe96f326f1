"""The page in a real browser, with a thousand apps and a log that floods."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from asyncsched.specs import AppDef, AppHandle, Role
from asyncsched.views.spans import span
from asyncsched.web.hub import Hub, WebLimits
from tests._support import eventually
from tests.runner.rig import Rig
from tests.web.browser import Browser, browsing, is_there, resident
from tests.web.conftest import Serve
from tests.web.visitor import Visitor

pytestmark = [
    pytest.mark.heavy("web"),
    pytest.mark.timeout(900),
    pytest.mark.guard(loop_step=False, blocking=False, reason="a thousand apps are made by the test itself"),
    pytest.mark.skipif(not is_there() and os.environ.get("CI") != "true", reason="no chromium and chromedriver"),
]

APPS = 1000
BREAKS = 100
SECONDS = 600
EVIL = "<img src=x onerror='window.evil=1'><script>window.evil=2</script>\x1b[31mred \u202egnp.exe"
COUNT = "document.querySelectorAll"
CONTROL = "\ue009"
ESCAPE = "\ue00c"


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncGenerator[Browser]:
    async with browsing(tmp_path / "profile") as browser:
        yield browser


@pytest.fixture
async def handles(rig: Rig) -> list[AppHandle]:
    one = AppDef("job", [Role("main", "image", entrypoint="work", num_replicas=4)])
    handles = [await rig.runner.run(one, "push") for _ in range(APPS)]
    for handle in handles[:-10]:
        rig.push.start(handle.app_id)
    for handle in handles[:300]:
        rig.exit(handle)
    for handle in handles[300:310]:
        rig.exit(handle, 3)
    return handles


def _row(handle: str) -> str:
    return f'#table .row[data-handle="{handle}"]'


async def _enter(browser: Browser, visitor: Visitor) -> None:
    visitor.server.gate._is_used = False  # the visitor of the fixture has used it
    await _open(browser, visitor.server.url)


async def _open(browser: Browser, url: str) -> None:
    await browser.open(url)
    await browser.until("location.search === '' && !!document.querySelector('#summary')")
    await browser.until("document.readyState === 'complete'")


async def test_table_selection_log_search_and_cancel(
    rig: Rig, serve: Serve, browser: Browser, handles: list[AppHandle], tmp_path: Path
) -> None:
    target, other = handles[500], handles[501]
    rig.push.set_reason(target.app_id, EVIL)
    async with serve(limits=WebLimits(look_every=0.5)) as visitor:
        await _enter(browser, visitor)
        await browser.until("apps.size === arguments[0]", APPS)
        await browser.until(f"{COUNT}('#table .row').length > 5")
        assert await browser.run(f"return {COUNT}('#table .row').length") < 60
        assert await browser.until("document.querySelector('#table .row').textContent.includes('FAILED')")
        assert "HttpOnly" not in await browser.run("return document.cookie")
        assert "" == await browser.run("return document.cookie")

        await browser.type("#filter", target.app_id)
        await browser.until(f"{COUNT}('#table .row').length === 1")
        await browser.until("order[0].reason.includes('alert') || order[0].reason.includes('evil')")
        await browser.click(_row(target))
        rig.push.say(target.app_id, f"{EVIL}\n", k=0)
        rig.push.say(target.app_id, "".join(f"line {number}\n" for number in range(2000)), k=1)
        await browser.until("lines.length === 2001")
        assert await browser.run(f"return {COUNT}('#log .line').length") < 80
        await browser.until("document.querySelector('#log').lastElementChild.textContent.includes('line 1999')")
        await browser.type("#search", "line 199")
        await browser.until("document.querySelector('#hits').textContent === '11/11'")
        await browser.click("#previous")
        await browser.until("document.querySelector('#hits').textContent === '10/11'")
        await browser.until(f"{COUNT}('#detail .bar').length === 4")
        assert await browser.run("return window.evil === undefined")
        assert 0 == await browser.run(f"return {COUNT}('img, body script').length")
        await browser.picture(_pictures(tmp_path) / "web-log.png")

        await browser.click("#cancel")
        assert await browser.until("document.querySelector('#question').open")
        await browser.click("#no")
        await browser.until("!document.querySelector('#question').open")
        await browser.click("#cancel")
        await browser.click("#yes")
        await browser.until("apps.get(arguments[0]).state === 'CANCELLED'", target)
        assert "RUNNING" == await browser.run("return apps.get(arguments[0]).state", other)
        await browser.run("document.querySelector('#filter').value = ''; arrange()")
        await browser.picture(_pictures(tmp_path) / "web-table.png")


async def test_a_row_keeps_its_element_while_it_changes(
    rig: Rig, serve: Serve, browser: Browser, handles: list[AppHandle]
) -> None:
    target = handles[500]
    async with serve(limits=WebLimits(look_every=0.5)) as visitor:
        await _enter(browser, visitor)
        await browser.until("apps.size === arguments[0]", APPS)
        await browser.type("#filter", target.app_id)
        await browser.click(_row(target))
        rig.push.say(target.app_id, "one\n", k=0)
        await browser.until("lines.length === 1 && !!document.querySelector('#log .line')")
        await browser.run(
            "window.held = [document.querySelector('#table .row'), document.querySelector('#log .line')];"
            "getSelection().selectAllChildren(held[1])"
        )
        rig.push.set_reason(target.app_id, "another reason")
        rig.push.say(target.app_id, "two\n", k=0)
        await browser.until("held[0].textContent.includes('another reason')")
        await browser.until(f"{COUNT}('#log .line').length === 2")

        assert await browser.run("return held.every((row) => row.isConnected)")
        assert "main/0 one" == await browser.run("return getSelection().toString()")


async def test_scrolling_back_leaves_the_end_of_the_log(
    rig: Rig, serve: Serve, browser: Browser, handles: list[AppHandle]
) -> None:
    target = handles[500]
    bottom = "$('log').scrollHeight - $('log').clientHeight - $('log').scrollTop < 2"
    async with serve(limits=WebLimits(look_every=0.5)) as visitor:
        await _enter(browser, visitor)
        await browser.until("apps.size === arguments[0]", APPS)
        await browser.run("choose(arguments[0], false)", target)
        rig.push.say(target.app_id, "line\n" * 500, k=0)
        await browser.until(f"lines.length === 500 && {bottom}")
        await browser.run("document.querySelector('#log').focus()")
        await browser.type("#log", "\ue00e")  # page up
        await browser.until("!$('follow').checked")
        top = await browser.run("return $('log').scrollTop")
        rig.push.say(target.app_id, "line\n" * 500, k=0)
        await browser.until("lines.length === 1000")
        assert abs(top - await browser.run("return $('log').scrollTop")) < 600  # it may still scroll smoothly
        assert not await browser.run("return $('follow').checked")
        await browser.click("#follow")
        await browser.until(f"$('follow').checked && {bottom}")


async def test_a_thousand_apps_are_selected_read_and_cancelled(
    rig: Rig, serve: Serve, browser: Browser, handles: list[AppHandle]
) -> None:
    async with serve(limits=WebLimits(look_every=0.5)) as visitor:
        await _enter(browser, visitor)
        await browser.until("apps.size === arguments[0] && order.length === apps.size", APPS)
        await browser.run("$('table').focus()")
        await browser.press("#table", CONTROL, "a")
        await browser.until("chosen.size === arguments[0]", APPS)
        assert "1000 selected, which is the limit" == await browser.run("return $('chosen').textContent")
        await browser.until("$('title').textContent === 'log of 1000 apps' && $('link').textContent === 'live'")
        for handle in handles[::100]:
            rig.push.say(handle.app_id, "one of a thousand\n", k=0)
        await browser.until("lines.filter((line) => line.text === 'one of a thousand').length === 10")

        await browser.click("#cancel")
        await browser.until("$('question').open")
        assert "Cancel these 690 apps?" in await browser.run("return $('asked').textContent")
        assert "and 680 more" in await browser.run("return $('asked').textContent")
        await browser.click("#yes")
        await browser.until("[...apps.values()].every((app) => app.over)")
        assert "" == await browser.run("return $('notes').textContent")

        await browser.press("#table", ESCAPE)
        await browser.until("chosen.size === 0 && $('title').textContent === 'log: no app selected'")
        await browser.run(f"return {COUNT}('#table .row')[2].click()")
        await browser.run(
            f"const rows = {COUNT}('#table .row');"
            "rows[6].dispatchEvent(new MouseEvent('click', { bubbles: true, shiftKey: true }))"
        )
        await browser.until("chosen.size === 5 && $('title').textContent === 'log of 5 apps'")


async def test_more_than_the_limit_is_not_selected_and_said(
    rig: Rig, serve: Serve, browser: Browser, handles: list[AppHandle]
) -> None:
    async with serve(limits=WebLimits(look_every=0.5, selected=7)) as visitor:
        await _enter(browser, visitor)
        await browser.until("apps.size === arguments[0] && order.length === apps.size", APPS)
        await browser.press("#table", CONTROL, "a")
        await browser.until("$('title').textContent === 'log of 7 apps' && $('link').textContent === 'live'")

        assert "7 selected, which is the limit" == await browser.run("return $('chosen').textContent")


def _has_read(hub: Hub, number: int) -> bool:
    return any(page.reader is not None and page.reader.number >= number for page in hub.pages)


async def test_no_line_is_lost_or_doubled_over_a_hundred_breaks(
    rig: Rig, serve: Serve, browser: Browser, handles: list[AppHandle]
) -> None:
    target = handles[500]
    async with serve(limits=WebLimits(look_every=0.5)) as visitor:
        hub = visitor.server.hub
        await _enter(browser, visitor)
        await browser.until("apps.size === arguments[0]", APPS)
        await browser.run(
            "window.got = []; const add = addLines;"
            "addLines = (told) => { window.missing = (window.missing || 0) + told.missed;"
            " for (const line of told.lines) window.got.push(+line.text.split(' ')[0]); add(told); };"
        )
        await browser.run("choose(arguments[0], false)", target)
        said = 0
        for _ in range(BREAKS):
            await eventually(lambda: any(page.reader for page in hub.pages))
            rig.push.say(target.app_id, "".join(f"{said + each} flood\n" for each in range(300)), k=0)
            said += 300
            await eventually(partial(_has_read, hub, said - 200))
            for page in [*hub.pages]:
                page.cut()
        await browser.until("window.got.length >= arguments[0]", said)
        got = await browser.run("return window.got")
        kept = await browser.run("return lines.length")

        assert [*range(said)] == got
        assert 0 == await browser.run("return window.missing")
        assert kept <= 20_000
        assert hub.tails[0].bytes <= 8 << 20


async def test_a_selection_that_was_pushed_out_is_renewed_at_once(rig: Rig, serve: Serve, browser: Browser) -> None:
    handle, other = await rig.run(), await rig.run()
    async with serve(limits=WebLimits(look_every=0.01, selections=1)) as visitor:
        hub = visitor.server.hub
        await _enter(browser, visitor)
        await browser.until("apps.size === 2")
        await browser.click(_row(handle))
        await eventually(lambda: hub.tails and hub.pages)
        await browser.until("document.querySelector('#link').textContent === 'live'")
        await browser.run(
            "window.told = []; window.waits = 0; const tell = tellLink, wait = setTimeout;"
            "tellLink = (text, broken) => { told.push(text); tell(text, broken); };"
            "setTimeout = (act, delay) => { if (act === connect) waits++; return wait(act, delay); };"
        )
        await visitor.select(other)
        for page in [*hub.pages]:
            page.cut()
        await browser.until("told.at(-1) === 'live'")
        rig.say(handle, "one more")
        await browser.until("lines.length === 1")

        told = await browser.run("return told")
        assert ["connection lost; reconnecting", "connection lost; selecting the apps again", "live"] == told
        assert 0 == await browser.run("return waits")


@pytest.mark.one_loop  # the server is a process
@pytest.mark.timeout(1800)
async def test_ten_minutes_of_a_flood_lose_no_line_and_stay_within_memory(browser: Browser) -> None:
    async with _flooding() as (server, url, handle):
        assert server.stdin is not None
        await _open(browser, url)
        await browser.until("apps.size === arguments[0]", APPS)
        await browser.run(
            "window.seen = 0; window.wrong = 0; window.joined = 0; const add = addLines;"
            "addLines = (told) => { wrong += told.missed;"
            " for (const line of told.lines) if (+line.text.split(' ')[0] === seen) seen++; else wrong++;"
            " add(told); };"
            "window.breaks = 0; const tellIt = tellLink;"
            "tellLink = (text, broken) => { if (broken) breaks++; tellIt(text, broken); };"
            "choose(arguments[0], false)",
            handle,
        )
        began = time.monotonic()
        used: list[Used] = []
        for number in range(BREAKS):
            before = await browser.run("return window.seen")
            await browser.until("window.seen > arguments[0]", before)
            await eventually(partial(_is_past, began + SECONDS * (number + 1) / BREAKS), within=SECONDS)
            if number % 5 == 4:
                used.append(Used(resident(server.pid), await browser.script_memory(), browser.tab_memory()))
                print(f"{time.monotonic() - began:.0f} s, {await browser.run('return window.seen')} lines, {used[-1]}")
            server.stdin.write(b"cut\n")
            await browser.until("window.breaks > arguments[0] && $('link').textContent === 'live'", number)
        seen, wrong, kept = await browser.run("return [window.seen, window.wrong, lines.length]")
        changed = await browser.run("return [...apps.values()].filter((app) => app.reason.includes('step')).length")

    assert 0 == wrong
    assert seen > 10 * kept
    assert 20_000 == kept
    assert APPS - 1 == changed
    early, late = Used(*map(max, zip(*used[:5], strict=True))), Used(*map(max, zip(*used[-5:], strict=True)))
    for name, first, last in zip(Used._fields, early, late, strict=True):
        assert last < 1.3 * first, f"{name}: {used}"


class Used(NamedTuple):
    """Bytes of memory."""

    server: int
    script: int
    tab: int


def _is_past(when: float) -> bool:
    return time.monotonic() >= when


@asynccontextmanager
async def _flooding() -> AsyncIterator[tuple[asyncio.subprocess.Process, str, str]]:
    command = [sys.executable, "-m", "tests.web.flooding"]
    pipe = asyncio.subprocess.PIPE
    server = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        url, handle = (await server.stdout.readline()).decode().split()
        yield server, url, handle
    finally:
        server.stdin.close()
        await server.wait()


async def test_durations_read_as_everywhere(visitor: Visitor, browser: Browser) -> None:
    await _enter(browser, visitor)
    for seconds in (0, 59, 60, 3599, 3600, 172_799, 172_800, 1_000_000):
        assert span(timedelta(seconds=seconds)) == await browser.run("return span(arguments[0] * 1000)", seconds)


def _pictures(tmp_path: Path) -> Path:
    folder = Path(os.environ.get("ASYNCSCHED_TEST_PICTURES", tmp_path))
    folder.mkdir(exist_ok=True)
    return folder
