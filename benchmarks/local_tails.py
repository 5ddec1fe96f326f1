"""What it costs to follow 200 local processes that write a line in a second each."""

from __future__ import annotations

import asyncio
import gc
import resource
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

from asyncsched.logs import LogStream
from asyncsched.schedulers.local import LocalScheduler
from benchmarks._docker import peer
from benchmarks._harness import Claim, at_most
from benchmarks._local import PEER_APP, app_of
from benchmarks.local_submit import state_directory

TAILS = 200
SECONDS = 10.0
LIMIT = 1024
COMMAND = ["sh", "-c", "while :; do echo tick; sleep 1; done"]

PEER = """
app_id = submit({command!r}, {tails})
def read(k):
    for line in scheduler.log_iter(app_id, "main", k, should_tail=True):
        pass
for k in range({tails}):
    threading.Thread(target=read, args=(k,), daemon=True).start()
time.sleep(3)
began, used = time.perf_counter(), time.process_time()
time.sleep(5)
print((time.process_time() - used) / (time.perf_counter() - began), threading.active_count())
sys.stdout.flush()
scheduler.cancel(app_id)
os._exit(0)
"""


async def claims() -> AsyncIterator[Claim]:
    """Follow all of them in one stream; then open as many quiet tails with each allocation traced."""
    with state_directory(), _as_an_ordinary_user():
        async with LocalScheduler("benchmark") as scheduler:
            app_id = await scheduler.submit(app_of(COMMAND, replicas=TAILS))
            threads, descriptors = _threads(), _descriptors()
            async with scheduler.log_iter(app_id, should_tail=True) as stream:
                await _read_for(stream, 3.0)
                began, used = time.perf_counter(), time.process_time()
                lines = await _read_for(stream, SECONDS)
                share = (time.process_time() - used) / (time.perf_counter() - began)
                threads, descriptors = _threads() - threads, _descriptors() - descriptors
            await scheduler.kill(app_id)
            quiet = await scheduler.submit(app_of(["sleep", "600"], replicas=TAILS))
            grown = await _memory(scheduler.log_iter(quiet, should_tail=True))
            await scheduler.kill(quiet)
    theirs, their_threads = map(float, peer(PEER_APP + PEER.format(command=COMMAND, tails=TAILS)))
    yield at_most(
        f"{TAILS} tails at 1 line/s: at most 5 % of a core",
        share * 100,
        5,
        unit=" %",
        detail=f"{lines} lines; the peer: {theirs * 100:.0f} %",
    )
    yield at_most(f"{TAILS} tails: no thread", threads, 0, unit=" threads", detail=f"the peer: {their_threads:.0f}")
    yield at_most(
        f"{TAILS} tails where {LIMIT} descriptors are allowed: at most a quarter of them", descriptors, LIMIT / 4
    )
    yield at_most(f"{TAILS} quiet tails: at most 8 KiB each", grown / TAILS / 1024, 8, unit=" KiB")


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
