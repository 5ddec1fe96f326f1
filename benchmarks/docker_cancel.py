"""How long it takes until three replicas that ignore TERM are gone."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from operator import attrgetter
from typing import NamedTuple

from asyncsched.schedulers.docker import DockerScheduler
from benchmarks._docker import daemon, ended, hostnames, run, scheduler, shell
from benchmarks._harness import LEAST_ROUNDS, Claim, at_most, in_turns_on_loop

IGNORES = "trap '' TERM; while :; do sleep 0.1; done"
GRACE = 10
OURS = "cancel"
DOCKER = "the same by `docker kill`, then by `docker stop`"


class Cancel(NamedTuple):
    """Seconds since the call."""

    returned: float
    """Until it had returned, the replicas with their signal."""
    gone: float
    """Until the replicas were gone."""


async def claims() -> AsyncIterator[Claim]:
    """The grace period is spent once, not once for each (the peer: 30.8 s)."""
    with daemon():
        async with scheduler() as made:
            taken = await in_turns_on_loop({OURS: lambda: _ours(made), DOCKER: lambda: _docker(made)}, LEAST_ROUNDS)
    yield at_most(
        "3 replicas that ignore TERM: time until cancel returns",
        taken.ratio(OURS, DOCKER, _RETURNED),
        2.0,
        detail=taken.told(1e3, "ms", _RETURNED),
    )
    yield at_most(
        f"3 replicas that ignore TERM, with {GRACE} s of grace: time until they are gone",
        taken.ratio(OURS, DOCKER, _GONE),
        1.1,
        detail=taken.told(1, "s", _GONE),
    )


_RETURNED: Callable[[Cancel], float] = attrgetter("returned")
_GONE: Callable[[Cancel], float] = attrgetter("gone")


async def _ours(made: DockerScheduler) -> Cancel:
    app_id = await made.submit(shell(IGNORES, replicas=3))
    began = time.perf_counter()
    await made.cancel(app_id)
    returned = time.perf_counter() - began
    await ended(made, app_id)
    gone = time.perf_counter() - began
    await made.delete(app_id)
    return Cancel(returned, gone)


async def _docker(made: DockerScheduler) -> Cancel:
    app_id = await made.submit(shell(IGNORES, replicas=3))
    hosts = await hostnames(made, app_id)
    began = time.perf_counter()
    await run("docker", "kill", "--signal", "TERM", *hosts)
    returned = time.perf_counter() - began
    began = time.perf_counter()
    await run("docker", "stop", "--time", str(GRACE), *hosts)
    gone = time.perf_counter() - began
    await ended(made, app_id)
    await made.delete(app_id)
    return Cancel(returned, gone)
