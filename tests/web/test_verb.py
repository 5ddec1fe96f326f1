"""The verb, as a process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import aiohttp
import pytest

from tests._support import WITHIN


@pytest.mark.slow
async def test_the_verb_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    environment = {**os.environ, "ASYNCSCHED_HOME": str(tmp_path), "ASYNCSCHED_SCHEDULERS": "local_cwd"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "asyncsched", "web", stdout=asyncio.subprocess.PIPE, env=environment
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(WITHIN), aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
            url = (await process.stdout.readline()).decode().strip()
            async with session.get(url.partition("?")[0]) as answer:
                assert 401 == answer.status
            async with session.get(url) as answer:
                assert (200, True) == (answer.status, bool(answer.cookies))
            process.send_signal(signal.SIGINT)
            code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()

    assert url.startswith("http://127.0.0.1:")
    assert 130 == code
