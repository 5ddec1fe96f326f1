"""Wait for processes that are not children of this one."""

from __future__ import annotations

import asyncio
import os

from asyncsched._tasks import made_in_thread
from asyncsched.clock import Clock
from asyncsched.schedulers._common.program import until_readable
from asyncsched.schedulers._common.program_start import open_pidfd
from asyncsched.schedulers.local.supervisor.host import is_alive

__all__ = ["until_ended"]

LOOK_EVERY = 0.05


async def until_ended(pid: int, start: int, clock: Clock) -> None:
    """Wait until a process is gone."""
    pidfd = await made_in_thread(lambda: _open_if_alive(pid, start), _close)
    if pidfd is None:
        return
    try:
        if pidfd >= 0:
            await until_readable(pidfd)
        while pidfd < 0 and await asyncio.to_thread(_may_be_alive, pid, start):
            await clock.sleep(LOOK_EVERY)
    finally:
        _close(pidfd)


def _open_if_alive(pid: int, start: int) -> int | None:
    """Return a pidfd of the process, -1 if none can be opened, None if the process is gone."""
    pidfd = open_pidfd(pid)
    try:
        if is_alive(pid, start):  # if not, the pidfd is that of another process, with the same number
            return pidfd
        gone = None
    except OSError:
        gone = -1
    _close(pidfd)
    return gone


def _may_be_alive(pid: int, start: int) -> bool:
    try:
        return is_alive(pid, start)
    except OSError:  # such as EMFILE: it cannot be looked at for now
        return True


def _close(pidfd: int | None) -> None:
    if pidfd is not None and pidfd >= 0:
        os.close(pidfd)
