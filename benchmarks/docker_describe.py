"""What describing costs: requests and time for 20 apps of 10 containers, and for one of 20 against the peer."""

from __future__ import annotations

import json
import time
import urllib.parse
from collections.abc import AsyncIterator, Awaitable

from asyncsched.schedulers.docker.names import APP_ID
from benchmarks._docker import PEER_APP, daemon, ended, scheduler, shell
from benchmarks._harness import Claim, Count, at_most, in_turns_on_loop, on_loop
from benchmarks._idle import until_idle
from benchmarks._peer import peer
from tests.services.dockerd import Dockerd

OURS = "asyncsched"
BARE = "a bare list of the same containers, read as JSON"
THE_PEER = "the peer"

PEER = """
app_id = ended(scheduler.submit(app("exit 0", 20), {}))
def measure():
    began = time.perf_counter()
    scheduler.describe(app_id)
    return [time.perf_counter() - began]
"""


async def claims() -> AsyncIterator[Claim]:
    """Count our requests, and time both."""
    with daemon() as service:
        async with scheduler() as made:
            ids = [await made.submit(shell("exit 0", replicas=10)) for _ in range(20)]
            for app_id in ids:
                await ended(made, app_id)
            assert service.pid is not None
            await until_idle(service.pid)
            calls = (await made._docker()).calls
            before = calls.total()
            await made.describe_many(ids)
            yield at_most("20 apps of 10 containers", Count(number=calls.total() - before, of="requests"), 1)
            many = await in_turns_on_loop(
                {OURS: lambda: _timed(made.describe_many(ids)), BARE: on_loop(lambda: _bare(service))}
            )
            yield at_most(
                "20 apps of 10 containers: time to describe them",
                many.ratio(OURS, BARE),
                5.0,
                detail=many.told(1e3, "ms"),
            )
            one = await made.submit(shell("exit 0", replicas=20))
            await ended(made, one)
            with peer(PEER_APP + PEER) as theirs:
                taken = await in_turns_on_loop({OURS: lambda: _timed(made.describe(one)), THE_PEER: theirs.measure_one})
            before = calls.total()
            await made.describe(one)
            yield at_most("1 app of 20 containers", Count(number=calls.total() - before, of="requests"), 1)
            yield at_most(
                "1 app of 20 containers: time to describe it",
                taken.ratio(OURS, THE_PEER),
                1.0,
                detail=taken.told(1e3, "ms"),
            )


async def _timed(call: Awaitable[object]) -> float:
    began = time.perf_counter()
    await call
    return time.perf_counter() - began


def _bare(service: Dockerd) -> float:
    began = time.perf_counter()
    filters = urllib.parse.quote(json.dumps({"label": [APP_ID]}))
    found = service.api.json("GET", f"/containers/json?all=1&filters={filters}")
    assert len(found) >= 200, len(found)
    return time.perf_counter() - began
