"""What the worker owns: apps, the ends of processes, and its own end."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

from . import census
from .app import App
from .control import Connection, Door, Message, answer_hello
from .events import Loop, Timer
from .files import open_directory, open_path, remove_tree
from .launch import Launch, LaunchError
from .layout import APPS, SUPERVISORS
from .machine import is_alive, place, start_time
from .replica import DISK_RETRY, Replica

SAVE_EVERY = 0.02
SWEEP_EVERY = 0.02
OWNER_EVERY = 0.25
LAST_SAVE = 60.0


class Worker:
    """Serve one owner, or one detached app, until it has ended and nothing is left of it.

    Args:
        root: The state directory's descriptor.
        watcher: The process above us, and the start of it.
        watcher_life: A pipe that ends when the watcher dies.
        nofile: The limits that the replicas get back.
    """

    def __init__(self, root: int, watcher: tuple[int, int], watcher_life: int, nofile: tuple[int, int]) -> None:
        self.loop = Loop()
        self.loop.after_round = self._after_round
        self.place = place()
        pid, start = os.getpid(), start_time(os.getpid()) or 0
        self._socket_name = f"{pid}-{start}.sock"
        self.identity: dict[str, Any] = {
            "pid": pid,
            "start": start,
            "watcher_pid": watcher[0],
            "watcher_start": watcher[1],
            "socket": self._socket_name,
        }
        self._nofile = nofile
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._apps_at = open_directory(APPS, at=root, create=True)
        self._sockets_at = open_directory(SUPERVISORS, at=root, create=True)
        self._apps: dict[str, App] = {}
        self._by_pid: dict[int, Replica] = {}
        self._serial = 0
        self._connections: set[Connection] = set()
        self._owner: Connection | None = None
        self._detached = False
        self._ending = False
        self._sweep_after = 0.0
        self._to_settle: set[Replica] = set()
        self._changed: dict[str, App] = {}
        self._unsaved: dict[str, App] = {}
        self._told_at: dict[str, float] = {}
        self._later: Timer | None = None
        self._census_due = False
        self._door = Door(self.loop, at=self._sockets_at, name=self._socket_name, admit=self._admit)
        self.loop.add(watcher_life, lambda _mask: self._watcher_gone(watcher_life))
        self._watch_signals()

    # Who talks to us

    def serve(self, owner: socket.socket, owner_pidfd: int, owner_process: tuple[int, int], *, detached: bool) -> None:
        """Serve the owner until nothing is left to do."""
        self._detached = detached
        self._owner = Connection(self.loop, owner, self._on_message, self._on_close)
        self._connections.add(self._owner)
        if not detached:
            self._watch_owner(owner_pidfd, owner_process)
        self.loop.run()

    def _watch_owner(self, pidfd: int, process: tuple[int, int]) -> None:
        # A child that the owner has forked keeps the socket open when the owner dies: the socket is not enough.
        if pidfd >= 0:
            self.loop.add(pidfd, lambda _mask: self._owner_died(pidfd))
            return

        def look() -> None:
            if not is_alive(*process):
                self._end_all("owner")
            self.loop.call_later(OWNER_EVERY, look)

        look()

    def _owner_died(self, pidfd: int) -> int:
        self.loop.remove(pidfd)
        self._end_all("owner")
        return 0

    def _watcher_gone(self, life: int) -> int:
        self.loop.remove(life)
        self._end_all("supervisor", grace=False)
        return 0

    def _admit(self, sock: socket.socket) -> None:
        self._connections.add(Connection(self.loop, sock, self._on_message, self._on_close))

    def _on_close(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if connection is self._owner:
            self._owner = None
            if not self._detached:
                self._end_all("owner")
            elif not self._apps:
                self._end_all("close")

    def _on_message(self, connection: Connection, message: Message) -> None:
        number = message.get("n")
        operation = self._operations().get(str(message.get("op")))

        def reply(answer: Message) -> None:
            connection.send({"re": number, **answer})

        if operation is None:
            reply({"error": "unknown", "message": f"unknown operation {message.get('op')!r}"})
            return
        try:
            operation(connection, message, reply)
        except Exception as error:  # noqa: BLE001 - one bad request must not end the apps of all others
            reply({"error": "internal", "message": f"{type(error).__name__}: {error}"})

    def _operations(self) -> dict[str, Callable[[Connection, Message, Callable[[Message], None]], None]]:
        return {
            "hello": self._hello,
            "submit": self._submit,
            "describe": self._describe,
            "watch": self._watch,
            "cancel": self._cancel,
            "forget": self._forget,
            "stop": self._stop,
        }

    # What they ask for

    def _hello(self, _from: Connection, message: Message, reply: Callable[[Message], None]) -> None:
        reply(answer_hello(message, supervisor=self.identity, place=self.place))

    def _submit(self, connection: Connection, message: Message, reply: Callable[[Message], None]) -> None:
        if connection is not self._owner or self._ending:
            reply({"error": "refused", "message": "this supervisor takes no more apps"})
            return
        spec = message["app"]
        name = spec["dir"]
        try:
            os.mkdir(name, 0o700, dir_fd=self._apps_at)
        except FileExistsError:
            reply({"error": "exists", "message": f"there is an app {spec['app_id']} already"})
            return
        self._serial += 1
        at = open_path(name, at=self._apps_at)
        app = App(self, self._serial, spec, at)
        self._apps[app.app_id] = app
        # Who meets this directory can tell that somebody is at it, and who.
        app.save()

        def done(error: LaunchError | None) -> None:
            if error is None:
                self._started(app)
                connection.watched.add(app.app_id)
                reply({"app": app.record()})
            else:
                self._discard(app)
                remove_tree(name, at=self._apps_at)
                reply({"error": "refused", "message": str(error)})

        Launch(self.loop, app, done, by_pid=self._by_pid, null=self._null, nofile=self._nofile).step()

    def _started(self, app: App) -> None:
        app.started_ns = time.time_ns()
        if self._ending:
            raise LaunchError("its owner has ended meanwhile")
        if not app.save():
            raise LaunchError("the state directory has no room left on its disk")
        for replica in app.replicas:
            replica.begin()

    def _describe(self, _from: Connection, message: Message, reply: Callable[[Message], None]) -> None:
        apps = (self._apps.get(app_id) for app_id in message["app_ids"])
        reply({"apps": [app.record() for app in apps if app is not None and app.started_ns]})

    def _watch(self, connection: Connection, message: Message, reply: Callable[[Message], None]) -> None:
        connection.watched = set(message["app_ids"])
        reply({})

    def _cancel(self, _from: Connection, message: Message, reply: Callable[[Message], None]) -> None:
        app = self._apps.get(message["app_id"])
        if app is not None and not app.is_over:
            self.terminate(app, "cancel")
        reply({"known": app is not None})

    def _forget(self, _from: Connection, message: Message, reply: Callable[[Message], None]) -> None:
        app = self._apps.get(message["app_id"])
        if app is not None and not app.is_over:
            reply({"error": "running", "message": "the app has not ended"})
            return
        if app is not None:
            self._discard(app)
        reply({})

    def _stop(self, connection: Connection, _message: Message, reply: Callable[[Message], None]) -> None:
        if connection is self._owner:
            self._end_all("close")
        reply({})

    # The ends of apps

    def terminate(self, app: App, why: str) -> None:
        """Ask every process of the app to end, and see to it that it does."""
        if app.is_ending or app.is_over or not app.started_ns:
            return
        below = self._below()
        live = [each for each in app.replicas if each.exit_code is None]
        for each in live:
            each.stopped = True
        app.start_ending(why)
        leaders = {each.pid for each in live}
        mine = [pid for each in app.replicas for pid in below.get(each, ())]
        census.ask_to_end(leaders, [pid for pid in mine if pid not in leaders])
        self.loop.call_later(app.grace_period, lambda: self._out_of_grace(app))

    def _out_of_grace(self, app: App) -> None:
        app.out_of_grace()
        if app.is_over:
            return
        below = self._below()
        for replica in app.replicas:
            if replica.exit_code is None:
                census.send_group(replica.pid, signal.SIGKILL)
            for pid in below.get(replica, ()):
                census.send(pid, signal.SIGKILL)
            self.look_again(replica)
        self.loop.call_later(SWEEP_EVERY, lambda: self._out_of_grace(app))

    def _end_all(self, why: str, *, grace: bool = True) -> None:
        if self._ending and grace:
            return
        self._ending = True
        apps = [app for app in self._apps.values() if not app.is_over]
        strangers = self._below().get(None, [])
        for app in apps:
            self.terminate(app, why)
            if not grace:
                self._out_of_grace(app)
        census.ask_to_end((), strangers)
        longest = max((app.grace_period for app in apps), default=0.0) if grace else 0.0
        self._sweep_after = time.monotonic() + longest
        self.loop.call_later(longest, self._sweep)
        self._census_due = True

    def _sweep(self) -> None:
        """End what belongs to no app that is still given time, again and again until nothing is left."""
        if self._leave_if_done():
            return
        spared = any(app.has_grace() for app in self._apps.values())
        for pid, _ in census.descendants(os.getpid()):
            if not (spared and pid in self._by_pid):
                census.send(pid, signal.SIGKILL)
        self.loop.call_later(SWEEP_EVERY, self._sweep)

    def _leave_if_done(self) -> bool:
        """End this process if nobody is below it and everything has been told."""
        late = time.monotonic() > self._sweep_after + LAST_SAVE
        waiting = self._unsaved or any(not app.is_over for app in self._apps.values())
        if (waiting and not late) or next(census.descendants(os.getpid()), None) is not None:
            return False
        self._door.close()
        self.loop.stop()
        return True

    # The ends of processes

    def _watch_signals(self) -> None:
        read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _noted)
        signal.signal(signal.SIGTERM, _noted)

        def woken(_mask: int) -> int:
            numbers = os.read(read, 4096)
            if signal.SIGTERM in numbers:
                self._end_all("terminated")
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
            replica = self._by_pid.pop(pid, None)
            if replica is not None:
                replica.exited(status)
                replica.app.changed()
            else:
                self._census_due = True

    def look_again(self, replica: Replica) -> None:
        """Settle a replica whose first process has ended, after this round."""
        self._to_settle.add(replica)

    def _below(self, *, adopted_only: bool = False) -> dict[Replica | None, list[int]]:
        """Return the processes of each replica, and under None those that nobody can be told to own.

        What is left of a replica after its first process has come to us, its nearest living ancestor: to
        look at the `adopted_only` costs nothing for the replicas that run.
        """
        marks = {each.mark: each for app in self._apps.values() for each in app.replicas}
        owners: dict[int, Replica | None] = {}
        found: dict[Replica | None, list[int]] = {}
        skip = self._by_pid if adopted_only else ()
        for pid, top in census.descendants(os.getpid(), skip=skip):
            if top not in owners:
                owners[top] = self._by_pid.get(top) or marks.get(census.mark_of(top))
            found.setdefault(owners[top], []).append(pid)
        return found

    def _after_round(self) -> None:
        if self._census_due:
            # One that had been adopted is gone: its replica may have waited for it.
            self._census_due = False
            self._to_settle.update(
                each for app in self._apps.values() for each in app.replicas if each.has_exited and not each.is_over
            )
        if self._to_settle:
            due, self._to_settle = self._to_settle, set()
            below = self._below(adopted_only=True)
            for replica in due:
                replica.settle(below.get(replica, ()))
        if self._changed:
            self._publish()
        if self._ending and not self._by_pid:
            self._leave_if_done()

    # What is told

    def app_changed(self, app: App) -> None:
        """Save the app's record and tell its watchers after this round, or a little later."""
        if app.started_ns is not None:
            self._changed[app.app_id] = app

    def _publish(self) -> None:
        now = time.monotonic()
        for app_id, app in tuple(self._changed.items()):
            # Many replicas that end together are one change, but the end of all is told at once.
            if app.is_over or now - self._told_at.get(app_id, 0.0) >= SAVE_EVERY:
                self._told_at[app_id] = now
                del self._changed[app_id]
                self._unsaved[app_id] = app
                self._save(app)
                self._tell(app)
                self._let_go(app)
        if self._changed and self._later is None:
            self._later = self.loop.call_later(SAVE_EVERY, self._later_is_now)

    def _later_is_now(self) -> None:
        self._later = None
        for app in tuple(self._unsaved.values()):
            self._save(app)
            self._let_go(app)

    def _save(self, app: App) -> None:
        if app.save():
            self._unsaved.pop(app.app_id, None)
        elif self._later is None:
            self._later = self.loop.call_later(DISK_RETRY, self._later_is_now)

    def _let_go(self, app: App) -> None:
        """Forget an app that is over once its record on the disk says all there is to say."""
        if app.is_over and app.app_id not in self._unsaved:
            self._discard(app)

    def _tell(self, app: App) -> None:
        for connection in tuple(self._connections):
            if app.app_id in connection.watched:
                connection.send({"event": "app", "app_id": app.app_id})
                if app.is_over:
                    connection.watched.discard(app.app_id)

    def _discard(self, app: App) -> None:
        for by_app in (self._apps, self._changed, self._unsaved, self._told_at):
            by_app.pop(app.app_id, None)
        for replica in app.replicas:
            self._to_settle.discard(replica)
            self._by_pid.pop(replica.pid, None)
        app.close()
        if self._detached and not self._apps:
            self._end_all("close")


def _noted(_number: int, _frame: object) -> None:
    """Take a signal that the wake-up pipe tells of."""
