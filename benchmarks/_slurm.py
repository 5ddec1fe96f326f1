"""A Slurm cluster for benchmarks, the apps that they run, and how the peer runs them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from asyncsched.schedulers.slurm import SlurmScheduler
from asyncsched.specs import AppDef, Resource, Role
from benchmarks._harness import check_possible
from tests.services.slurm import SlurmCluster, new_cluster, why_it_cannot_run


@contextmanager
def cluster(*, accounts: bool = False) -> Iterator[SlurmCluster]:
    """Bring up a cluster of our own; `SLURM_CONF` names it to everybody."""
    check_possible("a Slurm cluster", why_it_cannot_run(accounts=accounts))
    with new_cluster(accounts=accounts) as service:
        os.environ.update(service.environ)
        yield service


@asynccontextmanager
async def scheduler() -> AsyncIterator[SlurmScheduler]:
    """Return a scheduler with a place of its own for its apps."""
    with tempfile.TemporaryDirectory() as home:
        async with SlurmScheduler("benchmark", state_dir=home) as made:
            yield made


def program(*command: str, replicas: int = 1) -> AppDef:
    """An app of one role that runs a program."""
    first, *args = command
    role = Role(
        "main", "", entrypoint=first, args=args, num_replicas=replicas, resource=Resource(cpu=1, gpu=0, memMB=32)
    )
    return AppDef("bench", [role])


async def ended(scheduler: SlurmScheduler, app_id: str) -> None:
    """Wait for an app's end."""
    await anext(event async for event in scheduler.watch([app_id]) if event.is_terminal())


PEER_APP = """
import os, tempfile, threading, time
from torchx.schedulers.slurm_scheduler import create_scheduler
from torchx.specs import AppDef, Role, Resource
os.chdir(tempfile.mkdtemp())
def app(*command, replicas=1):
    return AppDef("bench", [Role("main", "", entrypoint=command[0], args=list(command[1:]), num_replicas=replicas,
                                 resource=Resource(cpu=1, gpu=0, memMB=32))])
scheduler = create_scheduler("bench")
def ended(app_id):
    while (found := scheduler.describe(app_id)) is None or found.state.name not in ("SUCCEEDED", "FAILED"):
        time.sleep(0.1)
    return app_id
def finish():
    pass
"""
