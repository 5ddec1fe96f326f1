"""How fast, and how whole, the lines of flooding local processes arrive."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import IO, Self

from asyncsched.logs import LogLine, LogOrigin
from asyncsched.logs.line import decode
from asyncsched.schedulers.local import LocalScheduler
from asyncsched.specs.app import AppDef
from benchmarks._clock import undisturbed
from benchmarks._harness import LEAST_ROUNDS, Claim, Count, Rounds, at_least, at_most, in_turns_on_loop, on_loop
from benchmarks._local import PEER_APP, app_of, state_directory
from benchmarks._peer import Peer, peer

SECONDS = 0.3
"""Of a flood, from its first line."""

ROUNDS = 11
"""Of these floods, as each is short."""

BLOCKS = 1_280_000
PRINTS = 200_000
MANY = 64
TEXT = "x" * 80
LINE = TEXT + "\n"
YES = ["sh", "-c", f"yes {TEXT} | head -c 2G"]
"""More than anybody reads here; without an end it would fill the disk when its reader gets no core, or is killed."""

OURS = "asyncsched"
BARE = "a bare loop over the pipes of the same children"
FILE = "a bare loop that follows the file into which `cat` writes it"
OBJECTS = "a bare loop over that file that makes an object of each line and hands on one at a time"
BRIDGED = "the peer in a coroutine"
BLOCKING = "the peer in a loop that blocks"
CAT = "the same child into `cat`"

PRINT = "for number in range({lines}): print(number)"

PEER = """
import asyncio
def undisturbed():
    return time.perf_counter() - int(os.pread(statistics, 100, 0).split()[1]) / 1e9
statistics = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
LINE, SECONDS = {line!r}, {seconds}
def measure():
    app_id = submit({command!r})
    rate = read(iter(scheduler.log_iter(app_id, "main", 0, should_tail=True)), lambda: scheduler.cancel(app_id))
    shutil.rmtree(scheduler._apps[app_id].log_dir, ignore_errors=True)
    return [rate]
"""
IN_A_LOOP = """
def read(stream, cancel):
    lines = broken = 0
    next(stream)
    began = undisturbed()
    for line in stream:
        lines += 1
        broken += line != LINE
        if not lines % 1000 and (took := undisturbed() - began) >= SECONDS:
            break
    cancel()
    return lines / took
"""
IN_A_COROUTINE = """
def read(stream, cancel):
    return asyncio.run(count(stream, cancel))
async def count(stream, cancel):
    loop, queue, done = asyncio.get_running_loop(), asyncio.Queue(), threading.Event()
    def hand_over():
        for line in stream:
            if done.is_set():
                break
            loop.call_soon_threadsafe(queue.put_nowait, line)
    reading = loop.run_in_executor(None, hand_over)
    lines = broken = took = 0
    await queue.get()
    began = undisturbed()
    while took < SECONDS:
        for _ in range(1000):
            broken += await queue.get() != LINE
        lines += 1000
        took = undisturbed() - began
    done.set()
    cancel()
    await reading
    return lines / took
"""
"""The peer's iterator blocks: a coroutine gets its lines through a thread."""


@dataclass(frozen=True, slots=True)
class Flood:
    """What was read of one flood.

    Attributes:
        rate: Lines in a second, in which time that the reader waited for a core counts or not.
        broken: Lines that are not what was written at their place.
    """

    rate: float
    broken: int = 0


async def claims() -> AsyncIterator[Claim]:
    """Run each flood a few times, in turns with what it is held against."""
    async for claim in _of_yes():
        yield claim
    child = [sys.executable, "-u", "-c", PRINT.format(lines=PRINTS)]
    taken = await _in_turns(
        {
            OURS: lambda: _flood(app_of(child), str, PRINTS, time.perf_counter),
            CAT: on_loop(lambda: Flood(PRINTS / _into_cat(child))),
        }
    )
    yield at_least("unbuffered prints: lines in a second", taken.ratio(OURS, CAT, _RATE), 0.8, detail=_told(taken))
    yield at_most("unbuffered prints", _broken(taken), 0)

    each = BLOCKS // MANY
    command = ["sh", "-c", f"yes {TEXT} | head -n {each}"]
    app = app_of(command, replicas=MANY)
    taken = await _in_turns(
        {
            OURS: lambda: _flood(app, lambda _: TEXT, each * MANY, undisturbed),
            BARE: lambda: _bare(command, MANY, each * MANY),
        }
    )
    name = f"{MANY} replicas of `yes` of 80 characters"
    yield at_least(f"{name}: lines in a second", taken.ratio(OURS, BARE, _RATE), 0.12, detail=_told(taken))
    yield at_most(name, _broken(taken), 0)
    each = PRINTS // MANY
    app = app_of([sys.executable, "-u", "-c", PRINT.format(lines=each)], replicas=MANY)
    flood = await _flood(app, str, each * MANY, undisturbed)
    yield at_most(f"{MANY} replicas of prints", Count(number=flood.broken, of=BROKEN), 0)


