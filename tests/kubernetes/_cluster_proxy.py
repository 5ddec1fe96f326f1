"""A proxy before an API server: it counts requests, breaks connections, and loses answers that it is told to lose."""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import subprocess
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests._support import eventually
from tests.services.kubernetes.api import Api

_METHODS = (b"GET ", b"POST ", b"DELETE ", b"PATCH ", b"PUT ")
_CHUNK = 1 << 16


class CuttingProxy:
    """Ends TLS with a certificate of its own, so that it can read what is asked.

    Attributes:
        kubeconfig: The way through the proxy, as the user of the kubeconfig that it was made with; a token, that is.
        requests: The first line of each request without the version, in their order.
        cuts: How many connections were broken.
        lifetime: Shortest and longest time after which a connection is broken; None for never.
        loses: Says of a request whether its answer is lost, with the connection, once it has come.
        refuses: Says of a request whether its connection is broken before it is handed on.
    """

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        self._api = Api(kubeconfig)
        self._directory = directory
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self.kubeconfig = directory / "proxied.kubeconfig"
        self.requests: list[str] = []
        self.cuts = 0
        self.lifetime: tuple[float, float] | None = None
        self.loses: Callable[[str], bool] = lambda request: False
        self.refuses: Callable[[str], bool] = lambda request: False

    async def __aenter__(self) -> Self:
        certificate = _certificate(self._directory)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context, backlog=1024)
        port = self._server.sockets[0].getsockname()[1]
        config = self._api.config()
        (cluster,) = (each["cluster"] for each in config["clusters"])
        cluster.clear()
        cluster["server"] = f"https://127.0.0.1:{port}"
        cluster["certificate-authority-data"] = b64encode(certificate.read_bytes()).decode()
        self.kubeconfig.write_text(json.dumps(config))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.lifetime = None
        self.cut()
        await eventually(lambda: not self._links)

    def cut(self, of: str = "") -> int:
        """Break every connection whose last request contains this; return how many there were."""
        found = [link for link in self._links if of in link.request]
        for link in found:
            link.cut()
        return len(found)

    @property
    def open(self) -> list[str]:
        """The last request of each open connection."""
        return [link.request for link in self._links]

    def count(self, of: str) -> int:
        """Count the open connections whose last request contains this."""
        return sum(of in request for request in self.open)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(self, reader, writer)
        self._links.add(link)
        try:
            await link.run(self._api)
        finally:
            self._links.discard(link)


class _Link:
    """One connection of a client, with its own to the server."""

    def __init__(self, proxy: CuttingProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._reader = reader
        self._writer = writer
        self._running: asyncio.Task[None] | None = None
        self.request = ""

    async def run(self, api: Api) -> None:
        self._running = asyncio.current_task()
        loop = asyncio.get_running_loop()
        lifetime = self._proxy.lifetime
        timer = loop.call_later(random.uniform(*lifetime), self.cut) if lifetime else None
        upstream: asyncio.StreamWriter | None = None
        try:
            answers, upstream = await asyncio.open_connection(api.server.hostname, api.server.port, ssl=api.context)
            async with asyncio.TaskGroup() as group:
                asking = group.create_task(self._ask(upstream))
                await self._answer(answers)
                asking.cancel()
        except* OSError:
            pass  # one of the two has gone
        except* asyncio.CancelledError:
            pass  # it is cut
        finally:
            if timer is not None:
                timer.cancel()
            for writer in (self._writer, upstream):
                if writer is not None:
                    writer.transport.abort()

    async def _ask(self, upstream: asyncio.StreamWriter) -> None:
        while data := await self._reader.read(_CHUNK):
            if data.startswith(_METHODS):
                self.request = data.partition(b"\r\n")[0].decode().removesuffix(" HTTP/1.1")
                self._proxy.requests.append(self.request)
                if self._proxy.refuses(self.request):
                    self.cut()
                    return
            upstream.write(data)
            await upstream.drain()
        upstream.transport.abort()

    async def _answer(self, answers: asyncio.StreamReader) -> None:
        while data := await answers.read(_CHUNK):
            if self._proxy.loses(self.request):
                self.cut()
                return
            self._writer.write(data)
            await self._writer.drain()
        with suppress(OSError):
            self._writer.close()
            await self._writer.wait_closed()

    def cut(self) -> None:
        if self._running is not None and not self._running.done():
            self._proxy.cuts += 1
            self._writer.transport.abort()
            self._running.cancel()


def _certificate(directory: Path) -> Path:
    """Make a certificate for this machine, with its key in the same file."""
    path = directory / "proxy.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc"),
            *("-subj", "/CN=proxy", "-days", "2", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", path, "-out", directory / "proxy.crt"),
        ],
        check=True,
        capture_output=True,
    )
    path.write_bytes(path.read_bytes() + (directory / "proxy.crt").read_bytes())
    return path
