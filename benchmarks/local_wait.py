"""How soon a watch hears of a process's end, and how soon `wait` returns."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator

from asyncsched import AppDef, Role, Runner
from asyncsched.schedulers.local import LocalScheduler
from benchmarks._docker import peer
from benchmarks._floods import percentile
from benchmarks._harness import Claim, at_most
from benchmarks.local_submit import state_directory

ROUNDS = 100
JOB = 0.2

PEER = """
import time, tempfile
from torchx.runner import get_runner
from torchx.specs import AppDef, Role, Resource
role = Role("main", "", entrypoint="sleep", args=["0.2"], resource=Resource(cpu=-1, gpu=-1, memMB=-1))
with get_runner() as runner:
    began = time.perf_counter()
    runner.wait(runner.run(AppDef("bench", [role]), "local_cwd", {"log_dir": tempfile.mkdtemp()}))
    print(time.perf_counter() - began)
"""


async def claims() -> AsyncIterator[Claim]:
    """Measure from the reaping of the process, as its record says, to the return of `wait`."""
    with state_directory():
        async with Runner("benchmark", {"local_cwd": LocalScheduler("benchmark")}) as runner:
            await _late(runner)
            late = [await _late(runner) for _ in range(ROUNDS)]
            bare = [await _bare() for _ in range(ROUNDS)]
            took = statistics.median([await _whole(runner) for _ in range(5)])
    detail = f"p50 {percentile(late, 0.5) * 1e3:.2f} ms; a pidfd of our own child: {percentile(bare, 0.5) * 1e3:.2f} ms"
    yield at_most(
        "`wait` returns within 10 ms of the end of a process (p95)",
        percentile(late, 0.95) * 1e3,
        10.0,
        unit=" ms",
        detail=detail,
    )
    (theirs,) = peer(PEER)
    yield at_most(
        f"waiting for a job of {JOB} s takes a tenth of the peer's time",
        took / float(theirs),
        0.1,
        detail=f"{took:.3f} against {float(theirs):.2f} s",
    )


async def _late(runner: Runner) -> float:
    handle = await runner.run(AppDef("job", [Role("main", "", entrypoint="sleep", args=["0.02"])]), "local_cwd")
    status = await runner.wait(handle)
    returned = time.time()
    assert status is not None
    ended = status.roles[0].replicas[0].finished_at
    assert ended is not None
    return returned - ended.timestamp()


async def _bare() -> float:
    loop = asyncio.get_running_loop()
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", "sleep 0.02"], os.environ)
    pidfd = os.pidfd_open(pid)
    ended = loop.create_future()
    loop.add_reader(pidfd, ended.set_result, None)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    began = time.perf_counter()
    await ended
    late = time.perf_counter() - began
    loop.remove_reader(pidfd)
    os.close(pidfd)
    os.waitpid(pid, 0)
    return late


async def _whole(runner: Runner) -> float:
    began = time.perf_counter()
    role = Role("main", "", entrypoint="sleep", args=[str(JOB)])
    await runner.wait(await runner.run(AppDef("job", [role]), "local_cwd"))
    return time.perf_counter() - began
