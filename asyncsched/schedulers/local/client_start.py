"""Start a supervisor: on the loop, or ahead of it, without importing asyncio."""

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
"""Seconds to wait for an interpreter to start, on a very busy machine."""


class _UsesStarted(Protocol):
    """The scheduler of this backend; importing its class here would be circular."""

    def use_started(self, pending: PendingSupervisor) -> None: ...


class _Ends:
    """Both ends of a supervisor's socket, and the command that starts it with one of them.

    The started process only forks and ends, so that the caller gets no unknown child. The supervisor ends when its
    socket is closed.

    Args:
        home: The state directory; created if needed.
        detached: Whether the supervisor is for one detached app.
    """

    def __init__(self, home: StateDir, *, detached: bool) -> None:
        home.make()
        started = start_time(os.getpid()) or 0
        self.ours, self._theirs = socket.socketpair()
        self.ours.setblocking(False)
        self._pidfd = open_pidfd(os.getpid())
        arguments = [self._theirs.fileno(), self._pidfd, home.fd, os.getpid(), started]
        self.argv = [sys.executable or "python3", "-I", "-S", str(BOOT), *map(str, arguments), str(int(detached))]
        self.pass_fds = [fd for fd in arguments[:3] if fd >= 0]

    def close_theirs(self) -> None:
        """Close the descriptors that only the supervisor needs."""
        self._theirs.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def close(self) -> None:
        """Close all descriptors."""
        self.close_theirs()
        self.ours.close()


class PendingSupervisor:
    """A supervisor that was started ahead, and may not be ready yet.

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
        """Wait until the started process has ended, and return this side of the supervisor's socket."""
        try:
            await programs.finish(self._forks, operation="start", timeout=PATIENCE)
        except BaseException:
            self._sock.close()
            raise
        return self._sock

    def hand_to(self, scheduler: Scheduler[Any, Any]) -> None:
        """Let a scheduler use it; call this before any other operation of the scheduler."""
        cast("_UsesStarted", scheduler).use_started(self)

    def drop(self) -> None:
        """End it, unless a scheduler uses it, which then ends it."""
        self._forks.wait()
        self._sock.close()


def begin_ahead() -> PendingSupervisor | None:
    """Start a supervisor while other modules are imported; return None on failure, which the submit will report."""
    home = StateDir(find_home(os.environ))
    try:
        return PendingSupervisor(home)
    except (AsyncSchedError, OSError):
        return None
    finally:
        home.close()


async def start_supervisor(home: StateDir, programs: Programs, *, detached: bool) -> socket.socket:
    """Start a supervisor and return this side of its socket."""
    from asyncsched._tasks import made_in_thread

    ends = await made_in_thread(lambda: _Ends(home, detached=detached), _Ends.close)
    try:
        await programs.run(ends.argv, operation="start", timeout=PATIENCE, pass_fds=ends.pass_fds, output=False)
    except BaseException:
        ends.close()
        raise
    ends.close_theirs()
    return ends.ours
