"""How soon `wait` returns after a process's end."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

from asyncsched import AppDef, Role, Runner
from asyncsched.schedulers.local import LocalScheduler
from benchmarks._clock import Waits
from benchmarks._floods import percentile
from benchmarks._harness import Claim, at_most, in_turns_on_loop
from benchmarks._local import state_directory, supervisors
from benchmarks._peer import peer

ENDS = 20
"""In each round."""

JOB = 0.2
QUIET = JOB / 2
"""Seconds into a job, when everything that its start has caused is done."""

WAIT = "`Runner.wait`"
THE_PEER = "the peer"

PEER = """
import shutil, tempfile, time
from torchx.runner import get_runner
from torchx.specs import AppDef, Role, Resource
role = Role("main", "", entrypoint="sleep", args=["0.2"], resource=Resource(cpu=-1, gpu=-1, memMB=-1))
logs, runner = tempfile.mkdtemp(), get_runner()
def measure():
    began = time.perf_counter()
    runner.wait(runner.run(AppDef("bench", [role]), "local_cwd", {"log_dir": logs}))
    return [time.perf_counter() - began]
def finish():
    runner.close()
    shutil.rmtree(logs, ignore_errors=True)
"""

BARE = "a bare parent that writes a line when its child has ended"
PARENT = """
import subprocess, sys, time
for line in sys.stdin:
    subprocess.run(["sleep", sys.argv[1]])
    print(time.time(), flush=True)
"""


async def claims() -> AsyncIterator[Claim]:
    """Measure from the reaping of the process, as its record says, to the return of `wait`.

    What both threads wait for a core is left out. That includes what the reaping one waits before it reaps, so on a
    busy machine single figures are too small, but hardly the p95, the largest of a round.
    """
    with state_directory():
        async with Runner("benchmark", {"local_cwd": LocalScheduler("benchmark")}) as runner, _parent() as parent:
            await runner.wait(await _run(runner))
            ours, bare = Waits(*supervisors()), Waits(parent.pid)
            late = await in_turns_on_loop({WAIT: lambda: _ends(runner, ours), BARE: lambda: _bare_ends(parent, bare)})
            yield at_most(
                "time from the end of a process to the return of wait (p95)",
                late.ratio(WAIT, BARE),
                15.0,
                detail=late.told(1e3, "ms"),
            )
            with peer(PEER) as theirs:
                taken = await in_turns_on_loop({WAIT: lambda: _whole(runner), THE_PEER: theirs.measure_one}, 5)
    yield at_most(
        f"time to run and wait for a job of {JOB} s", taken.ratio(WAIT, THE_PEER), 0.1, detail=taken.told(1, "s")
    )


async def _ends(runner: Runner, waits: Waits) -> float:
    return percentile([await _late(_end(runner, await _run(runner)), waits) for _ in range(ENDS)], 0.95)


async def _late(end: Awaitable[float], waits: Waits) -> float:
    """Await the end of a job, which gives the time at which it ended; return how late that was."""
    waiting = asyncio.ensure_future(end)
    await asyncio.sleep(QUIET)
    before = waits()
    ended = await waiting
    return time.time() - ended - (waits() - before) / 1e9


async def _run(runner: Runner) -> str:
    return await runner.run(AppDef("job", [Role("main", "", entrypoint="sleep", args=[str(JOB)])]), "local_cwd")


async def _end(runner: Runner, handle: str) -> float:
    status = await runner.wait(handle)
    assert status is not None
    ended = status.roles[0].replicas[0].finished_at
    assert ended is not None
    return ended.timestamp()


@asynccontextmanager
async def _parent() -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", PARENT, str(JOB), stdin=pipe, stdout=pipe)
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


async def _bare_ends(parent: asyncio.subprocess.Process, waits: Waits) -> float:
    return percentile([await _late(_bare_end(parent), waits) for _ in range(ENDS)], 0.95)


async def _bare_end(parent: asyncio.subprocess.Process) -> float:
    assert parent.stdin is not None
    assert parent.stdout is not None
    parent.stdin.write(b"\n")
    return float(await parent.stdout.readline())


async def _whole(runner: Runner) -> float:
    began = time.perf_counter()
    await runner.wait(await _run(runner))
    return time.perf_counter() - began
