"""How tasks run: as containers on a Docker daemon, or played from a script of steps."""

from __future__ import annotations

import asyncio
import json
import shlex
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import aiodocker

from tests.gcp_double.wire import read_time

Say = Callable[[str, str, int | None], None]
"""Takes a line, its severity, and when it was written."""

TRUE = "true"


@dataclass(frozen=True)
class Attempt:
    """One runnable of one attempt of a task."""

    uid: str
    index: int
    count: int
    attempt: int
    runnable: Any
    environment: Mapping[str, str]


class Runs(Protocol):
    """What runs tasks."""

    async def run(self, attempt: Attempt, say: Say) -> int:
        """Run it to its end and return its exit code; cancelling it ends it."""
        ...

    async def prepare(self, uid: str, count: int, *, networked: bool) -> Mapping[str, str]:
        """Make what the tasks of a job share; return its variables."""
        ...

    async def tidy(self, uid: str) -> None:
        """Remove what the tasks of a job shared."""
        ...

    async def close(self) -> None: ...


class Played:
    """Plays the container's last argument: a list of steps such as ``["say", "x"]``, ``["sleep", 1]``, ``["exit", 3]``.

    The step ``["wait"]`` lasts until `go_on` is set. An exit code of an attempt may be given for each:
    ``["exit", 50001, 0]``. What is no such list ends at once.
    """

    def __init__(self, second: float = 1.0) -> None:
        self.second = second
        self.go_on = asyncio.Event()

    async def run(self, attempt: Attempt, say: Say) -> int:
        if attempt.runnable.WhichOneof("executable") != "container":
            return 0
        commands = list(attempt.runnable.container.commands)
        try:
            steps = json.loads(commands[-1]) if commands else []
        except ValueError:
            return 0
        for kind, *values in steps:
            if kind == "say":
                say(values[0], "INFO", None)
            elif kind == "sleep":
                await asyncio.sleep(values[0] * self.second)
            elif kind == "wait":
                await self.go_on.wait()
            elif kind == "exit":
                return values[min(attempt.attempt, len(values) - 1)]
        return 0

    async def prepare(self, uid: str, count: int, *, networked: bool) -> Mapping[str, str]:
        return {}

    async def tidy(self, uid: str) -> None:
        pass

    async def close(self) -> None:
        pass


class Containers:
    """Runs each task as a container; those of one job reach each other by name, where they share a network.

    Args:
        host: The Docker daemon.
        script_image: What scripts run in, which Batch would run on the VM itself.
        secrets: The values of secrets by their resource names.
    """

    def __init__(self, host: str, script_image: str, secrets: Mapping[str, str]) -> None:
        self._host, self._script_image, self._secrets = host, script_image, secrets
        self._docker: aiodocker.Docker | None = None
        self._networks: dict[str, Any] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="gcp-double-")

    @property
    def docker(self) -> aiodocker.Docker:
        if self._docker is None:
            self._docker = aiodocker.Docker(url=self._host)
        return self._docker

    async def prepare(self, uid: str, count: int, *, networked: bool) -> Mapping[str, str]:
        if not networked:
            return {}
        self._networks[uid] = await self.docker.networks.create({"Name": uid, "Driver": "bridge"})
        hosts = Path(self._folder.name) / f"{uid}.hosts"
        hosts.write_text("".join(f"{_name(uid, index)}\n" for index in range(count)))
        return {"BATCH_HOSTS_FILE": str(hosts), "BATCH_MAIN_NODE_HOSTNAME": _name(uid, 0)}

    async def tidy(self, uid: str) -> None:
        network = self._networks.pop(uid, None)
        if network is not None:
            await network.delete()

    async def close(self) -> None:
        for uid in list(self._networks):
            await self.tidy(uid)
        if self._docker is not None:
            await self._docker.close()
        self._folder.cleanup()

    async def run(self, attempt: Attempt, say: Say) -> int:
        if attempt.runnable.WhichOneof("executable") == "barrier":
            return 0
        try:
            container = await self.docker.containers.create(self._config(attempt))
        except aiodocker.DockerError:  # there is no such image
            return 125
        pump: asyncio.Task[None] | None = None
        try:
            await container.start()
            pump = asyncio.create_task(_pump(container, say))
            ended = await container.wait()
            await pump
            return int(ended["StatusCode"])
        except aiodocker.DockerError as error:
            return 127 if error.status == 400 else 125
        finally:
            await asyncio.shield(_end(container, pump))

    def _config(self, attempt: Attempt) -> dict[str, Any]:
        environment = dict(attempt.environment)
        secrets = attempt.runnable.environment.secret_variables
        environment |= {name: self._secrets[source] for name, source in secrets.items()}
        binds = []
        if "BATCH_HOSTS_FILE" in environment:
            binds.append(f"{environment['BATCH_HOSTS_FILE']}:{environment['BATCH_HOSTS_FILE']}:ro")
        program: dict[str, Any] = {"Image": self._script_image, "Cmd": ["sh", "-c", attempt.runnable.script.text]}
        if attempt.runnable.WhichOneof("executable") == "container":
            asked = attempt.runnable.container
            binds += asked.volumes
            program = {"Image": asked.image_uri, "Cmd": list(asked.commands)}
            if asked.entrypoint:
                program["Entrypoint"] = [asked.entrypoint]
            known = {"--network", "host", "--device"}
            assert all(word in known or word.startswith("/") for word in shlex.split(asked.options)), asked.options
        host: dict[str, Any] = {"Binds": binds, "Init": True, "NetworkMode": "none"}
        name = _name(attempt.uid, attempt.index)
        config = {**program, "Env": [f"{key}={value}" for key, value in environment.items()], "HostConfig": host}
        if attempt.uid in self._networks:
            host["NetworkMode"] = attempt.uid
            config["NetworkingConfig"] = {"EndpointsConfig": {attempt.uid: {"Aliases": [name]}}}
        return config


