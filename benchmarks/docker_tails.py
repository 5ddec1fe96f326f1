"""What it costs to follow 100 containers that write a line a second each."""

from __future__ import annotations

import asyncio
import resource
import threading
import time
from collections.abc import AsyncIterator

from asyncsched.logs import LogStream
from benchmarks._docker import daemon, scheduler, shell
from benchmarks._harness import Claim, at_most

CONTAINERS = 100
SECONDS = 10.0


async def claims() -> AsyncIterator[Claim]:
    """Follow all of them in one stream."""
    with daemon():
        async with scheduler() as made:
            app_id = await made.submit(shell("while :; do echo tick; sleep 1; done", replicas=CONTAINERS))
            threads, memory = threading.active_count(), _memory()
            stream = made.log_iter(app_id, should_tail=True)
            async with stream:
                await _read_for(stream, 2 * CONTAINERS)
                grown = _memory() - memory
                began, used = time.perf_counter(), time.process_time()
                await _read_for(stream, round(CONTAINERS * SECONDS))
                share = (time.process_time() - used) / (time.perf_counter() - began)
            extra = threading.active_count() - threads
            await made.kill(app_id)
    yield at_most(f"{CONTAINERS} tails at 1 line/s: at most 10 % of a core", share * 100, 10, unit=" %")
    yield at_most(f"{CONTAINERS} tails: no thread", extra, 0, unit=" threads")
    yield at_most(
        f"{CONTAINERS} tails: at most 64 KiB each", grown / CONTAINERS, 64, unit=" KiB", detail=f"{grown} KiB in all"
    )


async def _read_for(stream: LogStream, lines: int) -> None:
    async with asyncio.timeout(120):
        for _ in range(lines):
            await anext(stream)


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
