"""Chromium, by the WebDriver protocol."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests._support import WITHIN, eventually

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
STARTS = 10
ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1200,800"]


def is_there() -> bool:
    """Tell whether there is a browser to drive."""
    return shutil.which("chromium") is not None and shutil.which("chromedriver") is not None


class Browser:
    """One window."""

    def __init__(self, session: aiohttp.ClientSession, base: str, driver: int) -> None:
        self._session = session
        self._base = base
        self._driver = driver

    async def do(self, method: str, path: str, data: Any = None) -> Any:
        body = (data or {}) if method == "POST" else None
        async with self._session.request(method, self._base + path, json=body) as answer:
            told = (await answer.json())["value"]
        assert not (isinstance(told, dict) and "error" in told), told
        return told

    async def open(self, url: str) -> None:
        await self.do("POST", "/url", {"url": url})

    async def run(self, script: str, *arguments: Any) -> Any:
        return await self.do("POST", "/execute/sync", {"script": script, "args": [*arguments]})

    async def until(self, script: str, *arguments: Any) -> Any:
        return await eventually(lambda: self.run(f"return {script}", *arguments), within=WITHIN)

    async def click(self, selector: str) -> None:
        found = await self.do("POST", "/element", {"using": "css selector", "value": selector})
        await self.do("POST", f"/element/{found[ELEMENT]}/click")

    async def type(self, selector: str, text: str) -> None:
        found = await self.do("POST", "/element", {"using": "css selector", "value": selector})
        await self.do("POST", f"/element/{found[ELEMENT]}/value", {"text": text})

    async def press(self, selector: str, *keys: str) -> None:
        """Press keys together, with the focus on an element."""
        await self.run("document.querySelector(arguments[0]).focus()", selector)
        actions = [{"type": "keyDown", "value": key} for key in keys]
        actions += [{"type": "keyUp", "value": key} for key in reversed(keys)]
        await self.do("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    async def devtools(self, command: str, **parameters: Any) -> Any:
        return await self.do("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    async def script_memory(self) -> int:
        """Return the bytes that the page's script holds, without what is only waiting to be collected."""
        await self.devtools("Performance.enable")
        await self.devtools("HeapProfiler.collectGarbage")
        found = await self.devtools("Performance.getMetrics")
        return next(int(metric["value"]) for metric in found["metrics"] if metric["name"] == "JSHeapUsedSize")

    def tab_memory(self) -> int:
        """Return the bytes of the page's process: the largest of those that render."""
        below = _descendants(self._driver)
        return max(resident(pid) for pid in below if b"--type=renderer" in Path(f"/proc/{pid}/cmdline").read_bytes())

    async def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(await self.do("GET", "/screenshot")))


def resident(pid: int) -> int:
    """Return the bytes that a process has in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _descendants(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    return [*children, *(each for child in children for each in _descendants(child))]


async def _driver() -> tuple[asyncio.subprocess.Process, int]:
    """Start a driver; return it with its port. One chooses a free port of IPv6, which may be in use for IPv4."""
    for _ in range(STARTS):
        driver = await asyncio.create_subprocess_exec(
            "chromedriver", "--port=0", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        assert driver.stdout is not None
        async for line in driver.stdout:
            if found := re.search(rb"started successfully on port (\d+)", line):
                return driver, int(found[1])
        await driver.wait()
    raise AssertionError(f"chromedriver has found no port {STARTS} times")


@asynccontextmanager
async def browsing(folder: Path) -> AsyncIterator[Browser]:
    """Start a browser, and end it."""
    driver, port = await _driver()
    base = f"http://127.0.0.1:{port}"
    options = {"args": [*ARGUMENTS, f"--user-data-dir={folder}"], "binary": shutil.which("chromium")}
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=120)) as session:

            async def is_ready() -> bool:
                try:
                    async with session.get(f"{base}/status") as answer:
                        return bool((await answer.json())["value"]["ready"])
                except aiohttp.ClientError:
                    return False

            await eventually(is_ready)
            asked = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}}
            async with session.post(f"{base}/session", json=asked) as answer:
                made = (await answer.json())["value"]
            assert "sessionId" in made, made
            browser = Browser(session, f"{base}/session/{made['sessionId']}", driver.pid)
            try:
                yield browser
            finally:
                await browser.do("DELETE", "")
    finally:
        driver.terminate()
        await driver.wait()
