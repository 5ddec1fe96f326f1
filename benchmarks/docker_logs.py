"""Lines a second, and CPU for each of them, from Docker's logs: against ``docker logs -f`` and the peer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from benchmarks._docker import PEER_APP, daemon, ended, peer, run, scheduler, shell
from benchmarks._harness import Claim, at_least, at_most

LINES = 200_000
ROUNDS = 3


def flood(lines: int) -> str:
    """A script that writes lines of 80 letters as fast as it can."""
    return f"yes {'x' * 79} | head -n {lines}"


async def claims() -> AsyncIterator[Claim]:
    """Follow one container that floods, then 32: the daemon is the same for everybody."""
    with daemon():
        for replicas in (1, 32):
            ours, theirs, cpu_ours, cpu_theirs = await _compare(replicas, LINES // replicas)
            name = f"{replicas} container{'s' * (replicas > 1)}"
            yield at_least(
                f"{name}: at least 0.8 x the rate of `docker logs -f`",
                ours / theirs,
                0.8,
                detail=f"{ours:,.0f} against {theirs:,.0f} lines/s",
            )
            yield at_most(
                f"{name}: at most 1.5 x the CPU of `docker logs -f` for each line",
                cpu_ours / cpu_theirs,
                1.5,
                detail=f"{cpu_ours:.2f} against {cpu_theirs:.2f} s for a million lines",
            )
        rate = _peer_rate()
        ours, *_ = await _compare(1, LINES)
        yield at_least(
            "1 container: faster than the peer", ours / rate, 1.0, detail=f"{ours:,.0f} against {rate:,.0f} lines/s"
        )


async def _compare(replicas: int, lines: int) -> tuple[float, float, float, float]:
    """Return our rate and the command's, then our CPU seconds for a million lines and the command's."""
    best = [0.0, 0.0]
    cpu = [float("inf"), float("inf")]
    total = replicas * lines
    async with scheduler() as made:
        app_id = await made.submit(shell(flood(lines), replicas=replicas))
        await ended(made, app_id)
        status = await made.describe(app_id)
        assert status is not None
        hosts = [replica.hostname for replica in status.replicas]
        for _ in range(ROUNDS):
            began, used = time.perf_counter(), time.process_time()
            seen = 0
            async for _line in made.log_iter(app_id, should_tail=True):
                seen += 1
            assert seen == total
            best[0] = max(best[0], total / (time.perf_counter() - began))
            cpu[0] = min(cpu[0], (time.process_time() - used) / total * 1e6)
            began = time.perf_counter()
            commands = await asyncio.gather(*(run("docker", "logs", "-f", host) for host in hosts))
            best[1] = max(best[1], total / (time.perf_counter() - began))
            # Commands that run at the same time see each other's CPU: the largest saw all of it.
            cpu[1] = min(cpu[1], max(commands) / total * 1e6)
        await made.delete(app_id)
    return best[0], best[1], cpu[0], cpu[1]


def _peer_rate() -> float:
    (rate,) = peer(
        PEER_APP
        + f"""
app_id = scheduler.submit(app({flood(LINES)!r}), {{}})
while scheduler.describe(app_id).state.name not in ("SUCCEEDED", "FAILED"):
    time.sleep(0.1)
began = time.perf_counter()
seen = sum(1 for _ in scheduler.log_iter(app_id, "main", 0, should_tail=True))
print(seen / (time.perf_counter() - began))
"""
    )
    return float(rate)
