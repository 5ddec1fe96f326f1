"""How soon all replicas of a job run: 4, 16 and 200 on four nodes against a job script that only starts as many.

It counts from when the cluster begins with the job: until then up to a second passes that is the cluster's alone, and
that decides any comparison in which it is counted. What the script starts are shells, as a script does that says where
its output goes: ours are shells, too, and write down each start besides. Hence the bound: twice as much at most.

The peer never starts more replicas than there are nodes: each is a component of its job, and needs a node for itself.
Its four replicas are no shells and write nothing down, and so it has the same bound. Four start within a tenth of a
second, and whatever else the machine does can only hold them up: of several starts the fastest counts, on both sides.
"""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

from asyncsched.schedulers.slurm import SlurmScheduler
from asyncsched.schedulers.slurm.names import BATCH_LOG, JOB
from benchmarks._harness import LEAST_ROUNDS, Claim, at_most, in_turns_on_loop
from benchmarks._peer import peer
from benchmarks._slurm import PEER_APP, cluster, ended, program, scheduler

OURS = "asyncsched"
BARE = "a script that starts as many shells"
THE_PEER = "the peer"
REPLICAS = (4, 16, 200)
STARTS = 3
"""How many starts of four replicas there are in a round."""
BOUND = 2.0

PEER = f"""
import subprocess
def measure():
    return [min(one_start() for _ in range({STARTS}))]
def one_start():
    there = tempfile.mkdtemp()
    app_id = scheduler.submit(app("mktemp", "-p", there, replicas=4), {{}})
    while len(os.listdir(there)) < 4:
        time.sleep(0.005)
    full = time.time()
    ended(app_id)
    return full - float(subprocess.check_output(["stat", "-c", "%.9W", f"slurm-{{app_id}}.out"]))
"""


async def claims() -> AsyncIterator[Claim]:
    """Submit jobs whose replicas each make a file, and wait for the files."""
    with cluster(accounts=True):  # without them the peer describes nothing
        async with scheduler() as made:
            for replicas in REPLICAS:
                ways = {OURS: partial(_ours, made, replicas), BARE: partial(_bare, replicas)}
                taken = await in_turns_on_loop(ways, LEAST_ROUNDS)
                yield at_most(
                    f"{replicas} replicas: from the job's start until all run",
                    taken.ratio(OURS, BARE),
                    BOUND,
                    detail=taken.told(1e3, "ms"),
                )
            with peer(PEER_APP + PEER) as theirs:
                taken = await in_turns_on_loop(
                    {OURS: partial(_fastest, made, 4), THE_PEER: theirs.measure_one}, LEAST_ROUNDS
                )
            yield at_most(
                "4 replicas: from when the job's log is opened until all run",
                taken.ratio(OURS, THE_PEER),
                BOUND,
                detail=taken.told(1e3, "ms"),
            )


def _written(app: Path) -> float:
    """Return when an app's job has begun: it writes down its number first."""
    return (app / JOB).stat().st_mtime


def _birth(app: Path) -> float:
    """Return when the node has opened the log of an app's job, just before it starts it; Python does not tell it."""
    return float(subprocess.check_output(["stat", "-c", "%.9W", str(app / BATCH_LOG)]))


async def _ours(made: SlurmScheduler, replicas: int, *, since: Callable[[Path], float] = _written) -> float:
    with tempfile.TemporaryDirectory() as there, tempfile.TemporaryDirectory() as job_dir:
        app_id = await made.submit(program("mktemp", "-p", there, replicas=replicas), {"job_dir": job_dir})
        full = await _until_full(there, replicas)
        await ended(made, app_id)
        return full - since(Path(job_dir, app_id))


async def _fastest(made: SlurmScheduler, replicas: int) -> float:
    return min([await _ours(made, replicas, since=_birth) for _ in range(STARTS)])


async def _bare(replicas: int) -> float:
    with tempfile.TemporaryDirectory() as there, tempfile.NamedTemporaryFile() as begun:
        shell = f"bash -c 'mktemp -p {there}; :' >/dev/null"
        wrapped = f"touch {begun.name}; srun {shell}"
        size = [f"-n{replicas}", "-c1", "--mem-per-cpu=32", "--output=/dev/null"]
        await asyncio.to_thread(subprocess.run, ["sbatch", "-Q", *size, f"--wrap={wrapped}"], check=True)
        full = await _until_full(there, replicas)
        while (await asyncio.to_thread(subprocess.run, ["squeue", "-h"], check=True, capture_output=True)).stdout:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        return full - Path(begun.name).stat().st_mtime


async def _until_full(there: str, replicas: int) -> float:
    """Return when there were as many files."""
    while len(list(Path(there).iterdir())) < replicas:  # noqa: ASYNC110 - what is waited for is a file
        await asyncio.sleep(0.005)
    return time.time()
