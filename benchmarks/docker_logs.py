"""Lines a second, and CPU for each of them, from Docker's logs: against ``docker logs -f`` and the peer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from asyncsched.schedulers.docker import DockerScheduler
from benchmarks._docker import PEER_APP, daemon, ended, hostnames, run, scheduler, shell
from benchmarks._harness import LEAST_ROUNDS, Claim, Rounds, at_least, at_most, in_turns_on_loop
from benchmarks._peer import peer

LINES = 200_000


def flood(lines: int) -> str:
    """A script that writes lines of 80 letters as fast as it can."""
    return f"yes {'x' * 79} | head -n {lines}"


OURS = "asyncsched"
COMMAND = "`docker logs -f`"
THE_PEER = "the peer"

PEER = """
app_id = ended(scheduler.submit(app({script!r}), {{}}))
def measure():
    began = time.perf_counter()
    seen = sum(1 for _ in scheduler.log_iter(app_id, "main", 0, should_tail=True))
    return [seen / (time.perf_counter() - began)]
"""


class Reading(NamedTuple):
    """What reading all lines has given."""

    rate: float
    """Lines in a second."""
    cpu: float = 0.0
    """CPU seconds for a line."""


async def claims() -> AsyncIterator[Claim]:
    """Follow one container that floods, then 32: the daemon is the same for everybody."""
    with daemon(), peer(PEER_APP + PEER.format(script=flood(LINES))) as theirs:

        async def measure() -> Reading:
            return Reading(await theirs.measure_one())

        for replicas in (1, 32):
            taken = await _in_turns(replicas, {} if replicas > 1 else {THE_PEER: measure})
            name = f"{replicas} container{'s' * (replicas > 1)}"
            rates, cpu = taken.told(1e-3, "k/s", _RATE), taken.told(1e6, "us", _CPU)
            yield at_least(f"{name}: lines in a second", taken.ratio(OURS, COMMAND, _RATE), 0.8, detail=rates)
            yield at_most(f"{name}: CPU for a line", taken.ratio(OURS, COMMAND, _CPU), 1.5, detail=cpu)
            if replicas == 1:
                yield at_least(f"{name}: lines in a second", taken.ratio(OURS, THE_PEER, _RATE), 1.0, detail=rates)


_RATE: Callable[[Reading], float] = attrgetter("rate")
_CPU: Callable[[Reading], float] = attrgetter("cpu")


async def _in_turns(replicas: int, more: dict[str, Callable[[], Awaitable[Reading]]]) -> Rounds[Reading]:
    async with scheduler() as made:
        app_id = await made.submit(shell(flood(LINES // replicas), replicas=replicas))
        await ended(made, app_id)
        hosts = await hostnames(made, app_id)
        total = LINES // replicas * replicas
        measures: dict[str, Callable[[], Awaitable[Reading]]] = {
            OURS: partial(_ours, made, app_id, total),
            COMMAND: partial(_command, hosts, total),
        }
        taken = await in_turns_on_loop({**measures, **more}, LEAST_ROUNDS)
        await made.delete(app_id)
    return taken


async def _ours(made: DockerScheduler, app_id: str, total: int) -> Reading:
    began, used = time.perf_counter(), time.process_time()
    seen = 0
    async for _line in made.log_iter(app_id, should_tail=True):
        seen += 1
    assert seen == total
    return Reading(total / (time.perf_counter() - began), (time.process_time() - used) / total)


async def _command(hosts: list[str], total: int) -> Reading:
    began = time.perf_counter()
    commands = await asyncio.gather(*(run("docker", "logs", "-f", host) for host in hosts))
    # Commands that run at the same time see each other's CPU: the largest saw all of it.
    return Reading(total / (time.perf_counter() - began), max(commands) / total)
