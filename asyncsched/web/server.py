"""The page's server: on the loopback interface only, with an address that admits one browser, once."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from aiohttp import web
from anyio import to_thread

from asyncsched._typing import override
from asyncsched.errors import ConfigError
from asyncsched.runner.results import AppList
from asyncsched.runner.runner import Runner
from asyncsched.specs.handle import AppHandle
from asyncsched.web.api import LONGEST_HEAD, Handler, guarded, make_application, malformed, read_files
from asyncsched.web.hub import Hub, WebLimits
from asyncsched.web.security import Gate

__all__ = ["PageServer", "serving"]

HOST = "127.0.0.1"
_READING: dict[str, Any] = {
    "access_log": None,
    "auto_decompress": False,
    "logger": logging.getLogger("asyncsched.web"),
    "max_line_size": LONGEST_HEAD,
    "max_field_size": LONGEST_HEAD,
}
SHUTDOWN_TIMEOUT = 2.0
"""Seconds that answers in progress may take at the end; streams are closed before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageServer:
    """A running server.

    Attributes:
        hub: The content of its pages.
        gate: Decides who has access.
        address: The address that it listens on.
    """

    hub: Hub
    gate: Gate
    address: str

    @property
    def url(self) -> str:
        """The address that admits one browser, once."""
        return f"{self.address}/?token={self.gate.token}"


@asynccontextmanager
async def serving(
    runner: Runner,
    *,
    handles: Sequence[AppHandle] | None = None,
    look: Callable[[int], Awaitable[AppList]] | None = None,
    port: int = 0,
    allow_submit: bool = False,
    limits: WebLimits | None = None,
) -> AsyncGenerator[PageServer]:
    """Serve the page while the block runs.

    Args:
        runner: The runner of the apps, which executes the requests.
        handles: The apps to show; by default all, including new ones.
        look: Lists the newest apps, up to a number; by default the runner's list.
        port: The port to listen on; 0 for any free one.
        allow_submit: Whether apps may be launched and deleted.
        limits: The limits of the server.

    Raises:
        ConfigError: The port is in use, or not available.
    """
    pages = await to_thread.run_sync(read_files)
    sock = _listening(port)
    port = sock.getsockname()[1]
    gate, hub = Gate(port), Hub(runner, handles, look, limits)
    application = make_application(runner, hub, pages, allow_submit=allow_submit)
    # The handler of a page that has gone is cancelled, which makes room for another page.
    app_runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=SHUTDOWN_TIMEOUT)
    listening: asyncio.Server | None = None
    try:
        await app_runner.setup()
        server = app_runner.server
        assert server is not None
        answer = guarded(gate, cast("Any", server.request_handler))
        server.request_handler = cast("Any", _with_head_noted(answer))
        hub.start()
        loop = asyncio.get_running_loop()
        connect = partial(_Connection, server, hub.limits, set[_Connection](), loop=loop, **_READING)
        listening = await loop.create_server(connect, sock=sock)
        yield PageServer(hub=hub, gate=gate, address=f"http://{HOST}:{port}")
    finally:
        if listening is not None:
            listening.close()
        try:
            await hub.close()
        finally:
            await app_runner.cleanup()
            sock.close()


class _Connection(web.RequestHandler):
    """A connection of limited patience, whose errors are told in our words.

    aiohttp's tell of its insides, and lack our headers.

    Args:
        server: What it belongs to.
        limits: The limits of all connections.
        others: All that are open.
        **settings: Those of aiohttp.
    """

    __slots__ = ("_limits", "_others", "_patience")

    def __init__(self, server: web.Server, limits: WebLimits, others: set[_Connection], **settings: Any) -> None:
        super().__init__(server, keepalive_timeout=limits.head, **settings)
        self._limits = limits
        self._others = others
        self._patience: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        connected = cast("asyncio.Transport", transport)
        if len(self._others) >= self._limits.connections:
            connected.abort()
            return
        self._others.add(self)
        # For a later request, and in some releases also for the first one, aiohttp waits for `keepalive_timeout`.
        self._patience = asyncio.get_running_loop().call_later(self._limits.head, connected.abort)

    @override
    def connection_lost(self, exc: BaseException | None) -> None:
        self._others.discard(self)
        self.note_head()
        super().connection_lost(exc)

    def note_head(self) -> None:
        """Wait no more for the head of a request: it has come."""
        if self._patience is not None:
            self._patience.cancel()

    @override
    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("a part of the answer has been sent")
        return malformed(status, exc)


def _with_head_noted(answer: Handler) -> Handler:
    async def noted(request: web.Request) -> web.StreamResponse:
        if isinstance(request.protocol, _Connection):
            request.protocol.note_head()
        return await answer(request)

    return noted


def _listening(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((HOST, port))
    except OSError as error:
        sock.close()
        fix = "choose another port, or omit it for a free one"
        raise ConfigError(f"cannot listen on port {port}", why=error.strerror or str(error), fix=fix) from error
    return sock
