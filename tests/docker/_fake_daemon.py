"""A Docker daemon in memory that lists, inspects, renames and stops containers, and counts what it is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web

from asyncsched.schedulers.docker import names

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class FakeDaemon:
    """Its containers, by their ids, are dictionaries of their names, labels and states.

    Attributes:
        containers: Them; a stop makes the state ``exited``.
        calls: How often it was asked, by what a path ends with: ``list`` and ``inspect`` in place of ``json``.
        on_listed: Called when a list has been put together.
    """

    def __init__(self) -> None:
        self.containers: dict[str, dict[str, Any]] = {}
        self.calls: Counter[str] = Counter()
        self.on_listed: Callable[[], None] = lambda: None

    def add(self, app_id: str, replica: int = 0, *, state: str = "running") -> None:
        """Make a container of an app."""
        labels = {names.APP_ID: app_id, names.ROLE: "worker", names.REPLICA: str(replica)}
        name = f"{app_id}-worker-{replica}"
        self.containers[name] = {"name": name, "labels": labels, "state": state}

    @asynccontextmanager
    async def listening(self, directory: Path) -> AsyncGenerator[str]:
        """Listen on a socket in a directory; the address is one for ``DOCKER_HOST``."""
        application = web.Application()
        application.router.add_get("/version", self._version)
        application.router.add_get("/{version}/containers/json", self._list)
        application.router.add_get("/{version}/containers/{id}/json", self._inspect)
        application.router.add_post("/{version}/containers/{id}/rename", self._rename)
        application.router.add_post("/{version}/containers/{id}/stop", self._stop)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        try:
            await web.UnixSite(runner, str(directory / "fake.sock")).start()
            yield f"unix://{directory / 'fake.sock'}"
        finally:
            await runner.cleanup()

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"ApiVersion": "1.41"})

    async def _list(self, request: web.Request) -> web.Response:
        self.calls["list"] += 1
        wanted = f'"{names.APP_ID}=' in request.query["filters"]
        rows = [
            {
                "Id": key,
                "Names": [f"/{each['name']}"],
                "Labels": each["labels"],
                "State": each["state"],
                "Status": "Exited (143)" if each["state"] == "exited" else "",
            }
            for key, each in self.containers.items()
            if not wanted or f'"{names.APP_ID}={each["labels"][names.APP_ID]}"' in request.query["filters"]
        ]
        self.on_listed()
        return web.json_response(rows)

    async def _inspect(self, request: web.Request) -> web.Response:
        self.calls["inspect"] += 1
        found = self.containers[request.match_info["id"]]
        return web.json_response({"Name": f"/{found['name']}", "State": {"Status": found["state"], "ExitCode": 0}})

    async def _rename(self, request: web.Request) -> web.Response:
        self.calls["rename"] += 1
        self.containers[request.match_info["id"]]["name"] = request.query["name"]
        return web.Response(status=204)

    async def _stop(self, request: web.Request) -> web.Response:
        self.calls["stop"] += 1
        self.containers[request.match_info["id"]]["state"] = "exited"
        return web.Response(status=204)
