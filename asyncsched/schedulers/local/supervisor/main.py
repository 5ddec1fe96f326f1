"""The two processes: a watcher that only waits, and the worker under it."""

from __future__ import annotations

import os
import resource
import signal
import socket
import time
import traceback
from collections.abc import Sequence

from .census import adopt_orphans, descendants, send
from .files import write_atomic
from .machine import start_time
from .worker import Worker


def main(arguments: Sequence[str]) -> None:
    """Be a supervisor.

    Args:
        arguments: Descriptors of the owner's socket, the owner's pidfd (or -1) and the state directory; the
            owner's number and start; whether this is the supervisor of a detached app (0 or 1).
    """
    sock, pidfd, root, owner, owner_start, detached = map(int, arguments)
    for fd in (sock, pidfd, root):
        if fd >= 0:
            os.set_inheritable(fd, False)
    if os.fork():
        # The owner waits for this process, and has no child that it would not know.
        os._exit(0)
    os.chdir("/")
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    adopt_orphans()
    watcher = (os.getpid(), start_time(os.getpid()) or 0)
    life, alive = os.pipe2(os.O_CLOEXEC)
    worker = os.fork()
    if worker:
        os.close(life)
        watch(worker)
        os._exit(0)
    os.close(alive)
    try:
        adopt_orphans()
        control = Worker(root, watcher, life, raise_limit())
        control.serve(socket.socket(fileno=sock), pidfd, (owner, owner_start), detached=bool(detached))
    except BaseException:  # Nobody else would hear of it.
        write_atomic(f"crash.{os.getpid()}.txt", traceback.format_exc().encode(), at=root)
        raise
    finally:
        os._exit(0)


def watch(worker: int) -> None:
    """Wait for the worker, then end what has come to us from it.

    Killed itself, the worker sees the pipe end and ends everything; killed first, this process sweeps.
    """

    def pass_on(number: int, _frame: object) -> None:
        send(worker, number)

    signal.signal(signal.SIGTERM, pass_on)
    while os.waitpid(-1, 0)[0] != worker:
        pass
    pause = 0.002
    while left := [pid for pid, _ in descendants(os.getpid())]:
        for pid in left:
            send(pid, signal.SIGKILL)
        time.sleep(pause)
        pause = min(2 * pause, 0.1)
        _reap()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def raise_limit() -> tuple[int, int]:
    """Allow ourselves as many descriptors as we may have, and return what the replicas get back."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    return limits
