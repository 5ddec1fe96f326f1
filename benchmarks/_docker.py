"""A Docker daemon for benchmarks, the apps that they run, and the peer to compare with."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import venv
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from asyncsched.schedulers.docker import DockerScheduler
from asyncsched.specs import AppDef, Role
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd, new_directory

PEER = Path(os.environ.get("ASYNCSCHED_PEER_VENV", "/tmp/asyncsched-peer"))
"""A virtual environment with the peer: made on first use, kept for the next."""


@contextmanager
def daemon() -> Iterator[Dockerd]:
    """Bring up a daemon of our own; `DOCKER_HOST` names it to everybody."""
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
    await anext(event async for event in scheduler.watch([app_id]) if event.over)


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


def peer(script: str) -> list[str]:
    """Run a script in the peer's environment and return what it prints, as words."""
    python = PEER / "bin/python"
    if not python.exists():
        venv.create(PEER, with_pip=True)
        wanted = ["torchx==0.7.0", "docker", "setuptools<81"]
        subprocess.run([str(python), "-m", "pip", "install", "-q", *wanted], check=True, stdout=sys.stderr)
    done = subprocess.run([str(python), "-W", "ignore", "-c", script], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return done.stdout.split()


PEER_APP = f"""
import time
from torchx.schedulers.docker_scheduler import create_scheduler
from torchx.specs import AppDef, Role, Resource
def app(script, replicas=1):
    return AppDef("bench", [Role("main", {BUSYBOX_IMAGE!r}, entrypoint="sh", args=["-c", script],
                                 num_replicas=replicas, resource=Resource(cpu=-1, gpu=-1, memMB=-1))])
scheduler = create_scheduler("bench")
"""
