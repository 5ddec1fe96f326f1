"""Nodes as containers of a Docker daemon, one each, as ECS would start them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import docker
from docker.errors import APIError, ImageNotFound
from docker.types import DeviceRequest, Mount, Ulimit

from tests.aws_emulator.lifecycle import Task

_PERMISSIONS = {"READ": "r", "WRITE": "w", "MKNOD": "m"}
OOM = "OutOfMemoryError: Container killed due to memory usage"


class Containers:
    """A runner of nodes on the daemon at `url`, in a network of this name, in which they reach each other."""

    def __init__(self, url: str, network: str | None = None) -> None:
        self._docker = docker.DockerClient(base_url=url)
        self._network = self._docker.networks.create(network) if network else None
        #: The main node's address, for its children.
        self._addresses: dict[str, str] = {}
        self._threads: list[threading.Thread] = []

    def __call__(self, task: Task) -> Callable[[], None]:
        started = _Started()
        self._start_thread(self._live, task, started)
        if task.is_main:
            started.ready.wait(120)  # Its address is what the children are started with.
        return lambda: self._start_thread(started.stop, task.grace)

    def _start_thread(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self) -> None:
        """Wait for the containers, which somebody has stopped, and forget the daemon."""
        for thread in self._threads:
            thread.join(60)
        if self._network is not None:
            self._network.remove()
        self._docker.close()

    def _live(self, task: Task, started: _Started) -> None:
        failure = ""
        try:
            container = self._start(task)
        except Exception as error:  # whatever it is, whoever waits is told
            kind = "CannotPullContainerError" if isinstance(error, ImageNotFound) else "CannotStartContainerError"
            failure = f"{kind}: {getattr(error, 'explanation', error)}"[:255]
        started.ready.set()  # Before anything else is said: whoever waits for this holds the cloud's lock.
        if failure:
            task.exited(None, failure)
            return
        started.container = container
        if started.stopping:
            started.stop(task.grace)
        for line in _lines(_output(container)):
            task.line(line)
        code = container.wait()["StatusCode"]
        container.reload()
        reason = OOM if container.attrs["State"]["OOMKilled"] else None
        with contextlib.suppress(APIError):
            container.remove(force=True)
        task.exited(code, reason)

    def _start(self, task: Task) -> Any:
        environment = dict(task.environment)
        main = "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"
        if main in environment:
            environment[main] = self._addresses[task.job_id]
        container = self._docker.containers.create(
            task.container["image"],
            task.command or None,
            name=task.name,
            environment=environment,
            labels={"aws-emulator": task.job_id},
            network=None if self._network is None else self._network.name,
            **_limits(task.container),
            **_linux(task.container.get("linuxParameters", {})),
            mounts=list(_mounts(task.container)),
        )
        try:
            container.start()
        except APIError:
            container.remove(force=True)
            raise
        container.reload()
        if task.is_main:
            networks = container.attrs["NetworkSettings"]["Networks"].values()
            self._addresses[task.job_id] = next((row["IPAddress"] for row in networks), "")
        return container


class _Started:
    """A container that may be asked to stop before it exists."""

    def __init__(self) -> None:
        self.container: Any = None
        self.ready = threading.Event()
        self.stopping = False

    def stop(self, grace: float) -> None:
        self.stopping = True
        if self.container is not None:
            with contextlib.suppress(APIError):
                self.container.stop(timeout=max(1, round(grace)))


def _output(container: Any) -> Iterator[bytes]:
    """Yield all that a container writes: a follower's stream ends with the container, and may lack the last of it."""
    read = 0
    for chunk in container.logs(stream=True, follow=True):
        read += len(chunk)
        yield chunk
    container.wait()
    yield container.logs()[read:]


def _lines(chunks: Any) -> Any:
    pending = b""
    for chunk in chunks:
        *whole, pending = (pending + chunk).split(b"\n")
        yield from (line.decode("utf-8", "replace") for line in whole)
    if pending:
        yield pending.decode("utf-8", "replace")


def _limits(container: dict[str, Any]) -> dict[str, Any]:
    wanted = {row["type"]: row["value"] for row in container.get("resourceRequirements", ())}
    limits: dict[str, Any] = {
        "cpu_shares": int(float(wanted.get("VCPU", 1)) * 1024),
        "privileged": container.get("privileged", False),
        "user": container.get("user"),
        "read_only": container.get("readonlyRootFilesystem", False),
        "ulimits": [
            Ulimit(name=row["name"], soft=row["softLimit"], hard=row["hardLimit"])
            for row in container.get("ulimits", ())
        ],
    }
    if "MEMORY" in wanted:
        limits["mem_limit"] = f"{wanted['MEMORY']}m"
    if "GPU" in wanted:
        limits["device_requests"] = [DeviceRequest(count=int(wanted["GPU"]), capabilities=[["gpu"]])]
    return limits


def _linux(parameters: dict[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {
        "init": parameters.get("initProcessEnabled", False),
        "devices": [
            ":".join(
                (
                    device["hostPath"],
                    device.get("containerPath", device["hostPath"]),
                    "".join(_PERMISSIONS[name] for name in device.get("permissions", _PERMISSIONS)),
                )
            )
            for device in parameters.get("devices", ())
        ],
        "tmpfs": {row["containerPath"]: f"size={row['size']}m" for row in parameters.get("tmpfs", ())},
    }
    if "sharedMemorySize" in parameters:
        options["shm_size"] = f"{parameters['sharedMemorySize']}m"
    return options


def _mounts(container: dict[str, Any]) -> Any:
    volumes = {volume["name"]: volume for volume in container.get("volumes", ())}
    for point in container.get("mountPoints", ()):
        host = volumes[point["sourceVolume"]].get("host")
        if host:  # There is no EFS here.
            yield Mount(point["containerPath"], host["sourcePath"], type="bind", read_only=point.get("readOnly", False))
