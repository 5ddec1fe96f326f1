"""Connections that send half a request, or none: their number and their time have bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from asyncsched.web.hub import WebLimits
from tests._support import WITHIN, eventually
from tests.runner.rig import Rig
from tests.web.conftest import Serve
from tests.web.visitor import Visitor

HALVES = [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n"]
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def _connection(visitor: Visitor, sent: bytes) -> AsyncIterator[Stream]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(visitor.server.address.rpartition(":")[2]))
    try:
        writer.write(sent)
        yield reader, writer
    finally:
        writer.close()


async def _is_closed(reader: asyncio.StreamReader) -> bool:
    """Wait until the server closes the connection, and return whether it had sent nothing."""
    try:
        async with asyncio.timeout(WITHIN):
            return await reader.read() == b""
    except ConnectionError:
        return True


async def test_more_connections_than_the_limit_are_closed_at_once(rig: Rig, serve: Serve) -> None:
    async with serve(limits=WebLimits(connections=5)) as visitor, AsyncExitStack() as stack:
        held = [await stack.enter_async_context(_connection(visitor, HALVES[2])) for _ in range(4)]  # and the visitor's
        for half in HALVES:
            async with _connection(visitor, half) as (reader, _):
                assert await _is_closed(reader)
        assert 200 == (await visitor.ask("GET", "/api/apps"))[0], "those that were open before stay"
        held[0][1].close()

        async def has_room() -> bool:
            async with _connection(visitor, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n") as (reader, _):
                try:
                    return (await reader.readline()).startswith(b"HTTP/1.1 403")
                except ConnectionError:
                    return False

        await eventually(has_room)


@pytest.mark.parametrize("half", HALVES)
async def test_a_request_that_does_not_come_is_not_waited_for_long(rig: Rig, serve: Serve, half: bytes) -> None:
    async with serve(limits=WebLimits(head=2.0)) as visitor, _connection(visitor, half) as (reader, _):
        assert await _is_closed(reader)


async def test_half_a_request_after_a_whole_one_is_not_waited_for_long(rig: Rig, serve: Serve) -> None:
    whole = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    async with (
        serve(limits=WebLimits(head=2.0)) as visitor,
        _connection(visitor, whole + HALVES[2]) as (reader, _),
        asyncio.timeout(WITHIN),
    ):
        assert (await reader.read()).startswith(b"HTTP/1.1 403")


async def test_a_stream_outlasts_the_time_for_a_request(rig: Rig, serve: Serve) -> None:
    async with serve(limits=WebLimits(head=2.0, look_every=0.01, pace=0.0)) as visitor:
        async with asyncio.timeout(WITHIN), visitor.stream() as events:
            await anext(events)
            async with _connection(visitor, b"") as (reader, _):
                assert await _is_closed(reader)  # the time is over
            handle = await rig.run("push")
            async for event in events:
                if event.kind == "apps" and any(app["handle"] == handle for app in event.data["apps"]):
                    break
