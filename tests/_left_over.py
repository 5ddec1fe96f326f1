"""What a test left behind: tasks, threads, child processes and descriptors."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests._steps import Sampler
from tests._support import eventually, eventually_blocking

WITHIN = float(os.environ.get("TESTS_LEFT_OVER_WITHIN", "30"))
"""How long ends may take, in seconds: they are waited for, not timed."""

# They belong to the loop or to anyio, and end with the loop; the last one is the guard's.
_KNOWN_THREADS = ("asyncio_", "uvloop_", "AnyIO worker thread", Sampler.NAME)

# libuv opens it with a loop's first stream, against running out of descriptors, and closes it with the loop.
_LIBUV = Counter({"/dev/null": 1})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is there at one moment."""

    tasks: frozenset[asyncio.Task[object]]
    threads: frozenset[threading.Thread]
    children: frozenset[str]
    descriptors: frozenset[str]

    def new_since(self, before: Snapshot) -> list[str]:
        """Tell what is here that was not there before."""
        return [
            *(f"a task is left: {task!r}" for task in self.tasks - before.tasks),
            *(f"a thread is left: {thread!r}" for thread in self.threads - before.threads),
            *(f"a child process is left: {child}" for child in sorted(self.children - before.children)),
            *(f"a descriptor is left: {fd}" for fd in self._new_descriptors(before)),
        ]

    def _new_descriptors(self, before: Snapshot) -> list[str]:
        # uvloop replaces its pair of sockets for signals from run to run, so kinds are counted.
        more = Counter(map(_kind, self.descriptors)) - Counter(map(_kind, before.descriptors)) - _LIBUV
        return sorted(fd for fd in self.descriptors - before.descriptors if _kind(fd) in more)


def snapshot() -> Snapshot:
    """Look around, from inside a loop or where none runs."""
    return Snapshot(
        tasks=frozenset(_other_tasks()),
        threads=frozenset(t for t in threading.enumerate() if not t.name.startswith(_KNOWN_THREADS)),
        children=frozenset(_children()),
        descriptors=frozenset(_descriptors()),
    )


async def since(before: Snapshot) -> list[str]:
    """Wait until nothing is left, and tell what is after a deadline."""
    try:
        await eventually(lambda: not snapshot().new_since(before), within=WITHIN)
    except AssertionError:
        return snapshot().new_since(before)
    return []


def since_blocking(before: Snapshot) -> list[str]:
    """Do what `since` does where no loop runs."""
    try:
        eventually_blocking(lambda: not snapshot().new_since(before), within=WITHIN)
    except AssertionError:
        return snapshot().new_since(before)
    return []


def _other_tasks() -> set[asyncio.Task[object]]:
    if asyncio._get_running_loop() is None:
        return set()
    return asyncio.all_tasks() - {asyncio.current_task()}


def _children() -> list[str]:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return []  # there is none: no need to look at every process of the machine
    me = os.getpid()
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # The command's name stands in parentheses and may hold anything, also ") ".
            state, parent, *_ = (entry / "stat").read_text(errors="replace").rpartition(") ")[2].split()
            command = (entry / "cmdline").read_text(errors="replace").replace("\0", " ").strip()
        except OSError:
            continue  # it has ended meanwhile
        if int(parent) == me:
            found.append(f"{entry.name} ({'not waited for' if state == 'Z' else command})")
    return found


def _descriptors() -> list[str]:
    found: list[str] = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.append(f"{entry.name} -> {entry.readlink()}")
        except OSError:
            continue  # the descriptor of the listing itself
    return found


def _kind(descriptor: str) -> str:
    # "7 -> socket:[4711]" is of the kind "socket", "7 -> /etc/hosts" of its own.
    return descriptor.partition(" -> ")[2].partition(":[")[0]
