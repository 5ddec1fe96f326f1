"""A client for a Docker daemon: the few requests that this package needs, our errors, raw streams.

The package's docstring lists what goes through aiodocker, what does not, and why.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, asynccontextmanager
from email.utils import parsedate_to_datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar
from urllib.parse import quote

import aiohttp
from aiodocker.images import DockerImages

from asyncsched._dockerd.connection import DaemonConnection, endless, hang_up, open_connection
from asyncsched._dockerd.endpoint import Endpoint, find_endpoint
from asyncsched._dockerd.errors import IN_BAND, CutOffError, answer_error, translating
from asyncsched._dockerd.objects import read_objects
from asyncsched.clock import Clock
from asyncsched.errors import ClosedError, ConflictError, InvalidRequestError, NotFoundError
from asyncsched.logs.backoff import Backoff

__all__ = ["Daemon"]

_SEARCHES = 4
_LONGEST_PAUSE = 2.0

ResultT = TypeVar("ResultT")


class Daemon:
    """The environment's daemon; connected on first use, closed by `close`.

    Attributes:
        backend: The scheduler that uses it, for errors.
        calls: The number of requests, by their purpose.
        pulls: The number of images requested from a registry.
        searches: A lock to hold while reading a log from the middle: the daemon reads the log from its beginning to
            find the position, and many such requests at once would all wait for a long time.
    """

    def __init__(
        self,
        *,
        backend: str = "local_docker",
        request_timeout: float = 30.0,
        retry_for: float = 60.0,
        clock: Clock | None = None,
        endpoint: Endpoint | None = None,
    ) -> None:
        self.calls: Counter[str] = Counter()
        self.pulls = 0
        self.searches = asyncio.Semaphore(_SEARCHES)
        self.backend = backend
        self._request_timeout = request_timeout
        self._retry_for = retry_for
        self._clock = clock or Clock()
        self._endpoint = endpoint
        self._connection: DaemonConnection | None = None
        self._connecting = asyncio.Lock()
        self._closed = False

    def __repr__(self) -> str:
        state = "not connected" if self._connection is None else "connected"
        return f"<Daemon {self._endpoint or 'of the environment'}, {state}>"

    async def close(self) -> None:
        """Close every connection; requests in progress fail, later ones raise ClosedError."""
        self._closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    # Containers

    async def list_containers(
        self, labels: Sequence[str] = (), *, names: Sequence[str] = (), operation: str
    ) -> list[dict[str, Any]]:
        """List containers, running or not, that have all of these labels (`key`, `key=value`) and match `/name`."""
        filters = json.dumps({"label": list(labels), "name": list(names)})
        params = {"all": "1", "filters": filters}
        found: list[dict[str, Any]] = await self.get_json(
            "containers/json", params, "cannot list the containers", operation
        )
        return found

    async def inspect_container(self, name: str, *, operation: str) -> dict[str, Any]:
        what = f"cannot inspect the container {name}"
        found: dict[str, Any] = await self.get_json(f"containers/{name}/json", {}, what, operation)
        return found

    async def create_container(self, name: str, config: Mapping[str, Any], *, operation: str) -> str:
        """Create a container and return its id."""
        docker = (await self._connected(operation)).docker
        with self._translating(f"cannot create the container {name}", operation):
            container = await docker.containers.create(dict(config), name=name)
            return str(container.id)

    async def start_container(self, name: str, *, operation: str) -> None:
        """Start a container; do nothing if it runs already."""
        container = _container(await self._connected(operation), name)
        with self._translating(f"cannot start the container {name}", operation):
            await container.start()

    async def rename_container(self, name: str, new_name: str, *, operation: str) -> None:
        """Rename a container; do nothing if it has the name already."""
        container = _container(await self._connected(operation), name)
        try:
            await self.ask(lambda: container.rename(new_name), f"cannot rename the container {name}", operation)
        except InvalidRequestError as error:
            if "same name" not in error.why:
                raise

    async def stop_container(self, name: str, *, on_sent: Callable[[], None], operation: str) -> None:
        """Stop a container: TERM, and KILL after the grace period that it was created with.

        Args:
            name: The container's name or id; one that has ended or is gone is not an error.
            on_sent: Called when the daemon has the request, and so stops the container even without us.
            operation: The operation that errors name.
        """
        connection = await self._connected(operation)
        url = self._url(connection, f"containers/{name}/stop")
        with self._translating(f"cannot stop the container {name}", operation):
            async with connection.session.post(
                url, timeout=endless(), trace_request_ctx=SimpleNamespace(on_sent=on_sent)
            ) as response:
                if response.status >= 400 and response.status not in (404, 409):
                    await self._raise(response, f"cannot stop the container {name}", operation)

    async def kill_container(self, name: str, *, operation: str) -> None:
        """Kill a container; one that has ended or is gone is not an error."""
        container = _container(await self._connected(operation), name)
        try:
            await self.ask(container.kill, f"cannot kill the container {name}", operation)
        except (ConflictError, NotFoundError):
            pass

    async def remove_container(self, name: str, *, operation: str, force: bool = False) -> None:
        """Remove a container with its anonymous volumes; one that is gone is not an error."""
        container = _container(await self._connected(operation), name)
        try:
            what = f"cannot remove the container {name}"
            await self.ask(lambda: container.delete(force=force, v=True), what, operation)
        except NotFoundError:
            pass
        except ConflictError as error:
            if "already in progress" not in error.why:
                raise

    async def has_path(self, name: str, path: str, *, operation: str) -> bool:
        """Return whether a path exists in a container; False if the container is gone."""
        connection = await self._connected(operation)
        what = f"cannot look into the container {name}"

        async def ask() -> bool:
            with self._translating(what, operation):
                url = self._url(connection, f"containers/{name}/archive")
                async with connection.session.head(url, params={"path": path}) as response:
                    if response.status >= 400 and response.status != 404:
                        await self._raise(response, what, operation)
                    return response.status != 404

        return await self.repeated(ask)

    async def put_archive(self, name: str, path: str, archive: bytes, *, operation: str) -> None:
        """Unpack a tar archive at a path in a container."""
        container = _container(await self._connected(operation), name)
        what = f"cannot write into the container {name}"
        await self.ask(lambda: container.put_archive(path, archive), what, operation)

    # Networks

    async def find_networks(self, name: str, *, operation: str) -> list[str]:
        """Return the ids of the networks of this name, the oldest first."""
        params = {"filters": json.dumps({"name": [name]})}
        found: list[dict[str, Any]] = await self.get_json(
            "networks", params, f"cannot look up the network {name}", operation
        )
        # The filter matches parts of names, and ids.
        same = sorted((network["Created"], network["Id"]) for network in found if network["Name"] == name)
        return [identity for _, identity in same]

    async def create_network(self, name: str, labels: Mapping[str, str], *, operation: str) -> str:
        """Create a bridge network and return its id."""
        docker = (await self._connected(operation)).docker
        config = {"Name": name, "Driver": "bridge", "Labels": dict(labels)}
        with self._translating(f"cannot create the network {name}", operation):
            network: Any = await docker.networks.create(config)
            return str(network.id)

    async def remove_network(self, name: str, *, operation: str) -> None:
        """Remove a network; one that is gone is not an error."""
        networks: Any = (await self._connected(operation)).docker.networks

        async def remove() -> None:
            await (await networks.get(name)).delete()

        try:
            await self.ask(remove, f"cannot remove the network {name}", operation)
        except NotFoundError:
            pass

    async def ask_time(self, *, operation: str) -> float:
        """Return the daemon's time in seconds since the epoch, rounded down."""
        date = (await self._ping(operation)).get("Date")
        return parsedate_to_datetime(date).timestamp() if date else time.time()

    async def has_buildkit(self, *, operation: str) -> bool:
        """Return whether the daemon can build with BuildKit."""
        said = await self._ping(operation)
        version = tuple(map(int, (await self._connected(operation)).docker.api_version.removeprefix("v").split(".")))
        if version >= (1, 42):  # BuildKit is on wherever it works, and "1" means that it was turned off
            return said.get("Builder-Version") == "2"
        return version >= (1, 39) and said.get("Ostype") == "linux"

    async def _ping(self, operation: str) -> Mapping[str, str]:
        connection = await self._connected(operation)

        async def ping() -> Mapping[str, str]:
            async with connection.session.get(f"{connection.docker.docker_host}/_ping") as response:
                return response.headers

        return await self.ask(ping, "cannot reach Docker", operation)

    # Raw access

    async def get_json(
        self, path: str, params: Mapping[str, str], what: str, operation: str, headers: Mapping[str, str] | None = None
    ) -> Any:
        """Return the daemon's answer to a GET."""
        connection = await self._connected(operation)

        async def get() -> Any:
            with self._translating(what, operation):
                url = self._url(connection, path)
                async with connection.session.get(url, params=params, headers=headers) as response:
                    if response.status >= 400:
                        await self._raise(response, what, operation)
                    return await response.json()

        return await self.repeated(get)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        what: str,
        operation: str,
        end_is_marked: bool = True,
    ) -> AsyncGenerator[aiohttp.StreamReader]:
        """Open a long answer as a stream of bytes; leaving the context closes its connection.

        A broken connection raises `UnavailableError`; if the daemon closes it, the answer ends. Without
        `end_is_marked` a break may look like the end; where no caller relies on the end, reading costs a third.
        """
        connection = await self._connected(operation)
        session = connection.session if end_is_marked else connection.plain
        with self._translating(what, operation):
            response = await session.get(self._url(connection, path), params=params, timeout=endless())
            try:
                if response.status >= 400:
                    await self._raise(response, what, operation)
                yield response.content
            finally:
                response.close()

    @asynccontextmanager
    async def progress(
        self,
        path: str,
        params: Mapping[str, str],
        headers: Mapping[str, str],
        *,
        what: str,
        operation: str,
        body: AsyncIterator[bytes] | bytes | None = None,
        given_up: asyncio.Future[None] | None = None,
        method: str = "POST",
        refusal: int | None = IN_BAND,
    ) -> AsyncGenerator[AsyncIterator[dict[str, Any]]]:
        """Make a request that the daemon answers with one JSON object per line until it is done; it has no time limit.

        Once `given_up` is done, the daemon is told to stop, and its answer ends when it has stopped. If the daemon
        refuses the request, the error is that of the status `refusal`, or of the answer's status if that is None.
        """
        connection = await self._connected(operation)
        with self._translating(what, operation):
            response = await connection.session.request(
                method, self._url(connection, path), params=params, headers=headers, data=body, timeout=endless()
            )
            try:
                if response.status >= 400:
                    await self._raise(response, what, operation, status=refusal)
                if given_up is not None:
                    given_up.add_done_callback(lambda _: hang_up(response))
                yield self._steps(response.content, what, operation)
            finally:
                response.close()

    async def _steps(self, content: aiohttp.StreamReader, what: str, operation: str) -> AsyncIterator[dict[str, Any]]:
        async with aclosing(read_objects(content)) as steps:
            async for step in steps:
                if "error" in step:
                    raise answer_error(IN_BAND, str(step["error"]), what, self.backend, operation)
                yield step

    async def images(self, operation: str) -> DockerImages:
        """Return aiodocker's methods for images; use them inside `ask`."""
        return (await self._connected(operation)).docker.images

    async def ask(self, request: Callable[[], Awaitable[ResultT]], what: str, operation: str) -> ResultT:
        """Make an idempotent request through aiodocker."""

        async def ask() -> ResultT:
            with self._translating(what, operation):
                return await request()

        return await self.repeated(ask)

    async def repeated(self, request: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Make an idempotent request, and repeat it for `retry_for` seconds while its connection is cut.

        It is not repeated if the daemon does not accept connections.
        """
        backoff = Backoff(self._clock, retry_for=self._retry_for, longest=_LONGEST_PAUSE)
        deadline = self._clock.monotonic() + self._retry_for
        while True:
            try:
                return await request()
            except CutOffError:
                pause = backoff.pause()
                if self._clock.monotonic() + pause >= deadline:
                    raise
            await self._clock.sleep(pause)

    # Parts

    async def _raise(
        self, response: aiohttp.ClientResponse, what: str, operation: str, *, status: int | None = None
    ) -> None:
        text = await response.text()
        try:
            text = str(json.loads(text)["message"])
        except (ValueError, KeyError, TypeError):
            pass  # a proxy's answer, not the daemon's
        raise answer_error(response.status if status is None else status, text, what, self.backend, operation)

    def _translating(self, what: str, operation: str) -> AbstractContextManager[None]:
        self.calls[operation] += 1
        assert self._endpoint is not None
        return translating(self._endpoint, what, backend=self.backend, operation=operation)

    @staticmethod
    def _url(connection: DaemonConnection, path: str) -> str:
        return f"{connection.docker.docker_host}/{connection.docker.api_version}/{quote(path)}"

    async def _connected(self, operation: str) -> DaemonConnection:
        if self._connection is None:
            async with self._connecting:
                if self._connection is None:
                    self._check_open()
                    self._connection = await self._connect(operation)
        return self._connection

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("this connection to Docker is closed", why="its scheduler has been closed")

    async def _connect(self, operation: str) -> DaemonConnection:
        endpoint = self._endpoint
        if endpoint is None:
            endpoint = self._endpoint = await asyncio.to_thread(find_endpoint, os.environ, Path.home())

        async def connect() -> DaemonConnection:
            with translating(endpoint, "cannot talk to Docker", backend=self.backend, operation=operation):
                return await open_connection(endpoint, self._request_timeout)

        connection = await self.repeated(connect)
        if self._closed:
            await connection.close()
        self._check_open()
        return connection


def _container(connection: DaemonConnection, name: str) -> Any:
    # aiodocker's containers are only partly typed, which strict type checkers reject.
    containers: Any = connection.docker.containers
    return containers.container(name)
