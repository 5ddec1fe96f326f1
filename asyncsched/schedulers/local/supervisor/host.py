"""Identify the machine and its processes, because a process number alone is not unique.

What the kernel does not tell for now, as where no descriptors are left, is an OSError, because a process that cannot be
looked at has not ended.
"""

from __future__ import annotations

import errno
import os

UNSEEN = frozenset({errno.ENOENT, errno.ESRCH, errno.EACCES, errno.EPERM})
"""Errors for what is not there, and for processes of others, which ``/proc`` may hide."""


def host() -> str:
    """Return this machine's name."""
    return os.uname().nodename


def boot_id() -> str:
    """Return the kernel's boot id, or ``""`` if there is none."""
    return _read("/proc/sys/kernel/random/boot_id").strip()


def pid_namespace() -> str:
    """Return the name of this process's pid namespace, or ``""`` if there is none."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError as error:
        return _unless_unseen(error)


def place() -> dict[str, str]:
    """Return the fields of a record that identify where it was written."""
    return {"host": host(), "boot_id": boot_id(), "pid_namespace": pid_namespace()}


def start_time(pid: int) -> int | None:
    """Return when a process started, in ticks since boot, or None if there is no such process.

    A number and a start time identify a process; a number alone is reused. A zombie does not count as a process.
    """
    fields = stat_fields(pid)
    if fields is None or fields[0] in ("Z", "X"):
        return None
    return int(fields[19])


def stat_fields(pid: int) -> list[str] | None:
    """Return the fields of ``/proc/PID/stat`` from the third on; the second may contain anything."""
    _, found, rest = _read(f"/proc/{pid}/stat").rpartition(")")
    return rest.split() if found else None


def is_alive(pid: int, start: int) -> bool:
    """Return whether exactly this process is still running."""
    return pid > 0 and start_time(pid) == start


def _read(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return _unless_unseen(error)
    try:
        return os.read(fd, 4096).decode("utf-8", "replace")
    except OSError as error:
        return _unless_unseen(error)  # it may have ended since
    finally:
        os.close(fd)


def _unless_unseen(error: OSError) -> str:
    if error.errno in UNSEEN:
        return ""
    raise error
