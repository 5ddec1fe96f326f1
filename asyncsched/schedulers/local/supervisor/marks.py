"""Marks in the environment: by them a process that has lost its parents is known."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

from .layout import MARK

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


def end_marked(pid: int, start: int) -> bool:
    """End whatever bears the marks of a supervisor that is gone; tell whether nothing is left of it.

    For the owner of a supervisor of which both processes have been killed at once, so that neither could end what
    the other led. It looks at every process of the machine, and takes as long as they take to die.
    """
    name = mark_name(pid, start)
    for _ in range(ROUNDS):
        found = list(_marked(name))
        if not found:
            return True
        for each in found:
            try:
                os.kill(each, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        time.sleep(PAUSE)
    return False


def _marked(name: str) -> Iterator[int]:
    for entry in os.listdir("/proc"):
        if entry.isdigit() and any(mark.startswith(name) for mark in marks_of(int(entry))):
            yield int(entry)
