"""What tests of the client share: kubeconfigs, clients, and a server that answers as it is told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from asyncsched.clock import Clock
from asyncsched.schedulers.kubernetes.client import KubeClient
from asyncsched.schedulers.kubernetes.client_config import Source

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

TOKEN = "sesame-17-token"


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
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def connected(path: Path, *, clock: Clock | None = None, **times: float) -> AsyncIterator[KubeClient]:
    """Yield a client for a kubeconfig."""
    client = KubeClient(Source(kubeconfig=str(path)), clock=clock or Clock(), **times)
    try:
        yield client
    finally:
        await client.close()


def status(code: int, reason: str = "", message: str = "no", **more: Any) -> web.Response:
    """Return a refusal as a Status."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason, **more}
    return web.json_response({**body, "code": code}, status=code)
