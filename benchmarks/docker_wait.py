"""How long after a container's end those who wait are told: against ``docker wait`` on the same containers.

The end is ``State.FinishedAt``, when the program had exited. From there on the daemon clears up: it ends the shim, says
so in its events, takes the network down, and only then do lists tell of the end, and inspections and ``docker wait``
get their answers. Nobody is told before that here either: whoever is told must not hear otherwise from the next list.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import NamedTuple

from asyncsched._dockerd import Daemon, read_objects
from asyncsched.logs.rfc3339 import StampReader
from asyncsched.schedulers.docker import DockerScheduler
from benchmarks._docker import daemon, ended, run, scheduler, shell
from benchmarks._harness import LEAST_ROUNDS, Claim, Rounds, at_most

APPS = 12
"""In each round."""

OURS = "our watch"
COMMAND = "`docker wait`"


class Delays(NamedTuple):
    """Milliseconds after a container's end, that 95 of 100 take at most."""

    event: float
    """When the daemon's event of it was made."""
    commanded: float
    """When ``docker wait`` had ended."""
    told: float
    """When our watch had told."""


async def claims() -> AsyncIterator[Claim]:
    """Let both wait for each of many short apps, in a network of their own and in the host's."""
    with daemon():
        async with scheduler() as made:
            for network, bound in (("asyncsched", 1.17), ("host", 1.43)):
                taken = Rounds[float]({OURS: 0, COMMAND: 0, "the daemon's event": 0})
                for _ in range(LEAST_ROUNDS):
                    delays = Delays(*map(_p95, zip(*[await _one(made, network) for _ in range(APPS)], strict=True)))
                    for name, delay in zip(taken.of, (delays.told, delays.commanded, delays.event), strict=True):
                        taken.of[name].append(delay)
                yield at_most(
                    f"network={network}: time from a container's end until it is told (p95)",
                    taken.ratio(OURS, COMMAND),
                    bound,
                    detail=taken.told(1, "ms"),
                )


async def _one(made: DockerScheduler, network: str) -> Delays:
    app_id = await made.submit(shell("sleep 0.5"), {"network": network})
    status = await made.describe(app_id)
    assert status is not None
    name = status.replicas[0].hostname

    async def told() -> float:
        await ended(made, app_id)
        return time.time_ns()

    async def commanded() -> float:
        await run("docker", "wait", name)
        return time.time_ns()

    times = await asyncio.gather(told(), commanded())
    api = await made._docker()
    finished, event = await _finished(api, name), await _died(api, name)
    await made.delete(app_id)
    return Delays(*((at - finished) / 1e6 for at in (event, times[1], times[0])))


async def _finished(api: Daemon, name: str) -> float:
    text: str = (await api.inspect_container(name, operation="describe"))["State"]["FinishedAt"]
    return StampReader().ns(text)


async def _died(api: Daemon, name: str) -> float:
    filters = json.dumps({"event": ["die"], "container": [name]})
    now = time.time()
    params = {"filters": filters, "since": f"{now - 60:.0f}", "until": f"{now:.3f}"}
    async with api.stream("events", params, what="cannot read Docker's events", operation="watch") as content:
        return [float(event["timeNano"]) async for event in read_objects(content)][-1]


def _p95(values: tuple[float, ...]) -> float:
    return sorted(values)[round(0.95 * len(values)) - 1]
