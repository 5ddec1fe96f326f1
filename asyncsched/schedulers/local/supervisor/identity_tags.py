"""Marks in the environment, and in a limit: by them a process that has lost its parents is known."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Iterator

from .formats import MARK
from .host import start_time

TAG = resource.RLIMIT_RTTIME
"""The limit whose lower value is a tag: microseconds that a real-time program may run without a pause.

Every child has it from its parent, whatever it does to its environment, session and descriptors. A tag is a
hundred thousand years, so that it never limits anybody.
"""
REPLICAS = 1 << 21
"""So many are told apart by their tags."""

ROUNDS = 50
PAUSE = 0.02


def mark_name(pid: int, start: int) -> str:
    """Return what the marks of all that a supervisor has started begin with."""
    return f"{pid}-{start}/"


def marks_of(pid: int) -> list[str]:
    """Return the marks in a process's environment; it may have none, or hide them."""
    wanted = MARK.encode() + b"="
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            for entry in file.read().split(b"\0"):
                if entry.startswith(wanted):
                    return entry[len(wanted) :].decode("utf-8", "replace").split()
    except OSError:
        pass
    return []


def first_tag(pid: int, start: int) -> int:
    """Return the least of the tags that a supervisor gives; there are `REPLICAS` of them."""
    return 1 << 62 | (pid & 0x3FFFFF) << 40 | (start & 0x7FFFF) * REPLICAS


def put_tag(tag: int) -> None:
    """Tag this process, and all that it will start."""
    try:
        resource.setrlimit(TAG, (tag, resource.getrlimit(TAG)[1]))
    except (OSError, ValueError):
        pass  # The user's own limit is lower: then the environment has to do.


def tag_of(pid: int) -> int:
    """Return a process's tag; it may have none, or not be ours to look at."""
    try:
        return resource.prlimit(pid, TAG)[0]
    except OSError:
        return 0


def end_marked(pid: int, start: int) -> bool:
    """End whatever bears the marks of a supervisor that is gone; tell whether nothing is left of it.

    For the owner of a supervisor of which both processes have been killed at once, so that neither could end what
    the other led. It looks at every process of the machine, and takes as long as they take to die.
    """
    for _ in range(ROUNDS):
        found = list(_marked(pid, start))
        if not found:
            return True
        for each in found:
            try:
                os.kill(each, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        time.sleep(PAUSE)
    return False


def _marked(pid: int, start: int) -> Iterator[int]:
    name, first = mark_name(pid, start), first_tag(pid, start)
    for each in map(int, filter(str.isdigit, os.listdir("/proc"))):
        branded = 0 <= tag_of(each) - first < REPLICAS and start_time(each) is not None  # those that have ended keep it
        if branded or any(mark.startswith(name) for mark in marks_of(each)):
            yield each
