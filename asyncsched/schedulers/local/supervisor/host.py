"""Which machine this is and which process: what a record says, so that a number is never trusted alone."""

from __future__ import annotations

import os


def host() -> str:
    """Return this machine's name."""
    return os.uname().nodename


def boot_id() -> str:
    """Return the kernel's name for this run of the machine, or ``""`` where it tells none."""
    return _read("/proc/sys/kernel/random/boot_id").strip()


def pid_namespace() -> str:
    """Return the name of the namespace in which our process numbers count."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def place() -> dict[str, str]:
    """Return what a record says about where it was written."""
    return {"host": host(), "boot_id": boot_id(), "pid_namespace": pid_namespace()}


def start_time(pid: int) -> int | None:
    """Return when a process started, in ticks since boot, or None when there is no such process.

    A number and a start time name one process; a number alone is given out again. A zombie is no process.
    """
    fields = stat_fields(pid)
    if fields is None or fields[0] in ("Z", "X"):
        return None
    return int(fields[19])


def stat_fields(pid: int) -> list[str] | None:
    """Return the fields of ``/proc/PID/stat`` from the third on: the second may hold anything."""
    _, found, rest = _read(f"/proc/{pid}/stat").rpartition(")")
    return rest.split() if found else None


def is_alive(pid: int, start: int) -> bool:
    """Tell whether this very process is still there."""
    return pid > 0 and start_time(pid) == start


def _read(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, 4096).decode("utf-8", "replace")
    except OSError:
        return ""  # It has ended since.
    finally:
        os.close(fd)
