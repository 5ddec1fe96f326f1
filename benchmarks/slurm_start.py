"""How soon all replicas of a job run: 16 and 200 on four nodes against a bare sbatch, and 4 against the peer.

For 4, most of the time passes until the cluster begins with the job. The peer never starts more replicas than there are
nodes: each is a component of its job, and needs a node for itself.
"""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

from asyncsched.schedulers.slurm import SlurmScheduler
from benchmarks._harness import LEAST_ROUNDS, Claim, at_most, in_turns_on_loop
from benchmarks._peer import peer
from benchmarks._slurm import PEER_APP, cluster, ended, program, scheduler

OURS = "asyncsched"
BARE = "a bare sbatch of as many tasks"
THE_PEER = "the peer"
BOUNDS = {16: 2.5, 200: 2.5}

PEER = """
def measure():
    there = tempfile.mkdtemp()
    began = time.perf_counter()
    app_id = scheduler.submit(app("mktemp", "-p", there, replicas=4), {})
    while len(os.listdir(there)) < 4:
        time.sleep(0.005)
    taken = time.perf_counter() - began
    ended(app_id)
    return [taken]
"""


async def claims() -> AsyncIterator[Claim]:
    """Submit jobs whose replicas each make a file, and wait for the files."""
    with cluster(accounts=True):  # without them the peer describes nothing
        async with scheduler() as made:
            for replicas, bound in BOUNDS.items():
                ways = {OURS: partial(_ours, made, replicas), BARE: partial(_bare, replicas)}
                taken = await in_turns_on_loop(ways, LEAST_ROUNDS)
                yield at_most(
                    f"{replicas} replicas: until all run", taken.ratio(OURS, BARE), bound, detail=taken.told(1e3, "ms")
                )
            with peer(PEER_APP + PEER) as theirs:
                taken = await in_turns_on_loop(
                    {OURS: lambda: _ours(made, 4), THE_PEER: theirs.measure_one}, LEAST_ROUNDS
                )
            yield at_most("4 replicas: until all run", taken.ratio(OURS, THE_PEER), 1.0, detail=taken.told(1e3, "ms"))


async def _ours(made: SlurmScheduler, replicas: int) -> float:
    with tempfile.TemporaryDirectory() as there:
        began = time.perf_counter()
        app_id = await made.submit(program("mktemp", "-p", there, replicas=replicas))
        taken = await _until_full(there, replicas, began)
        await ended(made, app_id)
        return taken


async def _bare(replicas: int) -> float:
    with tempfile.TemporaryDirectory() as there:
        began = time.perf_counter()
        wrapped = f"srun mktemp -p {there} >/dev/null"
        size = [f"-n{replicas}", "-c1", "--mem-per-cpu=32", "--output=/dev/null"]
        await asyncio.to_thread(subprocess.run, ["sbatch", "-Q", *size, f"--wrap={wrapped}"], check=True)
        taken = await _until_full(there, replicas, began)
        while (await asyncio.to_thread(subprocess.run, ["squeue", "-h"], check=True, capture_output=True)).stdout:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        return taken


async def _until_full(there: str, replicas: int, began: float) -> float:
    while len(list(Path(there).iterdir())) < replicas:  # noqa: ASYNC110 - what is waited for is a file
        await asyncio.sleep(0.005)
    return time.perf_counter() - began
