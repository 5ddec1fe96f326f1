"""The worker: it runs apps, handles the ends of processes, and ends itself."""

from __future__ import annotations

import os
import time

from . import TYPE_CHECKING, process_tree
from .app import App
from .bare import signal
from .control import ControlConnection, Listener
from .events import Loop
from .files import open_directory
from .formats import APPS, SUPERVISORS, socket_name
from .handlers import Handlers
from .host import is_alive, place, start_time
from .launch import LaunchError, ReplicaLaunch
from .limits import largest_file
from .ownership import Ownership
from .persistence import Persistence
from .replica import DISK_PATIENCE, KILL_EVERY, Replica

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .bare import socket
    from .limits import Limits

OWNER_EVERY = 0.25


class Worker:
    """Serves one owner, or one detached app, until it has ended and none of its processes is left.

    Args:
        root: The state directory's descriptor.
        watcher: The parent process, and its start time.
        watcher_life: A pipe that ends when the watcher dies.
        limits: The limits to restore in replicas.

    Attributes:
        owner: The connection to the process that started the supervisor, while it is open.
        apps: The apps that start or run, or whose end is not saved yet.
    """

    def __init__(self, root: int, watcher: tuple[int, int], watcher_life: int, limits: Limits) -> None:
        self.loop = Loop()
        self.loop.after_round = self._after_round
        self.ownership = Ownership()
        self.place = place()
        self.largest_file = largest_file()
        pid, start = os.getpid(), start_time(os.getpid()) or 0
        self.identity: dict[str, Any] = {
            "pid": pid,
            "start": start,
            "watcher_pid": watcher[0],
            "watcher_start": watcher[1],
            "socket": socket_name(pid, start),
        }
        self.owner: ControlConnection | None = None
        self.apps: dict[str, App] = {}
        self._limits = limits
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._apps_at = open_directory(APPS, at=root, create=True)
        self._connections: set[ControlConnection] = set()
        self._detached = False
        self._ending = False
        self._leave_at = 0.0
        self._to_settle: set[Replica] = set()
        self._look_due = False
        self._persistence = Persistence(self.loop, self._connections, self.discard, self._removed)
        self._handlers = Handlers(self)
        sockets_at = open_directory(SUPERVISORS, at=root, create=True)
        self._listener = Listener(self.loop, at=sockets_at, name=self.identity["socket"], admit=self._admit)
        self._watch_for_end(watcher_life, "supervisor", grace=False)
        self._watch_signals()

    # Connections, and the owner's end

    def serve(self, owner: socket.socket, owner_pidfd: int, owner_process: tuple[int, int], *, detached: bool) -> None:
        """Serve the owner until nothing is left to do."""
        self._detached = detached
        self.owner = self._admit(owner)
        if not detached:
            # The socket is not enough: a forked child of the owner keeps it open when the owner dies.
            if owner_pidfd >= 0:
                self._watch_for_end(owner_pidfd, "owner")
            else:
                self._look_for_owner(owner_process)
        self.loop.run()

    def _watch_for_end(self, fd: int, why: str, *, grace: bool = True) -> None:
        """End everything when a descriptor becomes ready, which means that its process has died."""

        def ended(_mask: int) -> int:
            self.loop.remove(fd)
            self.end_all(why, grace=grace)
            return 0

        self.loop.add(fd, ended)

    def _look_for_owner(self, process: tuple[int, int]) -> None:
        if _may_be_alive(process):
            self.loop.call_later(OWNER_EVERY, lambda: self._look_for_owner(process))
        else:
            self.end_all("owner")

    def _admit(self, sock: socket.socket) -> ControlConnection:
        connection = ControlConnection(self.loop, sock, self._handlers.answer, self._on_close)
        self._connections.add(connection)
        return connection

    def _on_close(self, connection: ControlConnection) -> None:
        self._connections.discard(connection)
        if connection is self.owner:
            self.owner = None
            if not self._detached:
                self.end_all("owner")
            else:
                self._leave_if_idle()

    # Apps

    def start(self, app: App, done: Callable[[LaunchError | None], None]) -> None:
        """Start an app; `done` is called when it runs, or with the reason why it could not start."""

        def launched(error: LaunchError | None) -> None:
            app.launch = None
            if error is not None:
                app.remove(self._apps_at)
                self.discard(app)
            done(error)

        try:
            self._check_place(app)
            app.make_directory(self._apps_at)
        except LaunchError as error:
            done(error)
            return
        self.apps[app.app_id] = app
        try:
            app.launch = ReplicaLaunch(
                self.loop, app, ownership=self.ownership, null=self._null, limits=self._limits, done=launched
            )
        except OSError as error:
            launched(LaunchError(f"no descriptors are left: {error.strerror}", errno=error.errno, ours=True))
        else:
            app.launch.start()

    def _check_place(self, app: App) -> None:
        if self._ending:
            raise LaunchError("this supervisor accepts no more apps", ours=True)
        if app.app_id in self.apps:
            raise LaunchError(f"there is an app {app.app_id} already", code="exists")

    def app_changed(self, app: App) -> None:
        """Save the app's record and notify its watchers after this round."""
        if app.app_id in self.apps:
            self._persistence.app_changed(app)

    def _removed(self, app: App) -> None:
        """Write the record of a running app again after it was removed; if that fails, end the app.

        Other processes need the record to find the app, to end it, and to avoid starting it twice. It cannot be written
        if another app has its id, or the whole state directory is gone.
        """
        try:
            app.place_again(self._apps_at)
        except OSError:
            app.terminate("removed")

    def discard(self, app: App) -> None:
        """Drop an app that has ended or never ran."""
        self.apps.pop(app.app_id, None)
        self._persistence.forget(app)
        for replica in app.replicas:
            self._to_settle.discard(replica)
            self.ownership.forget(replica)
        app.close()
        self._leave_if_idle()

    def _leave_if_idle(self) -> None:
        if self._detached and self.owner is None and not self.apps:
            self.end_all("close")

    # The end of everything

    def end_all(self, why: str, *, grace: bool = True) -> None:
        """End every app, and then this process."""
        if self._ending and grace:
            return
        self._ending = True
        apps = [app for app in self.apps.values() if not app.is_over]
        for app in apps:
            if app.launch is not None:
                app.launch.abort(LaunchError("its owner has ended", ours=True))
            else:
                app.terminate(why, grace=grace)
        process_tree.ask_to_end((), self.ownership.left_over().get(None, ()))
        longest = max((app.grace_period for app in apps), default=0.0) if grace else 0.0
        self._leave_at = time.monotonic() + longest + DISK_PATIENCE
        self.loop.call_later(longest, lambda: self._sweep(KILL_EVERY[0]))

    def _sweep(self, look_after: float) -> None:
        """End all descendants, repeatedly, until none is left that can be ended."""
        below = [pid for pid, _ in process_tree.descendants(os.getpid())]
        swept = not process_tree.kill(below)
        if self._leave_if_done(swept=swept):
            return
        self.loop.call_later(look_after, lambda: self._sweep(min(2 * look_after, KILL_EVERY[1])))

    def _leave_if_done(self, *, swept: bool = False) -> bool:
        """End this process if no descendant is left that can be ended, and everything is saved and sent."""
        waiting = self._persistence.has_unsaved or any(not app.is_over for app in self.apps.values())
        if (waiting and time.monotonic() < self._leave_at) or not (swept or process_tree.is_childless()):
            return False
        self._listener.close()
        self.loop.stop()
        return True

    # The ends of processes

    def _watch_signals(self) -> None:
        read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, _noted)

        def woken(_mask: int) -> int:
            if signal.SIGTERM in os.read(read, 4096):
                self.end_all("terminated")
            self._reap()
            return 0

        self.loop.add(read, woken)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            replica = self.ownership.reaped(pid)
            if replica is None:
                self._look_due = True
            elif replica.app.launch is not None:
                replica.app.launch.ended(replica)
            else:
                replica.exited(status)

    def look_again(self, replica: Replica) -> None:
        """After this round, settle a replica whose first process has ended."""
        self._to_settle.add(replica)

    def _after_round(self) -> None:
        if self._look_due:
            # An adopted process has ended, for which its replica may have waited.
            self._look_due = False
            self._to_settle.update(each for app in self.apps.values() for each in app.replicas)
        if self._to_settle:
            self._settle()
        self._persistence.publish()
        if self._ending and not self.ownership.is_running:
            self._leave_if_done()

    def _settle(self) -> None:
        due = [each for each in self._to_settle if each.has_exited and not each.is_over]
        self._to_settle.clear()
        if not due:
            return
        left = self.ownership.left_over()
        # Once no replica's main process is left, unattributed processes can be ended too.
        strangers = [] if self.ownership.is_running else left.get(None, [])
        for replica in due:
            replica.settle(left.get(replica, []) + strangers)


def _may_be_alive(process: tuple[int, int]) -> bool:
    try:
        return is_alive(*process)
    except OSError:  # such as EMFILE: it cannot be looked at for now
        return True


def _noted(_number: int, _frame: object) -> None:
    """Handle a signal without effect; the wake-up pipe reports it."""
