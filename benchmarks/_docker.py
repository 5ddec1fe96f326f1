"""A Docker daemon for benchmarks, the apps that they run, and how the peer runs them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from asyncsched.schedulers.docker import DockerScheduler
from asyncsched.specs import AppDef, Role
from benchmarks._harness import check_possible
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd, new_directory, why_it_cannot_run


@contextmanager
def daemon() -> Iterator[Dockerd]:
    """Bring up a daemon of our own; `DOCKER_HOST` names it to everybody."""
    check_possible("a Docker daemon", why_it_cannot_run())
    service = Dockerd(new_directory())
    try:
        service.start()
        service.import_images()
        os.environ["DOCKER_HOST"] = service.host
        yield service
    finally:
        service.remove()


@asynccontextmanager
async def scheduler() -> AsyncIterator[DockerScheduler]:
    """Return a scheduler whose connection stands."""
    async with DockerScheduler("benchmark") as made:
        await made.list()
        yield made


def shell(script: str, *, replicas: int = 1, name: str = "main", **more: object) -> AppDef:
    """An app of one role that runs a shell script."""
    role = Role(name, BUSYBOX_IMAGE, entrypoint="sh", args=["-c", script], num_replicas=replicas, **more)  # type: ignore[arg-type]
    return AppDef("bench", [role])


async def ended(scheduler: DockerScheduler, app_id: str) -> None:
    """Wait for an app's end."""
    await anext(event async for event in scheduler.watch([app_id]) if event.is_terminal())


async def hostnames(scheduler: DockerScheduler, app_id: str) -> list[str]:
    """Return the names of an app's containers."""
    status = await scheduler.describe(app_id)
    assert status is not None
    return [replica.hostname for replica in status.replicas]


async def run(*command: str) -> float:
    """Run a command without its output; returns the CPU seconds that it took."""
    before = os.times()
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    if await process.wait():
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


PEER_APP = f"""
import time
from torchx.schedulers.docker_scheduler import create_scheduler
from torchx.specs import AppDef, Role, Resource
def app(script, replicas=1):
    return AppDef("bench", [Role("main", {BUSYBOX_IMAGE!r}, entrypoint="sh", args=["-c", script],
                                 num_replicas=replicas, resource=Resource(cpu=-1, gpu=-1, memMB=-1))])
scheduler = create_scheduler("bench")
def ended(app_id):
    while scheduler.describe(app_id).state.name not in ("SUCCEEDED", "FAILED"):
        time.sleep(0.1)
    return app_id
def finish():
    pass
"""
"""What each script of the peer begins with."""