async def _of_yes() -> AsyncIterator[Claim]:
    script = PEER_APP + PEER.format(line=LINE, command=YES, seconds=SECONDS)
    with peer(script + IN_A_COROUTINE) as bridged, peer(script + IN_A_LOOP) as blocking:
        taken = await _in_turns(
            {
                OURS: _yes,
                FILE: partial(_file, _split),
                OBJECTS: partial(_file, _hand_on),
                BRIDGED: partial(_theirs, bridged),
                BLOCKING: partial(_theirs, blocking),
            },
            ROUNDS,
        )
    name = "`yes` of 80 characters"
    for reference, bound in ((FILE, 0.18), (OBJECTS, 0.9), (BRIDGED, 10.0)):
        yield at_least(f"{name}: lines in a second", taken.ratio(OURS, reference, _RATE), bound, detail=_told(taken))
    # It copies the rest of a text for each line, and how fast that is depends on where texts happen to lie: on one
    # machine its rounds were at 0.8, 1.2 or 1.8 M lines a second. Which of these is the median is luck.
    best = taken.ratio_to_highest(OURS, BLOCKING, _RATE)
    yield at_least(f"{name}: lines in a second", best, 1.6, detail=_told(taken))
    yield at_most(name, _broken(taken), 0)


BROKEN = "lines that are torn, lost or out of order"

_RATE: Callable[[Flood], float] = attrgetter("rate")


async def _in_turns(measures: dict[str, Callable[[], Awaitable[Flood]]], rounds: int = LEAST_ROUNDS) -> Rounds[Flood]:
    return await in_turns_on_loop(measures, rounds)


def _told(taken: Rounds[Flood]) -> str:
    return taken.told(1e-6, "M/s", _RATE)


def _broken(taken: Rounds[Flood]) -> Count:
    return Count(number=sum(flood.broken for flood in taken.of[OURS]), of=BROKEN)


async def _theirs(theirs: Peer) -> Flood:
    return Flood(await theirs.measure_one())


async def _file(read: Callable[[bytes], int]) -> Flood:
    """Read what `cat` has written of it, for as long as `_yes` does."""
    seen = 0
    with tempfile.TemporaryDirectory() as folder, Path(folder, "log").open("w+b") as log:
        yes = subprocess.Popen(YES, stdout=subprocess.PIPE)
        cat = subprocess.Popen(["cat"], stdin=yes.stdout, stdout=log)
        with Path(log.name).open("rb") as file:
            began = undisturbed()
            while (took := undisturbed() - began) < SECONDS:
                data = file.read(65536)
                seen += read(data)
                await asyncio.sleep(0 if data else 0.001)
        for child in (yes, cat):
            with child:  # which closes its pipe and waits
                child.kill()
    return Flood(seen / took)


def _split(data: bytes) -> int:
    """Look at each line, as the reader of a stream does, and return how many there are."""
    lines = broken = 0
    for line in io.StringIO(data.decode(), newline="\n"):
        broken += line != LINE
        lines += 1
    return lines


class _Handed:
    """Hands on objects as a `LogStream` does, without anything that finds or selects them, or lets others run."""

    def __init__(self, lines: Iterable[LogLine]) -> None:
        self._ready = iter(lines)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LogLine:
        for line in self._ready:
            return line
        raise StopAsyncIteration


def _hand_on(data: bytes) -> int:
    """Look at each line, as the reader of a stream does, once it has an origin and a time."""
    lines = decode(data.splitlines(keepends=True), _ORIGIN, 1)

    async def look() -> None:
        seen = broken = 0
        async for line in _Handed(lines):
            seen += 1
            broken += line != LINE

    with contextlib.suppress(StopIteration):  # it never waits
        look().send(None)
    return len(lines)


_ORIGIN = LogOrigin()


async def _bare(command: list[str], replicas: int, lines: int) -> Flood:
    """Split what so many children write into texts, until they have ended."""
    loop = asyncio.get_running_loop()
    open_pipes, ended = replicas, asyncio.Event()

    def read(pipe: IO[bytes]) -> None:
        nonlocal open_pipes
        data = os.read(pipe.fileno(), 65536)
        _split(data)
        if not data:
            open_pipes -= 1
            loop.remove_reader(pipe)
        if not open_pipes:
            ended.set()

    began = undisturbed()
    children = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(replicas)]
    pipes = [child.stdout for child in children if child.stdout is not None]
    for pipe in pipes:
        loop.add_reader(pipe, read, pipe)
    await ended.wait()
    took = undisturbed() - began
    for child in children:
        with child:  # which closes its pipe and waits
            pass
    return Flood(lines / took)


async def _yes() -> Flood:
    with state_directory():
        async with LocalScheduler("benchmark") as scheduler:
            app_id = await scheduler.submit(app_of(YES), {"max_log_bytes": 4 << 30})
            stream = scheduler.log_iter(app_id, should_tail=True)
            lines, broken, took = 0, 0, 0.0
            async with stream:
                await anext(stream)
                began = undisturbed()
                async for line in stream:
                    lines += 1
                    broken += line != LINE
                    if not lines % 1000 and (took := undisturbed() - began) >= SECONDS:
                        break
            await scheduler.kill(app_id)
    return Flood(lines / took, broken)


async def _flood(app: AppDef, text: Callable[[int], str], lines: int, clock: Callable[[], float]) -> Flood:
    seen = [0] * app.roles[0].num_replicas
    broken = 0
    with state_directory():
        async with LocalScheduler("benchmark") as scheduler:
            began = clock()
            app_id = await scheduler.submit(app)
            async for line in scheduler.log_iter(app_id, should_tail=True):
                replica = line.source.replica
                broken += line != text(seen[replica]) + "\n"
                seen[replica] += 1
            took = clock() - began
    return Flood(lines / took, broken + abs(lines - sum(seen)))


def _into_cat(child: list[str]) -> float:
    began = time.perf_counter()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as cat:
        assert cat.stdin is not None
        subprocess.run(child, stdout=cat.stdin, check=True)
        cat.stdin.close()
    return time.perf_counter() - began
