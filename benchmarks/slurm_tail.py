"""How late lines come, and how many commands that takes: 64 replicas of one job, against the peer with 4."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import AsyncIterator

from asyncsched.schedulers.slurm import SlurmScheduler
from benchmarks._harness import LEAST_ROUNDS, Claim, Count, at_most, in_turns_on_loop
from benchmarks._peer import peer
from benchmarks._slurm import PEER_APP, cluster, program, scheduler

REPLICAS = 64
LINES = 12
PAUSE = 0.25
WRITER = f"""
import time
for number in range({LINES}):
    print(time.time(), flush=True)
    time.sleep({PAUSE})
"""

OURS = "asyncsched"
THE_PEER = "the peer, with 4 replicas"

PEER = f"""
import statistics, sys
def measure():
    app_id = scheduler.submit(app({sys.executable!r}, "-S", "-c", {WRITER!r}, replicas=4), {{}})
    while (found := scheduler.describe(app_id)) is None or found.state.name in ("PENDING", "UNKNOWN", "SUBMITTED"):
        time.sleep(0.05)
    late = []
    def tail(k):
        from torchx.schedulers.api import Stream
        for line in scheduler.log_iter(app_id, "main", k, should_tail=True, streams=Stream.STDOUT):
            late.append(time.time() - float(line))
    threads = [threading.Thread(target=tail, args=(k,)) for k in range(4)]
    for each in threads: each.start()
    for each in threads: each.join()
    return [statistics.median(late)]
"""


async def claims() -> AsyncIterator[Claim]:
    """Follow jobs whose lines say when they were written."""
    with cluster(accounts=True):
        async with scheduler() as made:
            before = made.commands_started
            with peer(PEER_APP + PEER) as theirs:
                taken = await in_turns_on_loop({OURS: lambda: _ours(made), THE_PEER: theirs.measure_one}, LEAST_ROUNDS)
            commands = (made.commands_started - before) // LEAST_ROUNDS
            seconds = LINES * PAUSE
            yield at_most(
                f"{REPLICAS} tails for {seconds:g} s, their submit included", Count(number=commands, of="commands"), 20
            )
            yield at_most(
                f"{REPLICAS} tails: the median delay of a line",
                taken.ratio(OURS, THE_PEER),
                0.2,
                detail=taken.told(1e3, "ms"),
            )


async def _ours(made: SlurmScheduler) -> float:
    app_id = await made.submit(program(sys.executable, "-S", "-c", WRITER, replicas=REPLICAS))
    late = [time.time() - float(line) async for line in made.log_iter(app_id, should_tail=True)]
    assert len(late) == REPLICAS * LINES, len(late)
    return statistics.median(late)
