"""How fast, and how whole, the lines of flooding local processes arrive."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from asyncsched.schedulers.local import LocalScheduler
from asyncsched.specs.app import AppDef
from benchmarks._docker import peer
from benchmarks._harness import Claim, at_least, at_most
from benchmarks._local import PEER_APP, app_of
from benchmarks.local_submit import state_directory

ROUNDS = 3
SECONDS = 2.0
"""Of a flood that does not end: it fills the disk at a gigabyte in a second."""

BLOCKS = 4_000_000
PRINTS = 1_000_000
MANY = 64
TEXT = "x" * 80

PRINT = "for number in range({lines}): print(number)"

PEER = """
import asyncio, shutil
TEXT, SECONDS, IN_A_COROUTINE = {text!r}, {seconds}, {in_a_coroutine}
app_id = submit(["yes", TEXT])
lines, broken, began = 0, 0, 0.0
def read():
    return scheduler.log_iter(app_id, "main", 0, should_tail=True)
def goes_on(line):
    global lines, broken, began
    began = began or time.perf_counter()
    lines += 1
    broken += line.rstrip("\\n") != TEXT
    return time.perf_counter() - began < SECONDS
async def count():
    loop, queue = asyncio.get_running_loop(), asyncio.Queue()
    def hand_over():
        for line in read():
            loop.call_soon_threadsafe(queue.put_nowait, line)
    threading.Thread(target=hand_over, daemon=True).start()
    while goes_on(await queue.get()):
        pass
    print(lines / (time.perf_counter() - began), broken)
    sys.stdout.flush()
    remove()
    os._exit(0)
def remove():
    directory = scheduler._apps[app_id].log_dir
    scheduler.cancel(app_id)
    shutil.rmtree(directory, ignore_errors=True)
if IN_A_COROUTINE:
    asyncio.run(count())
for line in read():
    if not goes_on(line):
        break
print(lines / (time.perf_counter() - began), broken)
remove()
"""
"""The peer's iterator blocks: a coroutine gets its lines through a thread."""


@dataclass(frozen=True, slots=True)
class Flood:
    """What was read of one flood.

    Attributes:
        rate: Lines in a second, from the submit to the end.
        broken: Lines that are not what was written at their place.
        cpu: CPU seconds of this process for each million lines.
    """

    rate: float
    broken: int
    cpu: float = 0.0

    def __str__(self) -> str:
        cpu = f"CPU of a million lines: {self.cpu:.2f} s" if self.cpu else f"{self.broken} torn"
        return f"{self.rate / 1e6:.2f} M lines/s, {cpu}"


async def claims() -> AsyncIterator[Claim]:
    """Run each flood a few times, in turns with what it is held against, and take the best of each."""
    ours: list[Flood] = []
    peers: dict[bool, list[Flood]] = {True: [], False: []}
    for _ in range(ROUNDS):
        ours.append(await _yes())
        for in_a_coroutine, floods in peers.items():
            floods.append(_peer(in_a_coroutine=in_a_coroutine))
    best = _fastest(ours)
    yield at_least(
        "`yes` of 80 characters: at least a million lines in a second",
        best.rate / 1e6,
        1.0,
        unit=" M/s",
        detail=str(best),
    )
    bridged, blocking = (_fastest(floods) for floods in peers.values())
    yield at_least(
        "`yes` of 80 characters: at least ten times the peer's rate in a coroutine",
        best.rate / bridged.rate,
        10.0,
        detail=f"peer: {bridged}",
    )
    yield at_least(
        "`yes` of 80 characters: at least three times the peer's rate in a loop that blocks",
        best.rate / blocking.rate,
        3.0,
        detail=f"peer: {blocking}",
    )
    yield at_most("`yes` of 80 characters: no line is torn", sum(flood.broken for flood in ours), 0)

    child = [sys.executable, "-u", "-c", PRINT.format(lines=PRINTS)]
    bare = 0.0
    ours.clear()
    for _ in range(ROUNDS):
        bare = max(bare, PRINTS / _into_cat(child))
        ours.append(await _flood(app_of(child), str, PRINTS))
    best = _fastest(ours)
    yield at_least(
        "unbuffered prints: at least 0.8 of the same child's rate into `cat`",
        best.rate / bare,
        0.8,
        detail=f"{best}; into cat: {bare / 1e6:.2f} M lines/s",
    )
    yield at_most("unbuffered prints: none is torn or out of order", sum(flood.broken for flood in ours), 0)

    each = BLOCKS // MANY
    app = app_of(["sh", "-c", f"yes {TEXT} | head -n {each}"], replicas=MANY)
    many = [await _flood(app, lambda _: TEXT, each * MANY) for _ in range(ROUNDS)]
    best = _fastest(many)
    yield at_least(
        f"{MANY} replicas of it: half a million lines in a second", best.rate / 1e6, 0.5, unit=" M/s", detail=str(best)
    )
    yield at_most(f"{MANY} replicas of it: no line is torn", sum(flood.broken for flood in many), 0)
    each = PRINTS // MANY
    app = app_of([sys.executable, "-u", "-c", PRINT.format(lines=each)], replicas=MANY)
    many = [await _flood(app, str, each * MANY) for _ in range(ROUNDS)]
    best = _fastest(many)
    broken = sum(flood.broken for flood in many)
    yield at_most(f"{MANY} replicas of prints: none is torn or out of order", broken, 0, detail=str(best))


def _fastest(floods: list[Flood]) -> Flood:
    return max(floods, key=lambda flood: flood.rate)


def _peer(*, in_a_coroutine: bool) -> Flood:
    script = PEER.format(text=TEXT, seconds=SECONDS, in_a_coroutine=in_a_coroutine)
    rate, broken = map(float, peer(PEER_APP + script))
    return Flood(rate, int(broken))


async def _yes() -> Flood:
    with state_directory():
        async with LocalScheduler("benchmark") as scheduler:
            app_id = await scheduler.submit(app_of(["yes", TEXT]), {"max_log_bytes": 4 << 30})
            stream = scheduler.log_iter(app_id, should_tail=True)
            lines = broken = 0
            async with stream:
                await anext(stream)
                began, used = time.perf_counter(), time.process_time()
                while time.perf_counter() - began < SECONDS:
                    for _ in range(1000):
                        broken += await anext(stream) != TEXT + "\n"
                    lines += 1000
                took, used = time.perf_counter() - began, time.process_time() - used
            await scheduler.kill(app_id)
    return Flood(lines / took, broken, used / lines * 1e6)


async def _flood(app: AppDef, text: Callable[[int], str], lines: int) -> Flood:
    seen = [0] * app.roles[0].num_replicas
    broken = 0
    with state_directory():
        async with LocalScheduler("benchmark") as scheduler:
            began, used = time.perf_counter(), time.process_time()
            app_id = await scheduler.submit(app)
            async for line in scheduler.log_iter(app_id, should_tail=True):
                replica = line.source.replica
                broken += line != text(seen[replica]) + "\n"
                seen[replica] += 1
            took, used = time.perf_counter() - began, time.process_time() - used
    return Flood(lines / took, broken + abs(lines - sum(seen)), used / lines * 1e6)


def _into_cat(child: list[str]) -> float:
    began = time.perf_counter()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as cat:
        assert cat.stdin is not None
        subprocess.run(child, stdout=cat.stdin, check=True)
        cat.stdin.close()
    return time.perf_counter() - began
