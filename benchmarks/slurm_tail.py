"""How late lines come, and how many commands that takes: 64 replicas of one job, against the peer with 4.

How many commands there are depends on how long the job takes to start and to end, while its replicas change. They are
held against one look each half second for as long as it took, from the submit to the last line.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import AsyncIterator

from asyncsched.schedulers.slurm import SlurmScheduler
from benchmarks._harness import LEAST_ROUNDS, Claim, Rounds, at_most, in_turns_on_loop
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
LOOKING = "one look each half second"
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
            asked = Rounds[float](dict.fromkeys((OURS, LOOKING)))
            with peer(PEER_APP + PEER) as theirs:
                taken = await in_turns_on_loop(
                    {OURS: lambda: _ours(made, asked), THE_PEER: theirs.measure_one}, LEAST_ROUNDS
                )
            yield at_most(
                f"{REPLICAS} tails: commands, the submit's included",
                asked.ratio(OURS, LOOKING),
                2.0,
                detail=f"{max(asked.of[OURS]):g} at most",
            )
            yield at_most(
                f"{REPLICAS} tails: the median delay of a line",
                taken.ratio(OURS, THE_PEER),
                0.2,
                detail=taken.told(1e3, "ms"),
            )


async def _ours(made: SlurmScheduler, asked: Rounds[float]) -> float:
    before, began = made.commands_started, time.monotonic()
    app_id = await made.submit(program(sys.executable, "-S", "-c", WRITER, replicas=REPLICAS))
    late = [time.time() - float(line) async for line in made.log_iter(app_id, should_tail=True)]
    asked.of[OURS].append(made.commands_started - before)
    asked.of[LOOKING].append(2 * (time.monotonic() - began))
    assert len(late) == REPLICAS * LINES, len(late)
    return statistics.median(late)
