"""What describing costs: commands and time for 1,000 jobs, against a bare squeue and against the peer."""

from __future__ import annotations

import subprocess
import time
from collections.abc import AsyncIterator, Awaitable

from asyncsched._tasks import gather_bounded
from benchmarks._harness import LEAST_ROUNDS, Claim, Count, at_most, in_turns_on_loop, on_loop
from benchmarks._idle import until_idle
from benchmarks._peer import peer
from benchmarks._slurm import PEER_APP, cluster, program, scheduler

JOBS = 1000
OF_THE_PEER = 20

OURS = "asyncsched"
BARE = "a bare squeue of the same jobs"
THE_PEER = f"the peer, for {OF_THE_PEER} of them"

PEER = f"""
app_id = ended(scheduler.submit(app("true"), {{}}))
def measure():
    began = time.perf_counter()
    for _ in range({OF_THE_PEER}):
        scheduler.describe(app_id)
    return [time.perf_counter() - began]
"""


async def claims() -> AsyncIterator[Claim]:
    """Count the commands that we start, and time all."""
    with cluster(accounts=True):
        async with scheduler() as made:
            # They wait: what they would do is not what is measured.
            held = {"sbatch_args": ["--hold"]}
            ids = await gather_bounded(lambda _: made.submit(program("true"), held), range(JOBS), 8)
            await until_idle()
            before = made.commands_started
            found = await made.describe_many(ids)
            assert all(found.values())
            yield at_most(f"{JOBS:,} jobs", Count(number=made.commands_started - before, of="commands"), 2)
            with peer(PEER_APP + PEER) as theirs:
                taken = await in_turns_on_loop(
                    {
                        OURS: lambda: _timed(made.describe_many(ids)),
                        BARE: on_loop(_bare),
                        THE_PEER: theirs.measure_one,
                    },
                    LEAST_ROUNDS,
                )
            for reference, bound in ((BARE, 16.0), (THE_PEER, 0.5)):
                yield at_most(
                    f"{JOBS:,} jobs: time to describe them",
                    taken.ratio(OURS, reference),
                    bound,
                    detail=taken.told(1e3, "ms"),
                )


async def _timed(call: Awaitable[object]) -> float:
    began = time.perf_counter()
    await call
    return time.perf_counter() - began


def _bare() -> float:
    began = time.perf_counter()
    told = subprocess.run(["squeue", "-h", "--me", "-t", "all", "-o", "%i %T"], capture_output=True, check=True)
    assert told.stdout.count(b"\n") >= JOBS
    return time.perf_counter() - began
