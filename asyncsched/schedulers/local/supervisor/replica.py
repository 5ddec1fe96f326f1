"""One replica: its start, its exit, and the processes that it leaves behind."""

from __future__ import annotations

import os
import time

from . import TYPE_CHECKING
from .files import read_regular
from .log_writer import LogDirs
from .pipe_reader import PipeReader
from .process_tree import kill

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .app import App, AppOwner
    from .files import OpenedParents

SILENCE = 1.0
ERROR_LIMIT = 256 * 1024
DISK_PATIENCE = 10.0
"""Seconds that the output of an ending app may wait for space on the disk."""
KILL_EVERY = (0.01, 0.5)
"""Shortest and longest pause in seconds between checks whether a killed process is gone."""


class Replica:
    """A process, its process group, its descendants, and the log of their output.

    It ends with its first process: its output is read until its end or until a second of silence, then its remaining
    processes are ended, as in a container.
    """

    def __init__(self, owner: AppOwner, app: App, number: int, spec: dict[str, Any]) -> None:
        self._owner = owner
        self.app = app
        self.number = number
        self.spec = spec
        self.role: str = spec["role"]
        self.k: int = spec["k"]
        self.env: dict[str, str] = spec["env"]
        self.pid = 0
        self.tag = 0
        self.start: int | None = None
        self.exit_code: int | None = None
        self.signal: int | None = None
        self.problem = ""
        self.error: str | None = None
        self.started_ns: int | None = None
        self.finished_ns: int | None = None
        self.is_over = False
        self.stopped = False
        self.timed_out = False
        self._exited_at: float | None = None
        self._silent = False
        # An earlier app of the same key may have left one in a directory that the user named.
        self._error_of_another: tuple[int, ...] | None = None
        self._result_of_another: list[int] | None = None
        self._look_after = KILL_EVERY[0]
        self._log_dirs: LogDirs | None = None
        self._pipe_reader = PipeReader(
            owner.loop,
            merge_streams=app.merge_streams,
            limit=app.segment_bytes,
            on_rotated=lambda size: app.segment_ended(self, size),
            on_end=lambda: owner.look_again(self),
            on_change=self._pump_changed,
        )

    def open_log(self, app_at: int, parents: OpenedParents) -> list[int]:
        """Make the log's files and its pipes; return the write ends, stdout first."""
        self._log_dirs = LogDirs(app_at, self.spec["dir"], self.spec["logs"])
        return self._pipe_reader.open(self._log_dirs, parents)

    def begin(self) -> None:
        """Start reading its output."""
        self._error_of_another = self._find_error()
        if self._log_dirs is not None and self._log_dirs.is_named:
            self._result_of_another = self._log_dirs.find_result()
        self.started_ns = time.time_ns()
        self._pipe_reader.begin()

    def _pump_changed(self) -> None:
        self.app.changed()
        self._owner.look_again(self)

    @property
    def waits_for_disk(self) -> bool:
        """Whether its output waits for space on the disk."""
        return self._pipe_reader.waits_for_disk

    @property
    def has_exited(self) -> bool:
        """Whether the first process has ended."""
        return self._exited_at is not None

    def exited(self, status: int) -> None:
        """Record how the first process ended; it was reaped."""
        if os.WIFSIGNALED(status):
            self.signal = os.WTERMSIG(status)
        self.exit_code = os.waitstatus_to_exitcode(status)
        self._exited_at = time.monotonic()
        self.finished_ns = max(time.time_ns(), self.started_ns or 0)
        self.error = self._read_error()
        self._owner.loop.call_later(SILENCE, self._check_silence)
        self._owner.look_again(self)
        self.app.replica_exited(self)

    def _find_error(self) -> tuple[int, ...] | None:
        """Return inode, time and size of the error file, if it exists."""
        try:
            found = os.stat(self.spec["error_file"], follow_symlinks=False)
        except (OSError, ValueError):
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _read_error(self) -> str | None:
        if self._find_error() == self._error_of_another:
            return None
        try:
            data = read_regular(self.spec["error_file"], limit=ERROR_LIMIT)
        except (OSError, ValueError):
            return None
        return data.decode("utf-8", "replace")

    def _check_silence(self) -> None:
        if self.is_over or self._exited_at is None:
            return
        now = time.monotonic()
        quiet = now - max(self._pipe_reader.heard_at, self._exited_at)
        talks = quiet < SILENCE and now - self._exited_at < self.app.grace_period
        if self.waits_for_disk and self.app.is_ending and now - self._exited_at > DISK_PATIENCE:
            self._pipe_reader.give_up_waiting()
        if talks or self.waits_for_disk:
            self._owner.loop.call_later(max(SILENCE - quiet, SILENCE / 4), self._check_silence)
            return
        self._silent = True
        self._owner.look_again(self)

    def settle(self, left: Sequence[int]) -> None:
        """End the remaining processes, or finish the replica if none is left.

        Args:
            left: Its remaining processes.
        """
        if self.is_over or not self.has_exited:
            return
        if left and self.app.has_grace:
            self.app.ask(left)
        elif self._may_still_write():
            return
        elif left and kill(left):
            self._owner.loop.call_later(self._look_after, lambda: self._owner.look_again(self))
            self._look_after = min(2 * self._look_after, KILL_EVERY[1])
        elif self._pipe_reader.finish():
            self._pipe_reader.close()
            self.is_over = True
            self.app.replica_over()

    def _may_still_write(self) -> bool:
        return self.waits_for_disk or not (self._pipe_reader.has_ended or self._silent or self.app.is_ending)

    def begin_log_anew(self) -> None:
        """Continue the log in its new directory."""
        self._pipe_reader.begin_anew()

    def drop_oldest(self) -> None:
        """Remove the oldest segment of its log."""
        self._pipe_reader.drop_oldest()

    def remove_log(self) -> None:
        """Remove the log of a replica that has run no code."""
        if self._log_dirs is not None:
            self._log_dirs.unmake()

    def close(self) -> None:
        """Close the log and the pipes."""
        self._pipe_reader.close()

    def record(self) -> dict[str, Any]:
        """Return its part of the app's record."""
        return {
            "role": self.role,
            "k": self.k,
            "dir": self.spec["dir"],
            "logs": self.spec["logs"],
            "pid": self.pid,
            "start": self.start,
            "over": self.is_over,
            "stopped": self.stopped,
            "timed_out": self.timed_out,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "reason": self.problem or self._pipe_reader.lost,
            "started_ns": self.started_ns,
            "finished_ns": self.finished_ns,
            "error": self.error,
            "result_of_another": self._result_of_another,
        }
