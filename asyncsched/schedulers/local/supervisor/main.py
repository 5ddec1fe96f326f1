"""The two processes: a watcher that only waits, and the worker under it."""

from __future__ import annotations

import os
import time

from . import TYPE_CHECKING
from .bare import signal, socket
from .between_fork_and_exec import describe, errno_of
from .control import refuse
from .files import write_atomic
from .formats import SUPERVISORS, socket_name
from .host import start_time
from .limits import raise_limits
from .process_tree import adopt_orphans, descendants, kill, send
from .worker import Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

WITHOUT_EFFECT = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ)


def main(arguments: Sequence[str]) -> None:
    """Run a supervisor.

    Args:
        arguments: Descriptors of the owner's socket, the owner's pidfd (or -1) and the state directory; the
            owner's number and start; whether this is the supervisor of a detached app (0 or 1).
    """
    sock, pidfd, root, owner, owner_start, detached = map(int, arguments)
    for fd in (sock, pidfd, root):
        if fd >= 0:
            os.set_inheritable(fd, False)
    if os.fork():
        # The owner waits for this process, and so gets no unknown child.
        os._exit(0)
    _be_nobodys()
    adopt_orphans()
    watcher = os.getpid()
    life, alive = os.pipe2(os.O_CLOEXEC)
    worker = os.fork()
    if worker:
        os.close(life)
        name = _socket_of(worker)
        watch(worker)
        _remove_socket(name, root)
        os._exit(0)
    os.close(alive)
    try:
        # In separate groups, so that killing the group of one does not kill the other.
        os.setpgid(0, 0)
        adopt_orphans()
        connection = socket.socket(fileno=sock)
        try:
            control = Worker(root, (watcher, start_time(watcher) or 0), life, raise_limits())
        except OSError as error:
            refuse(connection, f"in its state directory: {describe(error)}", errno_of(error))
        else:
            control.serve(connection, pidfd, (owner, owner_start), detached=bool(detached))
    except BaseException:
        _leave_note(root)  # nothing else would report it
        raise
    finally:
        os._exit(0)


def _be_nobodys() -> None:
    """Leave the session, the directory and the signal handlers of the process that started this one."""
    os.setsid()
    os.chdir("/")
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, _take if number in WITHOUT_EFFECT else signal.SIG_DFL)


def _take(_number: int, _frame: object) -> None:
    """Handle a signal without effect; if it were ignored, every executed program would ignore it too."""


def watch(worker: int) -> None:
    """Wait for the worker, then end the processes that it left.

    If this process is killed, the worker sees its pipe close and ends everything; if the worker is killed, this
    process cleans up.
    """

    def pass_on(number: int, _frame: object) -> None:
        send(worker, number)

    signal.signal(signal.SIGTERM, pass_on)
    os.waitid(os.P_PID, worker, os.WEXITED | os.WNOWAIT)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pause = 0.002
    while kill([pid for pid, _ in descendants(os.getpid()) if pid != worker]):
        time.sleep(pause)
        pause = min(2 * pause, 0.1)
        _reap()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _socket_of(worker: int) -> str:
    try:
        return socket_name(worker, start_time(worker) or 0)
    except OSError:  # without this process, the worker would end what it runs
        return ""


def _remove_socket(name: str, root: int) -> None:
    try:
        os.unlink(f"{SUPERVISORS}/{name}", dir_fd=root)
    except OSError:
        pass  # the worker has removed it already, or it stays


def _leave_note(root: int) -> None:
    import traceback

    write_atomic(f"crash.{os.getpid()}.txt", traceback.format_exc().encode(), at=root)
