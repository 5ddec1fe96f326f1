"""How long it takes to submit 20 and 50 replicas: against ``docker run`` in 8-way parallel, and the peer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from benchmarks._docker import PEER_APP, daemon, peer, run, scheduler, shell
from benchmarks._harness import Claim, at_most
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd

SLEEP = "sleep 600"
ROUNDS = 3


async def claims() -> AsyncIterator[Claim]:
    """Submit and remove in turns."""
    with daemon() as service:
        async with scheduler() as made:
            await made.submit(shell("true"))  # makes the network, for everybody
        for replicas in (20, 50):
            ours, theirs = float("inf"), float("inf")
            for _ in range(ROUNDS):
                theirs = min(theirs, await _docker_run(service, replicas))
                async with scheduler() as made:
                    began = time.perf_counter()
                    await made.submit(shell(SLEEP, replicas=replicas))
                    ours = min(ours, time.perf_counter() - began)
                _remove_all(service)
            yield at_most(
                f"{replicas} replicas: at most 1.3 x `docker run` in 8-way parallel",
                ours / theirs,
                1.3,
                detail=f"{ours:.2f} against {theirs:.2f} s",
            )
            if replicas == 20:
                (took,) = peer(
                    PEER_APP
                    + f"began = time.perf_counter(); scheduler.submit(app({SLEEP!r}, 20), {{}});"
                    + "print(time.perf_counter() - began)"
                )
                _remove_all(service)
                yield at_most(
                    "20 replicas: less than the peer", ours / float(took), 1.0, detail=f"peer {float(took):.2f} s"
                )


async def _docker_run(service: Dockerd, replicas: int) -> float:
    at_once = asyncio.Semaphore(8)

    async def one() -> None:
        async with at_once:
            await run("docker", "run", "-d", "--network", "asyncsched", BUSYBOX_IMAGE, "sh", "-c", SLEEP)

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(replicas)))
    took = time.perf_counter() - began
    _remove_all(service)
    return took


def _remove_all(service: Dockerd) -> None:
    for container in service.api.json("GET", "/containers/json?all=1"):
        service.api.call("DELETE", f"/containers/{container['Id']}?force=1")
