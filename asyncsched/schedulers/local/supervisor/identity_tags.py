"""Marks in the environment and in a resource limit, which identify processes that have lost their parents."""

from __future__ import annotations

import os
import resource
import time

from . import TYPE_CHECKING
from .bare import signal
from .formats import MARK
from .host import start_time

if TYPE_CHECKING:
    from collections.abc import Iterator

TAG = resource.RLIMIT_RTTIME
"""The limit whose soft value is a tag: microseconds that a real-time program may run without a pause.

Every child inherits it, even if it changes its environment, session and descriptors. A tag is about a hundred
thousand years, so it never limits a program.
"""
REPLICAS = 1 << 21
"""The number of different tags of one supervisor."""

ROUNDS = 50
PAUSE = 0.02


def mark_name(pid: int, start: int) -> str:
    """Return the start of all marks of a supervisor."""
    return f"{pid}-{start}/"


def marks_of(pid: int) -> list[str]:
    """Return the marks in a process's environment; empty if it has none, or hides them."""
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
    """Return the lowest of the `REPLICAS` tags of a supervisor."""
    return 1 << 62 | (pid & 0x3FFFFF) << 40 | (start & 0x7FFFF) * REPLICAS


def put_tag(tag: int) -> None:
    """Tag this process and all its future children."""
    try:
        resource.setrlimit(TAG, (tag, resource.getrlimit(TAG)[1]))
    except (OSError, ValueError):
        pass  # the user's limit is lower; then only the environment identifies it


def tag_of(pid: int) -> int:
    """Return a process's tag, if it has one and it is readable."""
    try:
        return resource.prlimit(pid, TAG)[0]
    except OSError:
        return 0


def end_marked(pid: int, start: int) -> bool:
    """End all processes with the marks of a supervisor that is gone; return whether none is left.

    For the owner of a supervisor whose two processes were killed at once, so that neither could clean up. It checks
    every process of the machine, and waits for the killed ones to end. Where the processes cannot be looked at for now,
    it tries again.
    """
    for _ in range(ROUNDS):
        try:
            found = list(_marked(pid, start))
        except OSError:
            time.sleep(PAUSE)
            continue
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
        tagged = 0 <= tag_of(each) - first < REPLICAS and start_time(each) is not None  # zombies keep their tag
        if tagged or any(mark.startswith(name) for mark in marks_of(each)):
            yield each
