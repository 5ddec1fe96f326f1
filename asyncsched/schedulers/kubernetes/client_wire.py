"""Connections to the API server: sessions of aiohttp, and the bodies of streams."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from asyncsched import __version__
from asyncsched.schedulers.kubernetes.errors import ApiFailure, read_failure

if TYPE_CHECKING:
    import aiohttp

    from asyncsched.schedulers.kubernetes.client_credentials import Access

__all__ = [
    "JUST_STARTED",
    "STREAM_BUFFER",
    "ByteStream",
    "Call",
    "is_starting",
    "make_small",
    "open_session",
    "read_refusal",
    "send",
]

CONNECT_TIMEOUT = 10.0
STREAM_BUFFER = 64 << 10
"""Bytes of a stream that are read ahead of its reader, twice as many at most."""
LARGEST_REFUSAL = 64 << 10
JUST_STARTED = ApiFailure(503, "", "it has just been started, and does not know users and roles yet")


class Call(NamedTuple):
    """A request, as it is sent with whatever credentials."""

    method: str
    path: str
    query: Mapping[str, str] | None
    data: bytes | None
    headers: Mapping[str, str]
    operation: str


class ByteStream:
    """The body of an answer with a status below 400 (200, or 204), as it comes.

    Attributes:
        status: The HTTP status.
        headers: Its headers.
    """

    def __init__(self, response: aiohttp.ClientResponse, failed: Callable[[Exception], Exception]) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._failed = failed

    async def read_chunk(self) -> bytes:
        """Return what came next, at most some 64 KiB; empty at the end.

        Raises:
            UnavailableError: The connection broke.
        """
        try:
            return await self._response.content.read(STREAM_BUFFER)
        except _broken() as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Close the connection; the context manager does it, too."""
        self._response.close()


async def send(session: aiohttp.ClientSession, access: Access, call: Call) -> aiohttp.ClientResponse:
    """Send a request, and return its answer as soon as its headers are there."""
    import yarl  # comes with aiohttp, which has been imported in a thread

    target = access.target
    url = yarl.URL(target.peer.server + call.path, encoded=True)
    if call.query:
        url = url.with_query(dict(call.query))
    return await session.request(
        call.method,
        url,
        data=call.data,
        headers={**access.headers, **call.headers},
        ssl=access.tls if access.tls is not None else True,
        server_hostname=target.server_name,
        proxy=target.proxy,
        allow_redirects=False,
    )


def open_session(buffer: int) -> aiohttp.ClientSession:
    """Make a session without limit: calls wait for their turn before, and streams never keep them waiting."""
    import aiohttp

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=30, keepalive_timeout=30),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": f"asyncsched/{__version__}"},
        read_bufsize=buffer,
        auto_decompress=True,
        trust_env=False,
    )


async def read_refusal(response: aiohttp.ClientResponse) -> ApiFailure:
    """Read an answer that is a refusal, and close it."""
    try:
        body = await response.content.read(LARGEST_REFUSAL)
    except _broken():
        body = b""  # the status alone says enough
    finally:
        response.close()
    return read_failure(response.status, body, response.headers)


async def is_starting(session: aiohttp.ClientSession, access: Access) -> bool:
    """Tell whether a server says itself that it is not ready: it refuses what it allows a second later."""
    response = await send(session, access, Call("GET", "/readyz", None, None, {"Accept": "*/*"}, "connect"))
    response.close()
    return response.status >= 500


def _broken() -> tuple[type[Exception], ...]:
    """Return what is raised where a connection breaks, or what comes over it is not HTTP."""
    import aiohttp
    from aiohttp.http import HttpProcessingError

    return aiohttp.ClientError, HttpProcessingError, OSError


def make_small(response: aiohttp.ClientResponse) -> None:
    """Have a stream keep 32 KiB for TLS in place of 256, and notice within a minute that its peer is gone."""
    transport = response.connection.transport if response.connection is not None else None
    if transport is None:
        return
    wire: socket.socket | None = transport.get_extra_info("socket")
    if wire is not None and wire.family in (socket.AF_INET, socket.AF_INET6):
        for option, value in (("SO_KEEPALIVE", 1), ("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
            if (number := getattr(socket, option, None)) is not None:
                level = socket.SOL_SOCKET if option == "SO_KEEPALIVE" else socket.IPPROTO_TCP
                wire.setsockopt(level, number, value)
    protocol: Any = getattr(transport, "_ssl_protocol", None)
    if isinstance(getattr(protocol, "_ssl_buffer", None), bytearray):  # asyncio's own; uvloop's is of fixed size
        protocol.max_size = 32 << 10
        protocol._ssl_buffer = bytearray()  # made anew, of that size, by the next read
        protocol._ssl_buffer_view = memoryview(protocol._ssl_buffer)
