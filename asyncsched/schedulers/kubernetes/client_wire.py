"""Connections to the API server: sessions of aiohttp, and the bodies of streams."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from asyncsched import __version__
from asyncsched._typing import override
from asyncsched.schedulers.kubernetes.errors import ApiFailure, read_failure

if TYPE_CHECKING:
    import asyncio

    import aiohttp
    from aiohttp.client_proto import ResponseHandler

    from asyncsched.schedulers.kubernetes.client_credentials import CallAccess

__all__ = [
    "STREAM_BUFFER",
    "TLS_OF_CALL",
    "TLS_OF_STREAM",
    "APICall",
    "ByteStream",
    "open_session",
    "read_refusal",
    "send",
]

CONNECT_TIMEOUT = 10.0
STREAM_BUFFER = 64 << 10
"""Bytes of a stream that are read ahead of its reader, twice as many at most."""
TLS_OF_CALL, TLS_OF_STREAM = 64 << 10, 17 << 10
"""Bytes that a connection holds for what is not decrypted yet: a record of TLS has 16 KiB and some more."""
LARGEST_REFUSAL = 64 << 10


class APICall(NamedTuple):
    """A request, as it is sent with whatever credentials."""

    method: str
    path: str
    query: Mapping[str, str] | None
    data: bytes | None
    headers: Mapping[str, str]
    operation: str

    @property
    def group_version(self) -> str:
        """Of what group and version its objects are: ``batch/v1`` of ``/apis/batch/v1/jobs``."""
        return "/".join(self.path.split("/")[2:4])


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


async def send(session: aiohttp.ClientSession, access: CallAccess, call: APICall) -> aiohttp.ClientResponse:
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


def open_session(buffer: int, tls: int) -> aiohttp.ClientSession:
    """Make a session without limit: calls wait for their turn before, and streams never keep them waiting.

    Args:
        buffer: Bytes that are read ahead of a reader.
        tls: Bytes that a connection holds for TLS.
    """
    import aiohttp

    class Connector(aiohttp.TCPConnector):
        @override
        async def _create_connection(self, *args: Any, **more: Any) -> ResponseHandler:
            made = await super()._create_connection(*args, **more)
            _make_small(made.transport, tls)
            return made

    return aiohttp.ClientSession(
        connector=Connector(limit=0, ttl_dns_cache=30, keepalive_timeout=30),
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


def _broken() -> tuple[type[Exception], ...]:
    """Return what is raised where a connection breaks, or what comes over it is not HTTP."""
    import aiohttp
    from aiohttp.http import HttpProcessingError

    return aiohttp.ClientError, HttpProcessingError, OSError


def _make_small(transport: asyncio.BaseTransport | None, tls: int) -> None:
    """Have a connection keep less for TLS than 256 KiB, and notice within a minute that its peer is gone."""
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
        protocol.max_size = tls
        protocol._ssl_buffer = bytearray()  # made anew, of that size, by the next read
        protocol._ssl_buffer_view = memoryview(protocol._ssl_buffer)
