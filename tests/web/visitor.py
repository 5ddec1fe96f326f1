"""A browser of few words: one that keeps the cookie, says where it asks from, and reads the stream."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp
from yarl import URL

from asyncsched.web.server import PageServer

SAME_SITE = {"Sec-Fetch-Site": "same-origin"}


class Event(NamedTuple):
    id: str
    kind: str
    data: Any


class Visitor:
    """Asks one server.

    Attributes:
        cookie: The cookie that it has got.
    """

    def __init__(self, server: PageServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session
        self.cookie = ""

    @property
    def origin(self) -> dict[str, str]:
        return {"Origin": self.server.address}

    async def enter(self) -> aiohttp.ClientResponse:
        async with self.session.get(self.server.url) as answer:
            await answer.read()
        if self.server.gate.cookie in answer.cookies:
            self.cookie = f"{self.server.gate.cookie}={answer.cookies[self.server.gate.cookie].value}"
        return answer

    @asynccontextmanager
    async def request(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, **more: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        own = {"Cookie": self.cookie} if self.cookie else {}
        url = URL(self.server.address + path, encoded=True)
        async with self.session.request(method, url, headers={**own, **(headers or {})}, **more) as answer:
            yield answer

    async def ask(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, **more: Any
    ) -> tuple[int, str]:
        async with self.request(method, path, headers, **more) as answer:
            return answer.status, await answer.text()

    async def told(self, method: str, path: str, headers: Mapping[str, str] | None = None, **more: Any) -> Any:
        return json.loads((await self.ask(method, path, headers, **more))[1])

    async def select(self, *handles: str) -> str:
        told = await self.told("POST", "/api/selections", self.origin, json={"handles": handles})
        return str(told["selection"])

    @asynccontextmanager
    async def stream(self, *handles: str, selection: str = "", after: str = "") -> AsyncIterator[AsyncGenerator[Event]]:
        named = [f"selection={selection}"] if selection else []
        query = "&".join([*named, *(f"log={handle}" for handle in handles)])
        headers = {**SAME_SITE, **({"Last-Event-ID": after} if after else {})}
        async with self.request("GET", f"/api/events?{query}", headers) as answer:
            assert 200 == answer.status, await answer.text()
            yield events_of(answer)


async def events_of(answer: aiohttp.ClientResponse) -> AsyncGenerator[Event]:
    fields: dict[str, str] = {}
    begun = b""
    async for chunk in answer.content.iter_any():
        *lines, begun = (begun + chunk).split(b"\n")
        for line in lines:
            name, colon, value = line.decode().partition(": ")
            if colon:
                fields[name] = value
            elif "data" in fields:
                yield Event(fields["id"], fields["event"], json.loads(fields["data"]))
                fields = {}
