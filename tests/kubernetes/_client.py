"""What tests of the client share: kubeconfigs, clients, and a server that answers as it is told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from typing_extensions import override

from asyncsched.clock import Clock
from asyncsched.schedulers.kubernetes.client import KubeClient
from asyncsched.schedulers.kubernetes.client_config import ConfigSource
from asyncsched.testing import VirtualClock

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

TOKEN = "sesame-17-token"


class Ahead(Clock):
    """A clock that can be set forward."""

    ahead = 0.0

    @override
    def monotonic(self) -> float:
        return super().monotonic() + self.ahead

    @override
    def time_ns(self) -> int:
        return super().time_ns() + int(self.ahead * 1e9)


def kubeconfig(
    path: Path,
    server: str,
    *,
    user: Mapping[str, Any] | None = None,
    cluster: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
    name: str = "here",
) -> Path:
    """Write a kubeconfig with one context."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": "cluster", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "someone", "user": {"token": TOKEN} if user is None else dict(user)}],
        "contexts": [{"name": name, "context": {"cluster": "cluster", "user": "someone", **(context or {})}}],
    }
    path.write_text(json.dumps(config))
    return path


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """Serve requests of any path on a port of 127.0.0.1; yields the URL."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        return await handler(request)

    runner = web.ServerRunner(web.Server(handle), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def connected(path: Path, *, clock: Clock | None = None, **times: float) -> AsyncIterator[KubeClient]:
    """Yield a client for a kubeconfig."""
    client = KubeClient(ConfigSource(kubeconfig=str(path)), clock=clock or Clock(), **times)
    async with AsyncExitStack() as stack:
        if isinstance(clock, VirtualClock):
            await stack.enter_async_context(clock)
        stack.push_async_callback(client.close)
        yield client


def status(code: int, reason: str = "", message: str = "no", **more: Any) -> web.Response:
    """Return a refusal as a Status."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason, **more}
    return web.json_response({**body, "code": code}, status=code)
