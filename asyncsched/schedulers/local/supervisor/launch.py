"""All replicas of an app start, or none does."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from .census import send_group
from .child import Setup, become
from .layout import MARK
from .machine import start_time

if TYPE_CHECKING:
    from .app import App
    from .events import Loop
    from .replica import Replica

FORKS_PER_ROUND = 8
"""Forking for 200 replicas takes a while: the output of the apps that run already is read in between."""


class LaunchError(Exception):
    """An app cannot start; the message says which replica is to blame and why. `done` may raise it too."""


class Launch:
    """Fork every replica up to its gate; open the gate when all have reported that they are good.

    Args:
        loop: The worker's loop.
        app: What is to start.
        done: Called once, with nothing before the gate opens, or with the reason why no replica has run.
        by_pid: Where the processes are entered as they are forked, so that their ends are seen.
        nofile: The limits that the replicas get back.
    """

    def __init__(
        self,
        loop: Loop,
        app: App,
        done: Callable[[LaunchError | None], None],
        *,
        by_pid: dict[int, Replica],
        null: int,
        nofile: tuple[int, int],
    ) -> None:
        self._loop = loop
        self._app = app
        self._done = done
        self._setup = Setup(null, nofile)
        self._buffer = b""
        self._ready = 0
        self._opened = False
        self._failed: LaunchError | None = None
        self._by_pid = by_pid
        self._forks = self._fork_all()

    def step(self) -> None:
        """Fork some, and come back for the others after a round of the loop."""
        try:
            for _ in range(FORKS_PER_ROUND):
                if next(self._forks, None) is None:
                    self._all_forked()
                    return
        except OSError as error:
            self._close_ends()
            os.close(self._setup.reports_read)
            self._fail(LaunchError(f"{error.filename}: {error.strerror}" if error.filename else str(error)))
            return
        self._loop.call_later(0, self.step)

    def _fork_all(self) -> Iterator[int]:
        base: dict[str, str] = self._app.spec["env"]
        for number, replica in enumerate(self._app.replicas):
            outputs = replica.open_log(self._app.at)
            env = {**base, **replica.spec["env"], MARK: replica.mark}
            pid = os.fork()
            if pid == 0:
                become(self._setup, number, replica.spec, env, outputs)
            for fd in outputs:
                os.close(fd)
            replica.pid = pid
            self._by_pid[pid] = replica
            yield pid

    def _all_forked(self) -> None:
        self._close_ends()
        self._loop.add(self._setup.reports_read, self._on_report)

    def _on_report(self, _mask: int) -> int:
        data = os.read(self._setup.reports_read, 65536)
        if not data:
            self._loop.remove(self._setup.reports_read)
            os.close(self._setup.reports_read)
            if not self._opened:
                self._fail(LaunchError("a replica ended before it was set up"))
            return 0
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._reported(line.decode("utf-8", "replace"))
        if self._ready == len(self._app.replicas) and not self._opened:
            self._open()
        return 0

    def _reported(self, line: str) -> None:
        number, _, problem = line.partition(" ")
        replica = self._app.replicas[int(number)]
        if not problem:
            self._ready += 1
        elif self._opened:
            # Found good and yet refused by the kernel: this one has failed, the others run.
            replica.reason = f"could not be executed: {problem}"
            self._app.changed()
        elif self._failed is None:
            self._fail(LaunchError(f"replica {replica.role}/{replica.k} cannot start: {problem}"))

    def _open(self) -> None:
        self._opened = True
        for replica in self._app.replicas:
            replica.start = start_time(replica.pid)
        try:
            self._done(None)
        except LaunchError as error:
            self._opened = False
            self._fail(error)
            return
        os.write(self._setup.gate_write, b"." * len(self._app.replicas))
        os.close(self._setup.gate_write)

    def _fail(self, why: LaunchError) -> None:
        if self._failed is not None:
            return
        self._failed = why
        self._opened = True
        # Behind the gate there is no code of the user: nobody needs time to end.
        for replica in self._app.replicas:
            if replica.pid:
                send_group(replica.pid, signal.SIGKILL)
        os.close(self._setup.gate_write)
        self._done(why)

    def _close_ends(self) -> None:
        os.close(self._setup.reports)
        os.close(self._setup.gate)
