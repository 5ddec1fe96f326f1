"""A proxy on a daemon's socket that breaks connections: at random, at a request, or when it is told to."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Self

from tests._support import eventually

_METHODS = (b"GET ", b"POST ", b"DELETE ", b"HEAD ", b"PUT ")


class CuttingProxy:
    """Stands between a scheduler and its daemon.

    Attributes:
        host: The address for ``DOCKER_HOST``.
        requests: The first line of each request that came, in order.
        cuts: How many connections were broken.
        lifetime: Shortest and longest time after which a connection is broken; None for never.
        drop: Says of a request, by its number and its first line, whether to break the connection instead of
            handing it on (``"before"``), or instead of handing its answer back (``"after"``).
        held: Requests that contain this are kept until `release`.
        silenced: From now on, nothing of the answers to requests that contain this arrives.
        room: Says of a request, by its first line, after how many bytes of the answer to break the connection.
    """

    def __init__(self, daemon: Path, directory: Path) -> None:
        self._daemon = daemon
        self._path = directory / "proxy.sock"
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self.host = f"unix://{self._path}"
        self.requests: list[str] = []
        self.cuts = 0
        self.lifetime: tuple[float, float] | None = None
        self.held = ""
        self.silenced = ""
        self.drop: Callable[[int, str], str] = lambda number, line: ""
        self.room: Callable[[str], int | None] = lambda line: None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(lambda: _Link(self), str(self._path))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await self._server.wait_closed()
        await eventually(lambda: not self._links)

    async def leave(self) -> None:
        """Stop listening; the connections that there are stay."""
        assert self._server is not None
        self._server.close()
        self._path.unlink(missing_ok=True)

    def cut(self, of: str = "") -> None:
        """Break every connection whose last request contains this."""
        for link in list(self._links):
            if of in link.last_request:
                link.cut()

    def release(self) -> None:
        """Hand on what was held, and hold nothing more."""
        self.held = ""
        for link in list(self._links):
            link.hand_on()

    def count(self, of: str) -> int:
        """Count the open connections whose last request contains this."""
        return sum(of in link.last_request and not link.is_cut for link in self._links)


class _Link(asyncio.Protocol):
    """One connection from a client, with its own to the daemon."""

    def __init__(self, proxy: CuttingProxy) -> None:
        self._proxy = proxy
        self._client: asyncio.Transport | None = None
        self._behind: _Behind | None = None
        self._waiting: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        self._opening: asyncio.Task[None] | None = None
        self.last_request = ""
        self.mute = False
        self.room: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._client = transport  # type: ignore[assignment]
        self._proxy._links.add(self)
        loop = asyncio.get_running_loop()
        self._opening = loop.create_task(self._open())
        if self._proxy.lifetime is not None:
            self._timer = loop.call_later(random.uniform(*self._proxy.lifetime), self.cut)

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, behind = await loop.create_unix_connection(lambda: _Behind(self), str(self._proxy._daemon))
        except OSError:
            self._abort()
            return
        self._behind = behind
        self.hand_on()

    def hand_on(self) -> None:
        """Hand on what came before there was anybody behind, or was held."""
        if self._behind is not None and not self._held:
            for data in self._waiting:
                self._behind.write(data)
            self._waiting.clear()

    @property
    def _held(self) -> bool:
        return bool(self._proxy.held) and self._proxy.held in self.last_request

    @property
    def _silenced(self) -> bool:
        return bool(self._proxy.silenced) and self._proxy.silenced in self.last_request

    def data_received(self, data: bytes) -> None:
        if data.startswith(_METHODS):
            self.last_request = data.partition(b"\r\n")[0].decode()
            number = len(self._proxy.requests)
            self._proxy.requests.append(self.last_request)
            drop = self._proxy.drop(number, self.last_request)
            if drop == "before":
                self.cut()
                return
            self.mute = drop == "after"
            self.room = self._proxy.room(self.last_request)
        if self._behind is None or self._held:
            self._waiting.append(data)
        else:
            self._behind.write(data)

    def answer(self, data: bytes) -> None:
        if self.mute:
            self.cut()
        elif self._client is not None and not self._silenced:
            self._client.write(data if self.room is None else data[: self.room])
            if self.room is not None:
                self.room -= len(data)
                if self.room <= 0:
                    self.end_of_answers()  # what was written arrives

    @property
    def is_cut(self) -> bool:
        return self._client is not None and self._client.is_closing()

    def cut(self) -> None:
        if self._client is not None and not self._client.is_closing():
            self._proxy.cuts += 1
        self._abort()

    def end_of_answers(self) -> None:
        if self._client is not None:
            self._client.close()

    def _abort(self) -> None:
        if self._client is not None:
            self._client.abort()

    def pause_writing(self) -> None:
        if self._behind is not None:
            self._behind.pause()

    def resume_writing(self) -> None:
        if self._behind is not None:
            self._behind.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self._proxy._links.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._behind is not None:
            self._behind.close()
        elif self._opening is not None:
            self._opening.cancel()


class _Behind(asyncio.Protocol):
    """The connection to the daemon."""

    def __init__(self, link: _Link) -> None:
        self._link = link
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._link.answer(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.end_of_answers()

    def write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()
