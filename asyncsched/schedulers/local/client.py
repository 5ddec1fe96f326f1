"""Connect to supervisors: the one of this process, and those of other processes."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from asyncsched._tasks import made_in_thread, outlast
from asyncsched.clock import Clock
from asyncsched.errors import AsyncSchedError, PermissionDeniedError, SchedulerError, UnavailableError
from asyncsched.schedulers._common.program import Programs
from asyncsched.schedulers.local.client_connection import OnChange, SupervisorConnection, connect
from asyncsched.schedulers.local.client_processes import until_ended
from asyncsched.schedulers.local.client_start import PendingSupervisor, start_supervisor
from asyncsched.schedulers.local.errors import SupervisorGoneError, failed
from asyncsched.schedulers.local.state_dir import StateDir
from asyncsched.schedulers.local.status_record import BACKEND, SupervisorRecord
from asyncsched.schedulers.local.supervisor.identity_tags import end_marked

__all__ = ["Supervisors"]

_PEERCRED = struct.Struct("3i")


class Supervisors:
    """Connections to supervisors, each by the name of its socket.

    Args:
        home: The state directory.
        programs: Starts them.
        clock: Tells the time.
    """

    def __init__(self, home: StateDir, programs: Programs, clock: Clock) -> None:
        self._home = home
        self._programs = programs
        self._clock = clock
        self._own: SupervisorConnection | None = None
        self._begun: PendingSupervisor | None = None
        self._own_socket = ""
        self._own_worker = self._own_watcher = (0, 0)
        self._stopping = False
        self._sweeps: set[asyncio.Task[None]] = set()
        self._starting = asyncio.Lock()
        self._kept: dict[str, SupervisorConnection] = {}
        self._listeners: set[OnChange] = set()
        self._losses: set[Callable[[str], None]] = set()

    # Listeners

    def listen(self, on_change: OnChange, on_lost: Callable[[str], None]) -> Callable[[], None]:
        """Report each app that changes and each supervisor that ends; return a function that stops the reports."""
        self._listeners.add(on_change)
        self._losses.add(on_lost)

        def end() -> None:
            self._listeners.discard(on_change)
            self._losses.discard(on_lost)

        return end

    def _changed(self, app_id: str, message: bytes) -> None:
        for listener in tuple(self._listeners):
            listener(app_id, message)

    def _hung_up(self, name: str, connection: SupervisorConnection | None) -> None:
        """Handle the end of a connection to another process's supervisor; it matters only if it was kept."""
        if connection is not None and self._kept.get(name) is connection:
            del self._kept[name]
            self._lost(name)

    def _lost(self, name: str) -> None:
        for loss in tuple(self._losses):
            loss(name)

    # The supervisor of this process

    @property
    def own_socket(self) -> str:
        """The name of the socket of this process's supervisor; empty while there is none."""
        return self._own_socket if self._own is not None and self._own.is_open else ""

    def is_own(self, name: str) -> bool:
        """Return whether a socket is that of this process's supervisor, or of its last one."""
        return bool(name) and name == self._own_socket

    def use_started(self, pending: PendingSupervisor) -> None:
        """Use a supervisor that was started ahead."""
        self._begun = pending

    async def own(self) -> SupervisorConnection:
        """Return the connection to this process's supervisor; start one if none is running."""
        async with self._starting:
            if self._own is None or not self._own.is_open:
                self._own = await self._start(detached=False)
            return self._own

    @asynccontextmanager
    async def detached(self) -> AsyncGenerator[SupervisorConnection]:
        """Start a supervisor for one detached app; it keeps running after this block."""
        connection = await self._start(detached=True)
        try:
            yield connection
        finally:
            connection.close()

    async def _start(self, *, detached: bool) -> SupervisorConnection:
        begun = None
        if not detached:
            begun, self._begun = self._begun, None
        try:
            sock = await (
                begun.finish(self._programs)
                if begun is not None
                else start_supervisor(self._home, self._programs, detached=detached)
            )
        except AsyncSchedError:
            raise  # some are errors of the kernel, too
        except OSError as error:
            what = "the supervisor of local apps cannot be started"
            raise failed(what, error, otherwise=UnavailableError) from error
        name = ""

        def on_lost() -> None:
            self._lost(name)
            if not detached and name and not self._stopping:
                sweep = asyncio.ensure_future(self._sweep(self._own_worker, self._own_watcher))
                self._sweeps.add(sweep)
                sweep.add_done_callback(self._sweeps.discard)

        connection = await connect(sock, self._changed, on_lost)
        try:
            identity = (await connection.greet())["supervisor"]
        except SupervisorGoneError as error:
            raise UnavailableError(
                "the supervisor of local apps did not start",
                why="it ended at once",
                fix=f"look for crash.*.txt in {self._home.path}",
                backend=BACKEND,
            ) from error
        except BaseException:
            connection.close()
            raise
        name = str(identity["socket"])
        if not detached:
            self._own_socket = name
            self._own_worker = (int(identity["pid"]), int(identity["start"]))
            self._own_watcher = (int(identity["watcher_pid"]), int(identity["watcher_start"]))
        return connection

    async def _sweep(self, worker: tuple[int, int], watcher: tuple[int, int]) -> None:
        """End what the supervisor left behind, in case both of its processes were killed at once."""
        await until_ended(*watcher, self._clock)
        await until_ended(*worker, self._clock)
        await asyncio.to_thread(end_marked, *worker)

    async def stop(self) -> None:
        """End this process's supervisor and everything that runs under it, and wait until they are gone."""
        async with self._starting:
            if self._begun is not None:
                begun, self._begun = self._begun, None
                await asyncio.to_thread(begun.drop)
            own = self._own
            if own is None:
                return
            if own.is_open:
                try:
                    await own.call("stop")
                    self._stopping = True
                except SupervisorGoneError:
                    pass
            await own.lost()
            own.close()
            await until_ended(*self._own_watcher, self._clock)
            await asyncio.gather(*self._sweeps)

    # Supervisors of other processes

    @asynccontextmanager
    async def ask(self, supervisor: SupervisorRecord, *, keep: bool = False) -> AsyncGenerator[SupervisorConnection]:
        """Connect to an app's supervisor, for this block or, with `keep`, until it goes or `drop` is called.

        Raises:
            SupervisorGoneError: It is not running.
            UnavailableError: The machine is short of something.
            PermissionDeniedError: Its socket belongs to another user.
        """
        name = supervisor.socket
        if name == self.own_socket and self._own is not None:
            yield self._own
            return
        kept = self._kept.get(name)
        if kept is not None and kept.is_open:
            yield kept
            return
        connection = await self._connect(name)
        if keep:
            self._kept[name] = connection
        try:
            yield connection
        finally:
            if self._kept.get(name) is not connection:
                connection.close()

    async def _connect(self, name: str) -> SupervisorConnection:
        sock: socket.socket | None = None
        at = -1
        try:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.setblocking(False)
            at = await made_in_thread(self._home.open_sockets, os.close)
            # A socket's address has at most 107 bytes; this form is short for any state directory.
            await asyncio.get_running_loop().sock_connect(sock, f"/proc/self/fd/{at}/{Path(name).name}")
            _, user, _ = _PEERCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size))
            if user != os.geteuid():
                raise PermissionDeniedError(
                    "the supervisor of a local app belongs to another user",
                    why=f"the process at {name} belongs to user {user}",
                    backend=BACKEND,
                )
        except BaseException as error:
            if sock is not None:
                sock.close()
            if isinstance(error, OSError) and not isinstance(error, AsyncSchedError):  # UnavailableError is both
                raise _not_connected(error) from error
            raise
        finally:
            if at >= 0:
                os.close(at)
        connection: SupervisorConnection | None = None
        connection = await connect(sock, self._changed, lambda: self._hung_up(name, connection))
        try:
            await connection.greet()
        except BaseException:
            connection.close()
            raise
        return connection

    def kept(self) -> int:
        """Return how many connections to other supervisors are kept."""
        return len(self._kept)

    def drop(self, name: str) -> None:
        """Close a connection that was kept."""
        connection = self._kept.pop(name, None)
        if connection is not None:
            connection.close()

    async def close(self, timeout: float) -> None:
        """Close all connections; this process's supervisor ends, with everything that runs under it."""
        for name in tuple(self._kept):
            self.drop(name)
        stopping = asyncio.ensure_future(self.stop())
        try:
            await outlast([stopping], timeout)
        finally:
            if not stopping.done():
                stopping.cancel()
            if self._own is not None:
                self._own.close()


def _not_connected(error: OSError) -> SchedulerError:
    if isinstance(error, (ConnectionRefusedError, FileNotFoundError)):
        return SupervisorGoneError("the supervisor of a local app is gone", why=error.strerror or "", backend=BACKEND)
    return failed("the supervisor of a local app cannot be reached", error)
