"""Connect to the API server: aiohttp sessions, and the bodies of streams."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from asyncsched import __version__
from asyncsched._typing import NamedTuple, override
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
"""Bytes of a stream that are read ahead; at most twice this."""
TLS_OF_CALL, TLS_OF_STREAM = 64 << 10, 17 << 10
"""Bytes of a connection's buffer for encrypted data; a TLS record takes a little over 16 KiB."""
LARGEST_REFUSAL = 64 << 10


class APICall(NamedTuple):
    """A request without credentials."""

    method: str
    path: str
    query: Mapping[str, str] | None
    data: bytes | None
    headers: Mapping[str, str]
    operation: str

    @property
    def group_version(self) -> str:
        """The group and version in the path: ``batch/v1`` of ``/apis/batch/v1/jobs``."""
        return "/".join(self.path.split("/")[2:4])


class ByteStream:
    """The body of an answer with a status below 400, read as it arrives.

    Attributes:
        status: The HTTP status (200 or 204).
        headers: The HTTP headers.
    """

    def __init__(self, response: aiohttp.ClientResponse, failed: Callable[[Exception], Exception]) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._failed = failed

    async def read_chunk(self) -> bytes:
        """Return the next bytes, about 64 KiB at most; empty at the end.

        Raises:
            UnavailableError: The connection broke.
        """
        try:
            return await self._response.content.read(STREAM_BUFFER)
        except _broken() as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Close the connection; leaving the context manager closes it too."""
        self._response.close()


async def send(session: aiohttp.ClientSession, access: CallAccess, call: APICall) -> aiohttp.ClientResponse:
    """Send a request, and return the answer as soon as its headers have arrived."""
    import yarl  # part of aiohttp, which was already imported in a thread

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
    """Make a session without a connection limit: the client limits calls itself, and streams must not block them.

    Args:
        buffer: Bytes to read ahead.
        tls: Bytes of a connection's TLS buffer.
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
    """Read a refusal, and close the answer."""
    try:
        body = await response.content.read(LARGEST_REFUSAL)
    except _broken():
        body = b""  # the status alone is enough
    finally:
        response.close()
    return read_failure(response.status, body, response.headers)


def _broken() -> tuple[type[Exception], ...]:
    """Return the exceptions that a broken connection or invalid HTTP raises."""
    import aiohttp
    from aiohttp.http import HttpProcessingError

    return aiohttp.ClientError, HttpProcessingError, OSError


def _make_small(transport: asyncio.BaseTransport | None, tls: int) -> None:
    """Shrink a connection's TLS buffer from 256 KiB, and make it notice a dead peer within a minute."""
    if transport is None:
        return
    wire: socket.socket | None = transport.get_extra_info("socket")
    if wire is not None and wire.family in (socket.AF_INET, socket.AF_INET6):
        for option, value in (("SO_KEEPALIVE", 1), ("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
            if (number := getattr(socket, option, None)) is not None:
                level = socket.SOL_SOCKET if option == "SO_KEEPALIVE" else socket.IPPROTO_TCP
                wire.setsockopt(level, number, value)
    protocol: Any = getattr(transport, "_ssl_protocol", None)
    if isinstance(getattr(protocol, "_ssl_buffer", None), bytearray):  # asyncio only; uvloop's buffer has a fixed size
        protocol.max_size = tls
        protocol._ssl_buffer = bytearray()  # the next read allocates it with that size
        protocol._ssl_buffer_view = memoryview(protocol._ssl_buffer)
