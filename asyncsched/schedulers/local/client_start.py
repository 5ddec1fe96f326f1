"""Starting a supervisor, and waiting for processes that are not our children."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from asyncsched._tasks import made_in_thread
from asyncsched.clock import Clock
from asyncsched.errors import AsyncSchedError
from asyncsched.schedulers.local.state_dir import Home, find_home
from asyncsched.schedulers.local.supervisor.machine import is_alive, start_time

if TYPE_CHECKING:
    from asyncsched.schedulers.api import Scheduler

__all__ = ["Beginning", "begin_ahead", "start_supervisor", "take_over", "until_ended"]

BOOT = Path(__file__).parent / "supervisor" / "boot.py"
LOOK_EVERY = 0.05


class _Adopts(Protocol):
    """The scheduler of this backend, which cannot be named here without going round."""

    def adopt(self, beginning: Beginning) -> None: ...


class Beginning:
    """A supervisor that has been started, and may not be ready yet.

    It is no child of ours: the process that is started here only forks, so that nobody finds a child that it does
    not know. Dropped, the supervisor finds its socket closed and ends.

    Args:
        home: The state directory; it is made if need be.
        detached: Whether it is for one app that outlives us.
    """

    def __init__(self, home: Home, *, detached: bool = False) -> None:
        home.make()
        self._sock, theirs = socket.socketpair()
        pidfd = _open_pidfd(os.getpid())
        try:
            arguments = [theirs.fileno(), pidfd, home.fd, os.getpid(), start_time(os.getpid()) or 0, int(detached)]
            self._forks = subprocess.Popen(
                [sys.executable or "python3", "-I", "-S", os.fspath(BOOT), *map(str, arguments)],
                pass_fds=[fd for fd in (theirs.fileno(), pidfd, home.fd) if fd >= 0],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except BaseException:
            self._sock.close()
            raise
        finally:
            theirs.close()
            if pidfd >= 0:
                os.close(pidfd)

    def finish(self) -> socket.socket:
        """Wait until nothing of it is our child, and return our end of its socket."""
        self._forks.wait()
        self._sock.setblocking(False)
        return self._sock

    def hand_to(self, scheduler: Scheduler[Any, Any]) -> None:
        """Have a scheduler use it, before anything else is done there."""
        cast("_Adopts", scheduler).adopt(self)

    def drop(self) -> None:
        """Have it end, unless somebody speaks with it: then that one lets go of it."""
        self._forks.wait()
        self._sock.close()


def begin_ahead() -> Beginning | None:
    """Start a supervisor while the rest is still being imported; None if that fails, as the submit will say."""
    home = Home(find_home(os.environ))
    try:
        return Beginning(home)
    except (AsyncSchedError, OSError):
        return None
    finally:
        home.close()


async def start_supervisor(home: Home, *, detached: bool) -> socket.socket:
    """Start a supervisor and return our end of its socket."""
    return await made_in_thread(lambda: Beginning(home, detached=detached).finish(), socket.socket.close)


async def take_over(beginning: Beginning) -> socket.socket:
    """Return our end of the socket of a supervisor that has been started."""
    return await made_in_thread(beginning.finish, socket.socket.close)


def _open_pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # neither every kernel nor every interpreter has them
        return -1


async def until_ended(pid: int, start: int, clock: Clock) -> None:
    """Wait until a process is gone."""
    pidfd = await made_in_thread(lambda: _open_if_alive(pid, start), _close_pidfd)
    if pidfd is None:
        return
    if pidfd < 0:
        while await asyncio.to_thread(is_alive, pid, start):
            await clock.sleep(LOOK_EVERY)
        return
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def on_end() -> None:
        if not ended.done():
            ended.set_result(None)

    loop.add_reader(pidfd, on_end)
    try:
        await ended
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


def _open_if_alive(pid: int, start: int) -> int | None:
    """Return a descriptor of the process, -1 if there are none to be had, None if it is gone."""
    pidfd = _open_pidfd(pid)
    if is_alive(pid, start):  # else the descriptor is that of another one, to whom the number was given
        return pidfd
    if pidfd >= 0:
        os.close(pidfd)
    return None


def _close_pidfd(pidfd: int | None) -> None:
    if pidfd is not None and pidfd >= 0:
        os.close(pidfd)
