"""Chromium, by the WebDriver protocol."""

from __future__ import annotations

import asyncio
import base64
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

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self._session = session
        self._base = base

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

    async def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(await self.do("GET", "/screenshot")))


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
            browser = Browser(session, f"{base}/session/{made['sessionId']}")
            try:
                yield browser
            finally:
                await browser.do("DELETE", "")
    finally:
        driver.terminate()
        await driver.wait()
