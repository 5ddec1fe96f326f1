from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import aiohttp
import pytest

from asyncsched.web.server import serving
from tests.runner.rig import Rig
from tests.web.visitor import Visitor

Serve = Callable[..., AbstractAsyncContextManager[Visitor]]


@pytest.fixture
async def rig() -> AsyncGenerator[Rig]:
    """A runner over two services in memory, one that reports changes and one that is asked."""
    async with Rig() as rig:
        yield rig


@pytest.fixture
async def serve(rig: Rig) -> Serve:
    """Serve the page, with a visitor who has been let in."""

    @asynccontextmanager
    async def start(**settings: Any) -> AsyncIterator[Visitor]:
        patient = aiohttp.ClientTimeout(total=None)
        connector = aiohttp.TCPConnector(limit=0)
        async with (
            serving(rig.runner, **settings) as server,
            aiohttp.ClientSession(connector=connector, timeout=patient, cookie_jar=aiohttp.DummyCookieJar()) as session,
        ):
            visitor = Visitor(server, session)
            await visitor.enter()
            yield visitor

    return start


@pytest.fixture
async def visitor(serve: Serve) -> AsyncGenerator[Visitor]:
    """A visitor of a server with the usual limits."""
    async with serve() as visitor:
        yield visitor
