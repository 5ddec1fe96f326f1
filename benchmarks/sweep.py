"""How long a sweep of 100 local jobs takes, 8 at a time: a group, against submitit's local executor and a loop."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator

from asyncsched import AppDef, Role, Runner
from benchmarks._harness import LEAST_ROUNDS, Claim, at_most, in_turns_on_loop
from benchmarks._local import state_directory
from benchmarks._peer import SUBMITIT, peer

JOBS = 100
LIMIT = 8

GROUP = "a group"
THE_PEER = "submitit's local executor"

# It has no limit of its own: its users keep a window of jobs by themselves.
PEER = f"""
import tempfile, time
import submitit

def job():
    return 0

def finish():
    pass

def measure():
    with tempfile.TemporaryDirectory() as folder:
        executor = submitit.LocalExecutor(folder)
        began = time.perf_counter()
        started, running = 0, []
        while started < {JOBS} or running:
            while started < {JOBS} and len(running) < {LIMIT}:
                running.append(executor.submit(job))
                started += 1
            ended = [each for each in running if each.done()]
            assert all(each.result() == 0 for each in ended)
            running = [each for each in running if each not in ended]
            time.sleep(0.02)
        return [time.perf_counter() - began]
"""


async def claims() -> AsyncIterator[Claim]:
    """Run the same sweep in turns: each job is a Python process that does nothing."""
    with peer(PEER, SUBMITIT) as theirs:
        taken = await in_turns_on_loop({GROUP: _sweep, THE_PEER: theirs.measure_one}, LEAST_ROUNDS)
    yield at_most(
        f"time of {JOBS} local jobs, {LIMIT} at a time", taken.ratio(GROUP, THE_PEER), 1.0, detail=taken.told(1, "s")
    )


async def _sweep() -> float:
    app = AppDef("job", [Role("main", "", entrypoint=sys.executable, args=["-c", ""])])
    with state_directory():
        began = time.perf_counter()
        async with Runner("benchmark") as runner, runner.group("local_cwd", limit=LIMIT) as group:
            for _ in range(JOBS):
                group.start(app)
        return time.perf_counter() - began
