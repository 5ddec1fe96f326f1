"""Connect to a Docker daemon over a socket, TCP, TLS or SSH, with a version of the API that it supports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import aiohttp
from aiodocker import Docker

from asyncsched._dockerd.endpoint import Endpoint
from asyncsched._dockerd.errors import ForeignAnswerError
from asyncsched._typing import NamedTuple
from asyncsched.errors import ConfigError

__all__ = ["DaemonConnection", "endless", "hang_up", "open_connection"]

CONNECT_TIMEOUT = 10.0


class DaemonConnection(NamedTuple):
    docker: Docker
    session: aiohttp.ClientSession
    plain: aiohttp.ClientSession
    """A session that speaks HTTP/1.0, which marks neither the pieces nor the end of an answer."""

    async def close(self) -> None:
        """Close every connection of both sessions."""
        await self.plain.close()
        await self.session.close()


async def open_connection(endpoint: Endpoint, request_timeout: float) -> DaemonConnection:
    """Connect to the daemon and agree on an API version; raises what aiohttp does, or ForeignAnswerError."""
    connection = await _open(endpoint, request_timeout)
    try:
        connection.docker.api_version = await _agree_on_version(connection)
    except BaseException:
        await connection.close()
        raise
    return connection


async def _agree_on_version(connection: DaemonConnection) -> str:
    # Through the session: aiodocker would request the version with a version in the URL.
    async with connection.session.get(f"{connection.docker.docker_host}/version") as response:
        response.raise_for_status()
        answer: Any = await response.json()
        if not isinstance(answer, dict) or "ApiVersion" not in answer:
            raise ForeignAnswerError
        return f"v{answer['ApiVersion']}"


async def _open(endpoint: Endpoint, request_timeout: float) -> DaemonConnection:
    connector, url = await asyncio.to_thread(_prepare, endpoint)
    timeout = aiohttp.ClientTimeout(total=request_timeout, sock_connect=CONNECT_TIMEOUT)
    bound = connector()
    trace = aiohttp.TraceConfig()
    trace.on_request_headers_sent.append(_tell_sent)
    session = aiohttp.ClientSession(connector=bound, timeout=timeout, trace_configs=[trace])
    plain = aiohttp.ClientSession(connector=bound, connector_owner=False, version=aiohttp.HttpVersion10)
    docker = Docker(url, connector=bound, session=session, timeout=timeout)
    return DaemonConnection(docker, session, plain)


def _prepare(endpoint: Endpoint) -> tuple[Callable[[], aiohttp.BaseConnector], str]:
    """Read certificates and import what the address needs; it blocks: use a thread."""
    # Each tail keeps a connection open: a limit would block all other requests.
    if endpoint.socket is not None:
        path = str(endpoint.socket)
        return (lambda: aiohttp.UnixConnector(path, limit=0)), "unix://localhost"
    if endpoint.url.startswith("ssh://"):
        return _ssh_connector(endpoint), "unix://localhost"
    context = endpoint.tls.context() if endpoint.tls else True
    return (lambda: aiohttp.TCPConnector(limit=0, ssl=context)), endpoint.url


def _ssh_connector(endpoint: Endpoint) -> Callable[[], aiohttp.BaseConnector]:
    try:
        import_module("asyncssh")
    except ImportError as error:
        raise ConfigError(
            f"cannot reach Docker over {endpoint.url}",
            why=f"{endpoint.source} names an ssh:// address, which needs the package asyncssh",
            fix="pip install 'aiodocker[ssh]'",
        ) from error
    from aiodocker.ssh import SSHConnector

    return lambda: SSHConnector(endpoint.url, limit=0)


async def _tell_sent(
    session: aiohttp.ClientSession, context: SimpleNamespace, params: aiohttp.TraceRequestHeadersSentParams
) -> None:
    if context.trace_request_ctx is not None:
        context.trace_request_ctx.on_sent()


def hang_up(response: aiohttp.ClientResponse) -> None:
    """Close our half of a connection, which cancels the request: closing both would not show when it has ended."""
    connection = response.connection
    if connection is None or connection.transport is None or not connection.transport.can_write_eof():
        return  # the answer is complete, or the connection has TLS, which has no half-close: the request continues
    assert connection.protocol is not None
    connection.protocol.force_close()  # it cannot be used for another request
    connection.transport.write_eof()


def endless() -> aiohttp.ClientTimeout:
    """Return the time limits of a request that may take as long as it needs."""
    return aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT)
