"""Processes that write logs, for the benchmarks of local_cwd, and the peer's way to read them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from asyncsched import AppDef, Role


def app_of(command: list[str], *, replicas: int = 1) -> AppDef:
    """Return an app of one role that runs a command."""
    return AppDef("bench", [Role("main", "", entrypoint=command[0], args=command[1:], num_replicas=replicas)])


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
def state_directory() -> Iterator[None]:
    """Keep what a benchmark leaves out of the user's own state."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["ASYNCSCHED_HOME"] = home
        yield
