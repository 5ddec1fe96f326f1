"""What describing costs: requests and time for 20 apps of 10 containers, and for one of 20 against the peer."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

from benchmarks._docker import PEER_APP, daemon, ended, peer, scheduler, shell
from benchmarks._harness import Claim, at_most


async def claims() -> AsyncIterator[Claim]:
    """Count our requests, and time both."""
    with daemon():
        async with scheduler() as made:
            ids = [await made.submit(shell("exit 0", replicas=10)) for _ in range(20)]
            for app_id in ids:
                await ended(made, app_id)
            calls = (await made._docker()).calls
            before = calls.total()
            began = time.perf_counter()
            await made.describe_many(ids)
            took = time.perf_counter() - began
            yield at_most("20 apps of 10 containers: one request", calls.total() - before, 1, unit=" requests")
            yield at_most("20 apps of 10 containers: at most 100 ms", took * 1e3, 100, unit=" ms")
            one = await made.submit(shell("exit 0", replicas=20))
            await ended(made, one)
            before, began = calls.total(), time.perf_counter()
            await made.describe(one)
            took = time.perf_counter() - began
            yield at_most("1 app of 20 containers: one request", calls.total() - before, 1, unit=" requests")
        (theirs,) = peer(
            PEER_APP
            + """
app_id = scheduler.submit(app("exit 0", 20), {})
while scheduler.describe(app_id).state.name not in ("SUCCEEDED", "FAILED"):
    time.sleep(0.1)
began = time.perf_counter(); scheduler.describe(app_id); print(time.perf_counter() - began)
"""
        )
        yield at_most(
            "1 app of 20 containers: less than the peer",
            took / float(theirs),
            1.0,
            detail=f"{took * 1e3:.1f} against {float(theirs) * 1e3:.1f} ms",
        )
