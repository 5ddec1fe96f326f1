"""What it costs to follow 100 containers that write a line a second each."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from asyncsched.schedulers.docker import DockerScheduler
from benchmarks._docker import daemon, hostnames, scheduler, shell
from benchmarks._harness import LEAST_ROUNDS, Claim, Count, at_most, in_turns_on_loop
from benchmarks._idle import until_idle

CONTAINERS = 100
SECONDS = 5.0
"""Of each round."""

OURS = "asyncsched"
BARE = "a bare loop over as many connections"
REQUEST = "GET /containers/{}/logs?follow=1&stdout=1&stderr=1&timestamps=1&tail=1 HTTP/1.1\r\nHost: docker\r\n\r\n"


async def claims() -> AsyncIterator[Claim]:
    """Follow all of them in one stream; then read as many connections of the daemon with nothing else done."""
    with daemon() as service:
        async with scheduler() as made:
            app_id = await made.submit(shell("while :; do echo tick; sleep 1; done", replicas=CONTAINERS))
            hosts = await hostnames(made, app_id)
            await until_idle()
            held = _Held()
            measures = {
                OURS: partial(_while, partial(_follow, made, app_id), held),
                BARE: partial(_while, partial(_read_all, service.socket, hosts)),
            }
            taken = await in_turns_on_loop(measures, LEAST_ROUNDS)
            await made.kill(app_id)
    name = f"{CONTAINERS} tails at 1 line/s"
    detail = f"a line: {taken.told(1e6, 'us')}"
    yield at_most(f"{name}: CPU for a line", taken.ratio(OURS, BARE), 3.0, detail=detail)
    yield at_most(name, Count(number=held.threads, of="threads"), 0)
    yield at_most(name, Count(number=held.memory, of="bytes in all"), 64 * 1024 * CONTAINERS)


class _Held:
    """What is held more than before, once in the first round: later ones have the other way's leavings, too."""

    def __init__(self) -> None:
        self.threads = self.memory = 0
        self._seen = False
        self._before = threading.active_count(), _memory()

    def look(self) -> None:
        if not self._seen:
            threads, memory = self._before
            self._seen, self.threads, self.memory = True, threading.active_count() - threads, _memory() - memory


class _Lines:
    """How many there were."""

    count = 0


async def _while(read: Callable[[_Lines], Awaitable[None]], held: _Held | None = None) -> float:
    """Read, and return the CPU seconds of this process for a line once what was there at first has been read."""
    lines = _Lines()
    reading = asyncio.ensure_future(read(lines))
    try:
        async with asyncio.timeout(300):
            while lines.count < 2 * CONTAINERS:  # noqa: ASYNC110 - what counts them is under measurement
                await asyncio.sleep(0.1)
        await until_idle(share=0.3)
        if held is not None:
            held.look()
        before, used = lines.count, time.process_time()
        await asyncio.sleep(SECONDS)
        return (time.process_time() - used) / (lines.count - before)
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading


async def _follow(made: DockerScheduler, app_id: str, lines: _Lines) -> None:
    async with made.log_iter(app_id, should_tail=True, tail_lines=1) as stream:
        async for _ in stream:
            lines.count += 1


async def _read_all(socket: Path, hosts: list[str], lines: _Lines) -> None:
    async with asyncio.TaskGroup() as group:
        for host in hosts:
            group.create_task(_read(socket, host, lines))


async def _read(socket: Path, host: str, lines: _Lines) -> None:
    reader, writer = await asyncio.open_unix_connection(str(socket))
    try:
        writer.write(REQUEST.format(host).encode())
        while data := await reader.read(65536):
            lines.count += data.count(b"tick\n")
    finally:
        writer.close()


def _memory() -> int:
    """Return the bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
