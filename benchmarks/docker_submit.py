"""How long it takes to submit 20 and 50 replicas: against ``docker run`` in 8-way parallel, and the peer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from benchmarks._docker import PEER_APP, daemon, run, scheduler, shell
from benchmarks._harness import LEAST_ROUNDS, Claim, at_most, in_turns_on_loop
from benchmarks._idle import until_idle
from benchmarks._peer import peer
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd

SLEEP = "sleep 600"
OURS = "a submit"
COMMAND = "`docker run` in 8-way parallel"
THE_PEER = "the peer"

PEER = f"""
def measure():
    began = time.perf_counter()
    scheduler.submit(app({SLEEP!r}, 20), {{}})
    return [time.perf_counter() - began]
"""


async def claims() -> AsyncIterator[Claim]:
    """Submit and remove in turns."""
    with daemon() as service:
        async with scheduler() as made:
            await made.submit(shell("true"))  # makes the network, for everybody
        with peer(PEER_APP + PEER) as theirs:
            for replicas in (20, 50):
                measures: dict[str, Callable[[], Awaitable[float]]] = {
                    OURS: partial(_submit, replicas),
                    COMMAND: partial(_docker_run, replicas),
                }
                if replicas == 20:
                    measures[THE_PEER] = theirs.measure_one
                cleaned = {name: partial(_and_removed, service, each) for name, each in measures.items()}
                taken = await in_turns_on_loop(cleaned, LEAST_ROUNDS)
                name, detail = f"{replicas} replicas: time until all are started", taken.told(1, "s")
                yield at_most(name, taken.ratio(OURS, COMMAND), 1.3, detail=detail)
                if replicas == 20:
                    yield at_most(name, taken.ratio(OURS, THE_PEER), 1.0, detail=detail)


async def _and_removed(service: Dockerd, measure: Callable[[], Awaitable[float]]) -> float:
    took = await measure()
    for container in service.api.json("GET", "/containers/json?all=1"):
        service.api.call("DELETE", f"/containers/{container['Id']}?force=1")
    assert service.pid is not None
    await until_idle(service.pid)
    return took


async def _submit(replicas: int) -> float:
    async with scheduler() as made:
        began = time.perf_counter()
        await made.submit(shell(SLEEP, replicas=replicas))
        return time.perf_counter() - began


async def _docker_run(replicas: int) -> float:
    at_once = asyncio.Semaphore(8)

    async def one() -> None:
        async with at_once:
            await run("docker", "run", "-d", "--network", "asyncsched", BUSYBOX_IMAGE, "sh", "-c", SLEEP)

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(replicas)))
    return time.perf_counter() - began
