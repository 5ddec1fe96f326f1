"""Call off a group from another process, by a file that the group checks before it launches more apps.

A group checks for the file when one of its apps was cancelled by someone else. A group with a key also checks whenever
it writes to its journal, and every two seconds while jobs wait to be restarted. To call off a group, write the file
first, then cancel the apps.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterable
from pathlib import Path

from asyncsched import _platform
from asyncsched.runner.groups.state_files import file_name, make_folder

__all__ = ["call_off", "is_called_off"]

KEPT_FOR = 86_400.0
"""Seconds after which a request that nobody has read is removed by the next one."""

_HELD = re.compile(r"\d+: FLOCK +\S+ +WRITE (\d+) [0-9a-f]+:[0-9a-f]+:(\d+) ")


def is_called_off(session: str, group: str) -> bool:
    """Tell whether there is a request, and remove it, so that it is read once. Blocks on the disk."""
    try:
        (make_folder() / file_name(session, group, ".cancel")).unlink()
    except OSError:
        return False
    return True


def call_off(group: str, sessions: Iterable[str], running: Collection[str]) -> tuple[Path, list[int]]:
    """Tell the scripts of a group to launch no more jobs. Blocks on the disk.

    Args:
        group: The group's name.
        sessions: The sessions of the groups.
        running: The sessions with apps that have not ended. In the others, only scripts with a journal would check.

    Returns:
        The directory that scripts must share to be reached, and the processes that hold the group's journal.

    Raises:
        OSError: The request cannot be written.
    """
    folder = make_folder()
    _sweep(folder)
    pids: list[int] = []
    for session in dict.fromkeys(sessions):
        journal = folder / file_name(session, group, ".jsonl")
        if session not in running and not journal.exists():
            continue
        fd = os.open(
            folder / file_name(session, group, ".cancel"), os.O_CREAT | os.O_WRONLY | _platform.NOFOLLOW, 0o600
        )
        os.close(fd)
        pids += _holders(journal)
    return folder, pids


def _holders(journal: Path) -> list[int]:
    """Return the processes on this machine that hold a journal, according to the kernel."""
    try:
        inode, locks = journal.stat().st_ino, Path("/proc/locks").read_text()
    except OSError:
        return []
    return [int(pid) for pid, held in _HELD.findall(locks) if int(held) == inode]


def _sweep(folder: Path) -> None:
    now = time.time()
    for path in folder.glob("*.cancel"):
        try:
            if now - path.stat().st_mtime > KEPT_FOR:
                path.unlink()
        except OSError:
            continue  # whose it is has read it
