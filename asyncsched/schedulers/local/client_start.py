"""Starting a supervisor: on the loop, or ahead of it, for which nothing of asyncio is imported."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from asyncsched._home import find_home
from asyncsched.errors import AsyncSchedError
from asyncsched.schedulers._common.program_start import open_pidfd, start_program
from asyncsched.schedulers.local.state_dir import StateDir
from asyncsched.schedulers.local.supervisor.host import start_time

if TYPE_CHECKING:
    from asyncsched.schedulers._common.program import Programs
    from asyncsched.schedulers.api import Scheduler

__all__ = ["PendingSupervisor", "begin_ahead", "start_supervisor"]

BOOT = Path(__file__).parent / "supervisor" / "boot.py"
PATIENCE = 60.0
"""Seconds that an interpreter may take to start, on a machine that is as busy as can be."""


class _UsesStarted(Protocol):
    """The scheduler of this backend, which cannot be named here without going round."""

    def use_started(self, pending: PendingSupervisor) -> None: ...


class _Ends:
    """Both ends of a supervisor's socket, and the command that starts it with one of them.

    The process that is started only forks, so that nobody finds a child that it does not know. The supervisor ends when
    it finds its socket closed.

    Args:
        home: The state directory; it is made if need be.
        detached: Whether the supervisor is for one app that outlives us.
    """

    def __init__(self, home: StateDir, *, detached: bool) -> None:
        home.make()
        self.ours, self._theirs = socket.socketpair()
        self.ours.setblocking(False)
        self._pidfd = open_pidfd(os.getpid())
        arguments = [self._theirs.fileno(), self._pidfd, home.fd, os.getpid(), start_time(os.getpid()) or 0]
        self.argv = [sys.executable or "python3", "-I", "-S", str(BOOT), *map(str, arguments), str(int(detached))]
        self.pass_fds = [fd for fd in arguments[:3] if fd >= 0]

    def close_theirs(self) -> None:
        """Let go of what only the supervisor needs."""
        self._theirs.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def close(self) -> None:
        """Let go of everything."""
        self.close_theirs()
        self.ours.close()


class PendingSupervisor:
    """A supervisor that has been started ahead, and may not be ready yet.

    Args:
        home: The state directory; it is made if need be.
    """

    def __init__(self, home: StateDir) -> None:
        ends = _Ends(home, detached=False)
        try:
            self._forks = start_program(ends.argv, pass_fds=ends.pass_fds, output=False)
        except BaseException:
            ends.close()
            raise
        ends.close_theirs()
        self._sock = ends.ours

    async def finish(self, programs: Programs) -> socket.socket:
        """Wait until nothing of it is our child, and return our end of its socket."""
        try:
            await programs.finish(self._forks, operation="start", timeout=PATIENCE)
        except BaseException:
            self._sock.close()
            raise
        return self._sock

    def hand_to(self, scheduler: Scheduler[Any, Any]) -> None:
        """Have a scheduler use it, before anything else is done there."""
        cast("_UsesStarted", scheduler).use_started(self)

    def drop(self) -> None:
        """Have it end, unless somebody speaks with it: then that one lets go of it."""
        self._forks.wait()
        self._sock.close()


def begin_ahead() -> PendingSupervisor | None:
    """Start a supervisor while the rest is still being imported; None if that fails, as the submit will say."""
    home = StateDir(find_home(os.environ))
    try:
        return PendingSupervisor(home)
    except (AsyncSchedError, OSError):
        return None
    finally:
        home.close()


async def start_supervisor(home: StateDir, programs: Programs, *, detached: bool) -> socket.socket:
    """Start a supervisor and return our end of its socket."""
    from asyncsched._tasks import made_in_thread

    ends = await made_in_thread(lambda: _Ends(home, detached=detached), _Ends.close)
    try:
        await programs.run(ends.argv, operation="start", timeout=PATIENCE, pass_fds=ends.pass_fds, output=False)
    except BaseException:
        ends.close()
        raise
    ends.close_theirs()
    return ends.ours
