"""Which processes are below us, and whose they are."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Container, Iterable, Iterator

from .layout import MARK
from .machine import stat_fields

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None)


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own, so that none escapes."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> None:
    """Have the kernel kill us when our parent dies."""
    _libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def descendants(root: int, *, skip: Container[int] = ()) -> Iterator[tuple[int, int]]:
    """Give each process below `root` with the child of `root` through which it was reached.

    Walked before anybody is signalled: a child of a process that dies meanwhile is missed, and found by
    the next walk under whoever adopted it. Children of `root` to `skip` are left out with all below them.
    """
    tops = _children_of(root)
    tree = _tree_by_parent() if tops is None else None
    if tree is not None:
        tops = tree.get(root)
    todo = [(pid, pid) for pid in tops or () if pid not in skip]
    while todo:
        pid, top = todo.pop()
        yield pid, top
        below = tree.get(pid) if tree is not None else _children_of(pid)
        todo += [(each, top) for each in below or ()]


def _children_of(pid: int) -> list[int] | None:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    found: list[int] = []
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                found += [int(child) for child in file.read().split()]
        except OSError:
            # Our own file is there whenever the kernel has been built with it; another's thread may be gone.
            if pid == os.getpid():
                return None
    return found


def _tree_by_parent() -> dict[int, list[int]]:
    tree: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := stat_fields(int(name))) is not None:
            tree.setdefault(int(fields[1]), []).append(int(name))
    return tree


def mark_of(pid: int) -> str:
    """Return the mark in a process's environment, or ``""``: it has none, or hides it."""
    wanted = MARK.encode() + b"="
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            for entry in file.read().split(b"\0"):
                if entry.startswith(wanted):
                    return entry[len(wanted) :].decode("utf-8", "replace")
    except OSError:
        pass
    return ""


def send(pid: int, number: int) -> None:
    """Signal a process; one that is gone is fine."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def send_group(leader: int, number: int) -> None:
    """Signal a process group; only while its leader has not been reaped, or the number may be another's."""
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        pass


def ask_to_end(leaders: Iterable[int], others: Iterable[int]) -> None:
    """Send TERM, and CONT so that a stopped process hears of it."""
    groups = set(leaders)
    for leader in groups:
        send_group(leader, signal.SIGTERM)
        send_group(leader, signal.SIGCONT)
    for pid in others:
        try:
            if os.getpgid(pid) in groups:
                continue
        except ProcessLookupError:
            continue
        send(pid, signal.SIGTERM)
        send(pid, signal.SIGCONT)
