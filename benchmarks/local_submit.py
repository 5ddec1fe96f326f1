"""How long starting 200 processes takes: against 200 serial `Popen`, and the peer."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from asyncsched import AppDef, Role
from asyncsched.schedulers.local import LocalScheduler
from benchmarks._docker import peer
from benchmarks._floods import longest_step
from benchmarks._harness import Claim, at_most

if TYPE_CHECKING:
    from collections.abc import Iterator

REPLICAS = 200
ROUNDS = 5
PROGRAMS = {
    "sleep": ["sleep", "600"],
    "a Python program": [sys.executable, "-c", "import time; time.sleep(600)"],
}

PEER = """
import time, tempfile
from torchx.schedulers.local_scheduler import LocalScheduler, CWDImageProvider
from torchx.specs import AppDef, Role, Resource
scheduler = LocalScheduler("bench", CWDImageProvider)
role = Role("main", "", entrypoint={program!r}, args={args!r}, num_replicas={replicas},
            resource=Resource(cpu=-1, gpu=-1, memMB=-1))
began = time.perf_counter()
app_id = scheduler.submit(AppDef("bench", [role]), {{"log_dir": tempfile.mkdtemp()}})
print(time.perf_counter() - began)
scheduler.cancel(app_id)
scheduler.close()
"""


async def claims() -> AsyncIterator[Claim]:
    """Submit and end in turns, the best of a few rounds of each."""
    for name, command in PROGRAMS.items():
        ours, serial, steps = float("inf"), float("inf"), 0.0
        for _ in range(ROUNDS):
            serial = min(serial, _serial(command))
            taken, step = await _submit(command)
            ours, steps = min(ours, taken), max(steps, step)
        yield at_most(
            f"{REPLICAS} replicas of {name}: all started in at most 3 x the time of as many serial Popen",
            ours / serial,
            3.0,
            detail=f"{ours:.3f} against {serial:.3f} s",
        )
        yield at_most(f"{name}: no step of the submit holds the loop for more than 20 ms", steps * 1e3, 20, unit=" ms")
        (took,) = peer(PEER.format(program=command[0], args=command[1:], replicas=REPLICAS))
        yield at_most(
            f"{REPLICAS} replicas of {name}: less than the peer",
            ours / float(took),
            1.0,
            detail=f"{ours:.3f} against {float(took):.3f} s",
        )


async def _submit(command: list[str]) -> tuple[float, float]:
    role = Role("main", "", entrypoint=command[0], args=command[1:], num_replicas=REPLICAS)
    with state_directory():
        async with LocalScheduler("benchmark") as scheduler:
            await scheduler.submit(AppDef("warm", [Role("main", "", entrypoint="true")]))
            with longest_step() as steps:
                began = time.perf_counter()
                app_id = await scheduler.submit(AppDef("bench", [role]), {"grace_period": 1.0})
                taken = time.perf_counter() - began
            await scheduler.kill(app_id)
    return taken, max(steps)


def _serial(command: list[str]) -> float:
    began = time.perf_counter()
    started = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(REPLICAS)]
    taken = time.perf_counter() - began
    for process in started:
        process.kill()
    for process in started:
        process.wait()
    return taken


@contextmanager
def state_directory() -> Iterator[None]:
    """Keep what a benchmark leaves out of the user's own state."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["ASYNCSCHED_HOME"] = home
        yield
