"""Processes that write logs, for the benchmarks of local_cwd, and the peer's way to read them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from asyncsched import AppDef, Role


def app_of(command: list[str], *, replicas: int = 1) -> AppDef:
    """Return an app of one role that runs a command."""
    return AppDef("bench", [Role("main", "", entrypoint=command[0], args=command[1:], num_replicas=replicas)])


MEMORY = "/dev/shm"
PEER_APP = """
import os, shutil, sys, tempfile, threading, time
from torchx.schedulers.local_scheduler import LocalScheduler, CWDImageProvider
from torchx.specs import AppDef, Role, Resource
scheduler = LocalScheduler("bench", CWDImageProvider)
def submit(command, replicas=1):
    role = Role("main", "", entrypoint=command[0], args=command[1:], num_replicas=replicas,
                resource=Resource(cpu=-1, gpu=-1, memMB=-1))
    return scheduler.submit(AppDef("bench", [role]), {"log_dir": logs})
logs = tempfile.mkdtemp()
def finish():
    scheduler.close()
    shutil.rmtree(logs, ignore_errors=True)
"""
"""What each script of the peer begins with."""


@contextmanager
def state_directory(*, in_memory: bool = False) -> Iterator[None]:
    """Keep what a benchmark leaves out of the user's own state.

    Args:
        in_memory: Whether to make it in memory, and later temporary files too, as those of the peer. On a disk, new
            files take several times longer for minutes after many others were removed, as by the run before.
    """
    if in_memory and Path(MEMORY).is_dir():
        os.environ["TMPDIR"] = tempfile.tempdir = MEMORY
    with tempfile.TemporaryDirectory() as home:
        os.environ["ASYNCSCHED_HOME"] = home
        yield


def supervisors() -> list[int]:
    """Return the processes that write the logs in the state directory: the workers of all supervisors there."""
    sockets = Path(os.environ["ASYNCSCHED_HOME"], "supervisors").glob("*.sock")
    return [int(each.stem.partition("-")[0]) for each in sockets]
