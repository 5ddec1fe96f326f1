"""Find the descendants of this process, and end them."""

from __future__ import annotations

import ctypes
import os

from . import TYPE_CHECKING
from .bare import signal
from .host import stat_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeAlias

    Children: TypeAlias = Callable[[int], list[int]]

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

_prctl = ctypes.CDLL(None).prctl


def adopt_orphans() -> None:
    """Adopt every descendant that loses its parent, so that none escapes."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies; exec keeps this, except for setuid programs."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def descendants(
    root: int, *, enter: Callable[[int], bool] = lambda _child: True, children: Children | None = None
) -> Iterator[tuple[int, int]]:
    """Yield each descendant of `root` with the child of `root` above it.

    Collect them before any signal is sent. Children of a process that dies meanwhile are missed; the next call finds
    them under their new parent.

    Args:
        root: A process; the list of its children is exact if it is this process, which alone reaps them.
        enter: Tells whether a child of `root` is wanted, with its descendants.
        children: Returns the children of a process; None for the fastest way on this kernel.
    """
    if children is None:
        children = children_by_lists if has_lists() else children_by_parents()
    todo = [(pid, pid) for pid in children(root) if enter(pid)]
    while todo:
        pid, top = todo.pop()
        yield pid, top
        todo += [(each, top) for each in children(pid)]


def has_lists() -> bool:
    """Return whether the kernel can list a process's children."""
    return os.path.exists("/proc/thread-self/children")


def children_by_lists(pid: int) -> list[int]:
    """Ask the kernel for the children of a process."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []  # it is gone; the next call finds its children under their new parent
    return [child for thread in threads for child in _children_of_thread(pid, thread)]


def _children_of_thread(pid: int, thread: str) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


def children_by_parents() -> Children:
    """Read the parent of every process of the machine once, for kernels without lists of children."""
    tree: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (parent := _parent(int(name))) is not None:
            tree.setdefault(parent, []).append(int(name))
    return lambda pid: tree.get(pid, [])


def _parent(pid: int) -> int | None:
    try:
        fields = stat_fields(pid)
    except OSError:
        return None
    return None if fields is None else int(fields[1])


def is_childless() -> bool:
    """Return whether this process has no children, not even zombies."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def send(pid: int, number: int) -> bool:
    """Signal a process; return whether it exists and may be signalled."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _send_group(leader: int, number: int) -> None:
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        pass


def kill_group(leader: int) -> None:
    """Send KILL to a process group; only before its leader is reaped, because then the number may be reused."""
    _send_group(leader, signal.SIGKILL)


def kill(pids: Iterable[int]) -> bool:
    """Send KILL to each; return whether any existed and could be signalled."""
    return sum(send(pid, signal.SIGKILL) for pid in pids) > 0


def ask_to_end(leaders: Iterable[int], others: Iterable[int]) -> None:
    """Send TERM, and CONT so that a stopped process receives it.

    Args:
        leaders: The leaders of process groups, which are not reaped yet.
        others: Further processes, in these groups or others.
    """
    groups = set(leaders)
    for leader in groups:
        _send_group(leader, signal.SIGTERM)
        _send_group(leader, signal.SIGCONT)
    for pid in others:
        try:
            if os.getpgid(pid) in groups:
                continue
        except ProcessLookupError:
            continue
        send(pid, signal.SIGTERM)
        send(pid, signal.SIGCONT)
