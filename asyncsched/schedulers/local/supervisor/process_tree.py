"""Which processes are below us, and how they are told to end."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterable, Iterator

from .host import stat_fields

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

_prctl = ctypes.CDLL(None).prctl
_KILL = int(signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own, so that none escapes."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> None:
    """Have the kernel kill us when our parent dies; it stays so after exec, but for programs that change the user."""
    _prctl(PR_SET_PDEATHSIG, _KILL, 0, 0, 0)


Children = Callable[[int], list[int]]


def descendants(
    root: int, *, enter: Callable[[int], bool] = lambda _child: True, children: Children | None = None
) -> Iterator[tuple[int, int]]:
    """Give each process below `root` with the child of `root` through which it was reached.

    Walked before anybody is signalled: a child of a process that dies meanwhile is missed, and found by
    the next walk under whoever adopted it.

    Args:
        root: A process; the list of its own children is exact if it is us, who alone reap them.
        enter: Tells whether a child of `root` is wanted, with all that is below it.
        children: Returns the children of a process; None for the quickest way that this kernel has.
    """
    if children is None:
        children = children_by_lists if has_lists() else children_by_parents()
    todo = [(pid, pid) for pid in children(root) if enter(pid)]
    while todo:
        pid, top = todo.pop()
        yield pid, top
        todo += [(each, top) for each in children(pid)]


def has_lists() -> bool:
    """Tell whether the kernel has been built to list a process's children."""
    return os.path.exists("/proc/thread-self/children")


def children_by_lists(pid: int) -> list[int]:
    """Ask the kernel for the children of a process."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []  # It is gone: what it had has moved up, and the next walk finds it.
    return [child for thread in threads for child in _children_of_thread(pid, thread)]


def _children_of_thread(pid: int, thread: str) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


def children_by_parents() -> Children:
    """Look once at every process of the machine and its parent, where there is no other way."""
    tree: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := stat_fields(int(name))) is not None:
            tree.setdefault(int(fields[1]), []).append(int(name))
    return lambda pid: tree.get(pid, [])


def is_childless() -> bool:
    """Tell whether nobody is below us, not even one who has ended and has not been waited for."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def send(pid: int, number: int) -> bool:
    """Signal a process; tell whether it is there and ours to signal."""
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
    """Send KILL to a process group; only while its leader has not been reaped, or the number may be another's."""
    _send_group(leader, signal.SIGKILL)


def kill(pids: Iterable[int]) -> bool:
    """Send KILL to each; tell whether any was there and ours to signal."""
    return sum(send(pid, signal.SIGKILL) for pid in pids) > 0


def ask_to_end(leaders: Iterable[int], others: Iterable[int]) -> None:
    """Send TERM, and CONT so that a stopped process hears of it.

    Args:
        leaders: The leaders of process groups, which have not been reaped.
        others: Processes, of these groups or of others.
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
