"""How long a submit of 200 processes takes: against 200 serial `Popen`, and the peer."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from asyncsched.schedulers.local import LocalScheduler
from benchmarks._floods import longest_step
from benchmarks._harness import Claim, at_most, in_turns_on_loop, on_loop
from benchmarks._local import PEER_APP, app_of, state_directory
from benchmarks._peer import Peer, peer
from benchmarks._reference import STEP, reference_work

REPLICAS = 200
ROUNDS = 5
PROGRAMS = {
    "sleep": ["sleep", "600"],
    "a Python program": [sys.executable, "-c", "import time; time.sleep(600)"],
}

SERIAL = "as many serial `Popen`"
THE_PEER = "the peer"

PEER = """
def measure():
    began = time.perf_counter()
    app_id = submit({command!r}, {replicas})
    took = time.perf_counter() - began
    scheduler.cancel(app_id)
    return [took]
"""


class Submit(NamedTuple):
    """What a submit took, in seconds."""

    time: float
    """Until it returns: every program was found, and may run."""
    all_run: float
    """Until every program runs."""
    step: float = 0.0
    """CPU of the loop's longest step."""


async def claims() -> AsyncIterator[Claim]:
    """Submit and end in turns."""
    for name, command in PROGRAMS.items():
        with (
            state_directory(in_memory=True),
            peer(PEER_APP + PEER.format(command=command, replicas=REPLICAS)) as theirs,
        ):
            measures: dict[str, Callable[[], Awaitable[Submit]]] = {
                "a submit": partial(_submit, command),
                SERIAL: on_loop(partial(_serial, command)),
                THE_PEER: partial(_theirs, theirs),
                STEP: on_loop(lambda: Submit(0.0, 0.0, reference_work())),
            }
            taken = await in_turns_on_loop(measures, ROUNDS)
        detail = f"{taken.told(1, 's', _TIME)}; all run after {taken.median('a submit', _ALL_RUN):.3g} s"
        what = f"{REPLICAS} replicas of {name}: time until the submit returns"
        yield at_most(what, taken.ratio("a submit", SERIAL, _TIME), 3.0, detail=detail)
        yield at_most(what, taken.ratio("a submit", THE_PEER, _TIME), 1.0, detail=detail)
        yield at_most(
            f"{REPLICAS} replicas of {name}: CPU of the longest step",
            taken.ratio("a submit", STEP, _STEP),
            1.0,
            detail=taken.told(1e3, "ms", _STEP),
        )


_TIME: Callable[[Submit], float] = attrgetter("time")
_ALL_RUN: Callable[[Submit], float] = attrgetter("all_run")
_STEP: Callable[[Submit], float] = attrgetter("step")


async def _theirs(theirs: Peer) -> Submit:
    taken = await theirs.measure_one()
    return Submit(taken, taken)


async def _submit(command: list[str]) -> Submit:
    async with LocalScheduler("benchmark") as scheduler:
        await scheduler.submit(app_of(["true"]))
        supervisors = _ours()
        with longest_step() as steps:
            began = time.perf_counter()
            app_id = await scheduler.submit(app_of(command, replicas=REPLICAS), {"grace_period": 1.0})
            taken = time.perf_counter() - began
            await asyncio.sleep(0)  # what follows is no step of the submit
        longest = max(steps)
        _wait_for_programs(_ours() - supervisors)
        all_run = time.perf_counter() - began
        await scheduler.kill(app_id)
    return Submit(taken, all_run, longest)


def _wait_for_programs(replicas: set[Path]) -> None:
    """Wait until these processes run their programs; look at one after the other, since looking takes time too."""
    deadline = time.monotonic() + 60
    for replica in replicas:
        while _is_ours(replica) and time.monotonic() < deadline:
            time.sleep(0.002)


def _ours() -> set[Path]:
    return {process for process in Path("/proc").iterdir() if _is_ours(process)}


def _is_ours(process: Path) -> bool:
    """Return whether a process is a supervisor, or a replica that does not run its program yet."""
    try:
        return b"supervisor" in (process / "cmdline").read_bytes()
    except OSError:
        return False  # it has ended, or is no process


def _serial(command: list[str]) -> Submit:
    began = time.perf_counter()
    started = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(REPLICAS)]
    taken = time.perf_counter() - began
    for process in started:
        process.kill()
    for process in started:
        process.wait()
    return Submit(taken, taken)