def _name(uid: str, index: int) -> str:
    return f"{uid}-group0-0-{index:04d}"


async def _end(container: Any, pump: asyncio.Task[None] | None) -> None:
    if pump is not None:
        pump.cancel()
        await asyncio.wait([pump])  # its connection is given back before the client is closed
    await _remove(container)


async def _remove(container: Any) -> None:
    """Remove a container; a busy daemon may not have heard of its end in time, and is asked again."""
    for _ in range(10):
        try:
            await container.delete(force=True, v=True)
            return
        except aiodocker.DockerError as error:
            if error.status == 404:
                return
            await asyncio.sleep(0.5)


async def _pump(container: Any, say: Say) -> None:
    """Hand on what a container writes, line by line, with the times that Docker gives it."""
    rest: dict[int, str] = {}
    async with aclosing(_written(container)) as written:
        async for stream, data in written:
            stamp, _, text = data.partition(" ")
            text = rest.pop(stream, "") + text
            if not text.endswith("\n"):
                rest[stream] = text
                continue
            say(text[:-1], "ERROR" if stream == 2 else "INFO", read_time(stamp))
    for stream, text in rest.items():
        say(text, "ERROR" if stream == 2 else "INFO", None)


async def _written(container: Any) -> AsyncGenerator[tuple[int, str]]:
    """Yield all that a container writes: a follower's stream ends with the container, and may lack the last of it."""
    read = 0
    async with _frames(container, follow=True) as frames:
        async for frame in frames:
            read += 1
            yield frame
    await container.wait()
    async with _frames(container, follow=False) as frames:
        async for frame in frames:
            read -= 1
            if read < 0:
                yield frame


@asynccontextmanager
async def _frames(container: Any, *, follow: bool) -> AsyncIterator[AsyncIterator[tuple[int, str]]]:
    docker = container.docker
    params = {"stdout": "1", "stderr": "1", "follow": str(int(follow)), "timestamps": "1"}
    async with docker._query(f"containers/{container.id}/logs", method="GET", params=params) as response:
        yield _parsed(response.content)


async def _parsed(content: Any) -> AsyncIterator[tuple[int, str]]:
    while True:
        try:
            head = await content.readexactly(8)
        except asyncio.IncompleteReadError:
            return
        data = await content.readexactly(int.from_bytes(head[4:]))
        yield head[0], data.decode(errors="replace")
