"""How soon a line that a local process writes is at its reader."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator

from asyncsched.schedulers.local import LocalScheduler
from benchmarks._docker import peer
from benchmarks._floods import percentile
from benchmarks._harness import Claim, at_most
from benchmarks._local import PEER_APP, app_of
from benchmarks.local_submit import state_directory

REPLICAS = 8
LINES = 4000
PAUSE = 0.02
ROUNDS = 3
WRITER = f"import time\nwhile True:\n print(time.time_ns(), flush=True)\n time.sleep({PAUSE})"
COMMAND = [sys.executable, "-c", WRITER]

PEER = """
late = []
def read(k):
    for text in scheduler.log_iter(app_id, "main", k, should_tail=True):
        now = time.time_ns()
        late.extend(now - int(line) for line in text.split())
app_id = submit({command!r}, {replicas})
for k in range({replicas}):
    threading.Thread(target=read, args=(k,), daemon=True).start()
while len(late) < {lines}:
    time.sleep(0.1)
print(sorted(late)[len(late) // 2] / 1e6)
scheduler.cancel(app_id)
os._exit(sys.stdout.flush() or 0)
"""


async def claims() -> AsyncIterator[Claim]:
    """Take turns with a bare loop that reads the writers' pipes itself: what a busy machine adds, it adds to both."""
    runs: list[list[float]] = []
    bare: list[list[float]] = []
    for _ in range(ROUNDS):
        runs.append(await _latencies())
        bare.append(await _bare_latencies())
    p50, p99 = _typical(runs, 0.5), _typical(runs, 0.99)
    detail = f"a bare loop over the pipes: p50 {_typical(bare, 0.5):.2f}, p99 {_typical(bare, 0.99):.2f} ms"
    yield at_most(f"{REPLICAS} replicas: p50 from write to yield at most 1 ms", p50, 1.0, unit=" ms", detail=detail)
    yield at_most(
        f"{REPLICAS} replicas: p99 at most 5 ms above that of a bare loop",
        p99 - _typical(bare, 0.99),
        5.0,
        unit=" ms",
        detail=f"p99 {p99:.2f} ms",
    )
    (theirs,) = peer(PEER_APP + PEER.format(command=COMMAND, replicas=REPLICAS, lines=LINES // 4))
    yield at_most(
        "a twentieth of the peer's", p50 / float(theirs), 0.05, detail=f"p50 {p50:.2f} against {float(theirs):.1f} ms"
    )


def _typical(runs: list[list[float]], share: float) -> float:
    return statistics.median(percentile(late, share) for late in runs)


async def _latencies() -> list[float]:
    """Return milliseconds from each write to its line's arrival."""
    late: list[float] = []
    with state_directory():
        async with LocalScheduler("benchmark") as scheduler:
            app_id = await scheduler.submit(app_of(COMMAND, replicas=REPLICAS))
            async with scheduler.log_iter(app_id, should_tail=True) as stream:
                for _ in range(20 * REPLICAS):  # until all of them are under way
                    await anext(stream)
                for _ in range(LINES):
                    line = await anext(stream)
                    late.append((time.time_ns() - int(line)) / 1e6)
            await scheduler.kill(app_id)
    return late


async def _bare_latencies() -> list[float]:
    late: list[float] = []
    enough = asyncio.Event()
    loop = asyncio.get_running_loop()

    def read(fd: int) -> None:
        now = time.time_ns()
        late.extend((now - int(line)) / 1e6 for line in os.read(fd, 65536).split())
        if len(late) >= LINES + 20 * REPLICAS:
            enough.set()

    writers = [subprocess.Popen(COMMAND, stdout=subprocess.PIPE) for _ in range(REPLICAS)]
    pipes = [writer.stdout.fileno() for writer in writers if writer.stdout is not None]
    for fd in pipes:
        loop.add_reader(fd, read, fd)
    await enough.wait()
    for fd in pipes:
        loop.remove_reader(fd)
    for writer in writers:
        with writer:  # which closes its pipe and waits
            writer.kill()
    return late[20 * REPLICAS :]
