"""The server of the page: on the loopback device alone, with an address that lets in who was given it."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web
from anyio import to_thread

from asyncsched.errors import ConfigError
from asyncsched.runner.report import AppList
from asyncsched.runner.runner import Runner
from asyncsched.specs.handle import AppHandle
from asyncsched.web.api import make_application, read_files
from asyncsched.web.hub import Hub, WebLimits
from asyncsched.web.security import Gate

__all__ = ["PageServer", "serving"]

HOST = "127.0.0.1"
SHUTDOWN_TIMEOUT = 2.0
"""Seconds that answers may take that are under way at the end; streams are cut off before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageServer:
    """A server that listens.

    Attributes:
        hub: What its pages show.
        gate: Who may ask.
        address: Where it listens.
    """

    hub: Hub
    gate: Gate
    address: str

    @property
    def url(self) -> str:
        """The address that lets one browser in, once."""
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
    """Serve the page, inside of the block.

    Args:
        runner: Knows the apps, and does what is asked for.
        handles: The apps that are shown; by default all, those that come later too.
        look: Lists apps, the newest so many; by default the runner does.
        port: Where to listen; 0 is any that is free.
        allow_submit: Whether apps may be launched and deleted.
        limits: What is held at most.

    Raises:
        ConfigError: The port is taken, or not to be had.
    """
    pages = await to_thread.run_sync(read_files)
    sock = _listening(port)
    port = sock.getsockname()[1]
    gate, hub = Gate(port), Hub(runner, handles, look, limits)
    application = make_application(runner, hub, gate, pages, allow_submit=allow_submit)
    # A handler whose page has gone is cancelled, which gives its place to another.
    app_runner = web.AppRunner(
        application, handler_cancellation=True, access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT
    )
    try:
        await app_runner.setup()
        hub.start()
        await web.SockSite(app_runner, sock).start()
        yield PageServer(hub=hub, gate=gate, address=f"http://{HOST}:{port}")
    finally:
        try:
            await hub.close()
        finally:
            await app_runner.cleanup()
            sock.close()


def _listening(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((HOST, port))
    except OSError as error:
        sock.close()
        fix = "choose another one, or leave it out for one that is free"
        raise ConfigError(f"cannot listen on port {port}", why=error.strerror or str(error), fix=fix) from error
    return sock
