"""What it costs to follow 200 local processes that write a line in a second each."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

from asyncsched.logs import LogStream
from asyncsched.schedulers.local import LocalScheduler
from benchmarks._harness import LEAST_ROUNDS, ROUNDS, Claim, Count, at_most, in_turns_on_loop
from benchmarks._local import PEER_APP, app_of, state_directory
from benchmarks._peer import peer

TAILS = 200
SECONDS = 5.0
"""Of each round."""

LIMIT = 1024
COMMAND = ["sh", "-c", "while :; do echo tick; sleep 1; done"]
OURS = "asyncsched"
BARE = "a bare loop over as many pipes"
THE_PEER = "the peer"

WRITER = """
import os, sys, time
number = 0
while True:
    for fd in sys.argv[1:]:
        os.write(int(fd), b"%d tick\\n" % number)
        number += 1
        time.sleep(1 / len(sys.argv[1:]))
"""

PEER = """
app_id = submit({command!r}, {tails})
lines = 0
def read(k):
    global lines
    for line in scheduler.log_iter(app_id, "main", k, should_tail=True):
        lines += 1
readers = [threading.Thread(target=read, args=(k,)) for k in range({tails})]
[reader.start() for reader in readers]
while lines < 2 * {tails}:
    time.sleep(0.1)
def measure():
    before, used = lines, time.process_time()
    time.sleep({seconds})
    return [(time.process_time() - used) / max(lines - before, 1)]
def finish():
    scheduler.cancel(app_id)
    [reader.join() for reader in readers]
    scheduler.close()
    shutil.rmtree(logs, ignore_errors=True)
"""


async def claims() -> AsyncIterator[Claim]:
    """Follow all of them in one stream; then open as many quiet tails with each allocation traced."""
    with state_directory(), _as_an_ordinary_user():
        async with LocalScheduler("benchmark") as scheduler:
            app_id = await scheduler.submit(app_of(COMMAND, replicas=TAILS))
            threads, descriptors = _threads(), _descriptors()
            async with scheduler.log_iter(app_id, should_tail=True) as stream:
                await _read_for(stream, 3.0)
                threads, descriptors = _threads() - threads, _descriptors() - descriptors
                # The peer's threads look for lines all the time, also in the rounds of others: hence two parts.
                alone = await in_turns_on_loop({OURS: lambda: _tail(stream), BARE: _bare}, ROUNDS)
                with peer(PEER_APP + PEER.format(command=COMMAND, tails=TAILS, seconds=SECONDS)) as theirs:
                    beside = await in_turns_on_loop(
                        {OURS: lambda: _tail(stream), THE_PEER: theirs.measure_one}, LEAST_ROUNDS
                    )
            await scheduler.kill(app_id)
            quiet = await scheduler.submit(app_of(["sleep", "600"], replicas=TAILS))
            grown = await _memory(scheduler.log_iter(quiet, should_tail=True))
            await scheduler.kill(quiet)
    name = f"{TAILS} tails at 1 line/s"
    for taken, reference, bound in ((alone, BARE, 2.6), (beside, THE_PEER, 0.1)):
        detail = f"a line: {taken.told(1e6, 'us')}"
        yield at_most(f"{name}: CPU for a line", taken.ratio(OURS, reference), bound, detail=detail)
    yield at_most(name, Count(number=threads, of="threads"), 0)
    yield at_most(
        f"{name} where {LIMIT} descriptors are allowed", Count(number=descriptors, of="descriptors"), LIMIT / 4
    )
    yield at_most(f"{TAILS} quiet tails", Count(number=grown, of="bytes in all"), 8 * 1024 * TAILS)


async def _tail(stream: LogStream) -> float:
    """Return the CPU seconds of this process for a line."""
    await _caught_up(stream)
    used = time.process_time()
    lines = await _read_for(stream, SECONDS)
    return (time.process_time() - used) / lines


async def _caught_up(stream: LogStream) -> None:
    """Read what has been written meanwhile, until a step has to wait."""
    waited = False
    while not waited:
        step = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        waited = not step.done()
        await step


async def _bare() -> float:
    """Return the same of a loop that reads as many pipes, into which a process writes in turn."""
    loop = asyncio.get_running_loop()
    lines = 0

    def read(fd: int) -> None:
        nonlocal lines
        lines += os.read(fd, 65536).count(b"\n")

    pipes = [os.pipe() for _ in range(TAILS)]
    ends = [write for _, write in pipes]
    writer = subprocess.Popen([sys.executable, "-c", WRITER, *map(str, ends)], pass_fds=ends)
    for fd, _ in pipes:
        loop.add_reader(fd, read, fd)
    try:
        await asyncio.sleep(1.0)
        before, used = lines, time.process_time()
        await asyncio.sleep(SECONDS)
        return (time.process_time() - used) / (lines - before)
    finally:
        writer.kill()
        writer.wait()
        for fd, end in pipes:
            loop.remove_reader(fd)
            os.close(fd)
            os.close(end)


async def _read_for(stream: LogStream, seconds: float) -> int:
    lines = 0
    end = asyncio.get_running_loop().time() + seconds
    while True:
        try:
            async with asyncio.timeout_at(end):
                async for _ in stream:
                    lines += 1
        except TimeoutError:
            return lines


async def _memory(stream: LogStream) -> int:
    """Return the bytes that a stream of quiet tails takes, and all that knows of its app."""
    gc.collect()
    tracemalloc.start()
    try:
        await _read_for(stream, 3.0)
        gc.collect()
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        await stream.aclose()
    return grown


@contextmanager
def _as_an_ordinary_user() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _threads() -> int:
    # Those of the loop's default executor, which begin when there is something for them, belong to no tail.
    return sum(not thread.name.startswith("asyncio_") for thread in threading.enumerate())


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
