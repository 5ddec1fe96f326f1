"""How long it takes until three replicas that ignore TERM are gone."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

from benchmarks._docker import daemon, ended, scheduler, shell
from benchmarks._harness import Claim, at_most

IGNORES = "trap '' TERM; while :; do sleep 0.1; done"


async def claims() -> AsyncIterator[Claim]:
    """The grace period is spent once, not once for each (the peer: 30.8 s)."""
    with daemon():
        async with scheduler() as made:
            app_id = await made.submit(shell(IGNORES, replicas=3))
            began = time.perf_counter()
            await made.cancel(app_id)
            returned = time.perf_counter() - began
            await ended(made, app_id)
            took = time.perf_counter() - began
    yield at_most("cancel returns within 200 ms", returned * 1e3, 200, unit=" ms")
    yield at_most("3 replicas that ignore TERM are gone after 10 s of grace and 1 s", took, 11, unit=" s")
