"""How soon a line that a local process writes is at its reader."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from operator import attrgetter
from typing import NamedTuple

from asyncsched.schedulers.local import LocalScheduler
from benchmarks._clock import Arrivals, Waits
from benchmarks._floods import percentile
from benchmarks._harness import Claim, at_most, in_turns_on_loop
from benchmarks._local import PEER_APP, app_of, state_directory, supervisors
from benchmarks._peer import peer

REPLICAS = 8
LINES = 1000
"""In each round."""

FIRST = 20 * REPLICAS
"""Lines before those, until all writers are under way."""

PAUSE = 0.02
WRITER = f"import time\nwhile True:\n print(time.time_ns(), flush=True)\n time.sleep({PAUSE})"
COMMAND = [sys.executable, "-c", WRITER]
OURS = "asyncsched"
BARE = "a bare loop over the pipes of as many writers"
THE_PEER = "the peer"

PEER = """
def measure():
    late = []
    app_id = submit({command!r}, {replicas})
    def read(k):
        for text in scheduler.log_iter(app_id, "main", k, should_tail=True):
            now = time.time_ns()
            late.extend(now - int(line) for line in text.split())
    readers = [threading.Thread(target=read, args=(k,)) for k in range({replicas})]
    [reader.start() for reader in readers]
    while len(late) < {lines}:
        time.sleep(0.1)
    found = sorted(late)
    scheduler.cancel(app_id)
    [reader.join() for reader in readers]
    return [found[len(found) // 2] / 1e6, found[len(found) * 99 // 100] / 1e6]
"""


class Late(NamedTuple):
    """Milliseconds from a write to its line's arrival, without those in which a thread between waited for a core."""

    p50: float
    p99: float


async def claims() -> AsyncIterator[Claim]:
    """Take turns with a bare loop that reads the writers' pipes itself; the peer's times are whole ones."""
    with peer(PEER_APP + PEER.format(command=COMMAND, replicas=REPLICAS, lines=LINES)) as theirs:

        async def measure() -> Late:
            return Late(*await theirs.measure())

        taken = await in_turns_on_loop({OURS: _ours, BARE: _bare, THE_PEER: measure})
    name = f"{REPLICAS} replicas: time from write to yield"
    p50, p99 = taken.told(1, "ms", _P50), taken.told(1, "ms", _P99)
    yield at_most(f"{name} (p50)", taken.ratio(OURS, BARE, _P50), 10.0, detail=p50)
    yield at_most(f"{name} (p99)", taken.ratio(OURS, BARE, _P99), 6.3, detail=p99)
    yield at_most(f"{name} (p50)", taken.ratio(OURS, THE_PEER, _P50), 0.05, detail=p50)


_P50: Callable[[Late], float] = attrgetter("p50")
_P99: Callable[[Late], float] = attrgetter("p99")


def _late(arrivals: Arrivals) -> Late:
    nanoseconds = arrivals.late[FIRST:]
    return Late(percentile(nanoseconds, 0.5) / 1e6, percentile(nanoseconds, 0.99) / 1e6)


async def _ours() -> Late:
    with state_directory():
        async with LocalScheduler("benchmark") as scheduler:
            app_id = await scheduler.submit(app_of(COMMAND, replicas=REPLICAS))
            arrivals = Arrivals(Waits(*supervisors()))
            async with scheduler.log_iter(app_id, should_tail=True) as stream:
                for _ in range(FIRST + LINES):
                    arrivals.take(int(await anext(stream)))
            await scheduler.kill(app_id)
    return _late(arrivals)


async def _bare() -> Late:
    arrivals = Arrivals(Waits())
    enough = asyncio.Event()
    loop = asyncio.get_running_loop()

    def read(fd: int) -> None:
        for line in os.read(fd, 65536).split():
            arrivals.take(int(line))
        if len(arrivals.late) >= FIRST + LINES:
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
    return _late(arrivals)
