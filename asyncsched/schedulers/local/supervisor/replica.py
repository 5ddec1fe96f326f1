"""One replica: its pipes, its exit, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .census import send
from .files import open_path, read_regular
from .layout import COMBINED, STDERR, STDOUT
from .output import Segments

if TYPE_CHECKING:
    from .app import App
    from .events import Loop

CHUNK = 64 * 1024
DISK_RETRY = 0.25
SILENCE = 1.0
ERROR_LIMIT = 256 * 1024
LAST_READS = 64
"""More than a full pipe: somebody outside who writes for ever does not keep a replica from being over."""


class Owner(Protocol):
    """What a replica asks of the worker."""

    loop: Loop

    def look_again(self, replica: Replica) -> None:
        """Call `settle` after this round, with the processes that are left of the replica."""


class Replica:
    """A process, its process group, its descendants, and the log of what they write.

    It is over when its first process is: its output is read until its end or until a second of silence,
    then what is left of it is ended, as a container's would be.
    """

    def __init__(self, owner: Owner, app: App, number: int, spec: dict[str, Any]) -> None:
        self._owner = owner
        self.app = app
        self.spec = spec
        self.role: str = spec["role"]
        self.k: int = spec["k"]
        self.mark = f"{os.getpid()}/{app.serial}/{number}"
        self.pid = 0
        self.start: int | None = None
        self.exit_code: int | None = None
        self.signal: int | None = None
        self.reason = ""
        self.error: str | None = None
        self.started_ns: int | None = None
        self.finished_ns: int | None = None
        self.is_over = False
        self.stopped = False
        self.waits_for_disk = False
        self._kinds = (COMBINED,) if app.merge_streams else (STDOUT, STDERR)
        self._pipes: dict[int, int] = {}
        self._exited_at: float | None = None
        self._heard_at = 0.0
        self._silent = False
        self._log_ended = False
        self.log: Segments | None = None

    def open_log(self, app_at: int) -> list[int]:
        """Make the log's files and its pipes; return the ends that the process writes to, stdout first."""
        index_at = open_path(self.spec["dir"], at=app_at, create=True)
        logs = self.spec["logs"]
        if logs:
            os.makedirs(logs, exist_ok=True)
            logs_at = os.open(logs, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        else:
            logs_at = os.dup(index_at)
        combined = bool(logs) and not self.app.merge_streams
        self.log = Segments(index_at=index_at, logs_at=logs_at, kinds=self._kinds, combined=combined)
        return [self._open_pipe(kind) for kind in self._kinds]

    def _open_pipe(self, kind: int) -> int:
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(ours, False)
        self._pipes[ours] = kind
        return theirs

    def begin(self) -> None:
        """Read its output from now on."""
        self.started_ns = time.time_ns()
        for fd in self._pipes:
            self._owner.loop.add(fd, self._reader(fd))

    def _reader(self, fd: int) -> Callable[[int], int]:
        return lambda _mask: self._read(fd)

    def _read(self, fd: int) -> int:
        log = self.log
        assert log is not None
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return 0
        if not data:
            self._close_pipe(fd)
            return 0
        self._heard_at = time.monotonic()
        if not log.add(self._pipes[fd], data):
            self._wait_for_disk()
        elif log.size > self.app.segment_bytes:
            self.app.segment_ended(self, log.rotate())
        return len(data)

    def _close_pipe(self, fd: int) -> None:
        assert self.log is not None
        self._owner.loop.remove(fd)
        self.log.end_stream(self._pipes.pop(fd))
        os.close(fd)
        if not self._pipes and self._exited_at is not None:
            self._owner.look_again(self)

    def _wait_for_disk(self) -> None:
        if not self.waits_for_disk:
            # The writer waits in its full pipe, as it would on a full disk of its own; nothing is lost.
            self.waits_for_disk = True
            self.app.changed()
            for fd in self._pipes:
                self._owner.loop.remove(fd)
        self._owner.loop.call_later(DISK_RETRY, self._try_disk)

    def _try_disk(self) -> None:
        assert self.log is not None
        if not self.log.retry():
            self._owner.loop.call_later(DISK_RETRY, self._try_disk)
            return
        self.waits_for_disk = False
        self._heard_at = time.monotonic()
        self.app.changed()
        for fd in self._pipes:
            self._owner.loop.add(fd, self._reader(fd))
        self._owner.look_again(self)

    def exited(self, status: int) -> None:
        """Take note of how the first process ended; it has been reaped."""
        if os.WIFSIGNALED(status):
            self.signal = os.WTERMSIG(status)
        self.exit_code = os.waitstatus_to_exitcode(status)
        self._exited_at = self._heard_at = time.monotonic()
        self.finished_ns = max(time.time_ns(), self.started_ns or 0)
        self.error = self._read_error()
        self._owner.loop.call_later(SILENCE, self._check_silence)
        self._owner.look_again(self)

    @property
    def has_exited(self) -> bool:
        """Whether the first process has ended."""
        return self._exited_at is not None

    def _read_error(self) -> str | None:
        try:
            data = read_regular(self.spec["error_file"], limit=ERROR_LIMIT)
        except (OSError, ValueError):
            return None
        return data.decode("utf-8", "replace")

    def _check_silence(self) -> None:
        if self.is_over or self._exited_at is None:
            return
        now = time.monotonic()
        quiet = now - self._heard_at
        if self.waits_for_disk or (quiet < SILENCE and now - self._exited_at < self.app.grace_period):
            self._owner.loop.call_later(max(0.05, SILENCE - quiet), self._check_silence)
            return
        self._silent = True
        self._owner.look_again(self)

    def settle(self, left: Sequence[int]) -> None:
        """End what is left after the first process, or find that nothing is, and be over."""
        if self.is_over or self._exited_at is None or self.waits_for_disk:
            return
        if left and self.app.has_grace():
            return
        if self._pipes and not self._silent and not self.app.is_ending:
            return
        if left:
            for pid in left:
                send(pid, signal.SIGKILL)
            self._owner.loop.call_later(0.01, lambda: self._owner.look_again(self))
            return
        self._drain()
        self._become_over()

    def _drain(self) -> None:
        """Read what lies in the pipes by now: nobody of ours is left to write more."""
        for fd in tuple(self._pipes):
            for _ in range(LAST_READS):
                if fd not in self._pipes or self.waits_for_disk or not self._read(fd):
                    break

    def _become_over(self) -> None:
        assert self.log is not None
        if self.waits_for_disk:
            return
        for fd in tuple(self._pipes):
            self._close_pipe(fd)
        if not self._log_ended:
            self._log_ended = True
            if not self.log.finish():
                self._wait_for_disk()
                return
        self.close()
        self.is_over = True
        self.app.replica_over(self)

    def close(self) -> None:
        """Let go of the log and the pipes."""
        for fd in tuple(self._pipes):
            self._owner.loop.remove(fd)
            del self._pipes[fd]
            os.close(fd)
        if self.log is not None:
            self.log.close()

    def drop_oldest(self) -> None:
        """Remove the oldest segment of its log."""
        if self.log is not None:
            self.log.drop_oldest()

    def record(self) -> dict[str, Any]:
        """Return what is told of it."""
        return {
            "role": self.role,
            "k": self.k,
            "dir": self.spec["dir"],
            "logs": self.spec["logs"],
            "pid": self.pid,
            "start": self.start,
            "over": self.is_over,
            "stopped": self.stopped,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "reason": self.reason,
            "started_ns": self.started_ns,
            "finished_ns": self.finished_ns,
            "error": self.error,
        }
