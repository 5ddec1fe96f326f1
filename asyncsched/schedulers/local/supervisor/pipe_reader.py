"""Copy a replica's pipes to its log; on a full disk only this replica's writer waits."""

from __future__ import annotations

import os
import time

from . import TYPE_CHECKING
from .formats import COMBINED, STDERR, STDOUT
from .log_writer import LogDirs, Segments

if TYPE_CHECKING:
    from collections.abc import Callable

    from .events import Loop
    from .files import OpenedParents

CHUNK = 64 * 1024
DISK_RETRY = 0.25
LAST_READS = 64
"""Reads at the end, more than a full pipe, so that an endless foreign writer does not keep a replica from ending."""


class PipeReader:
    """Reads the pipes of one replica and writes its log.

    Args:
        loop: The worker's loop.
        merge_streams: Whether both streams share one pipe.
        limit: How many bytes a segment of the log may have.
        on_rotated: Called with the size of each segment that has ended.
        on_end: Called when a pipe has ended.
        on_change: Called when `waits_for_disk` or `lost` changes.

    Attributes:
        waits_for_disk: Whether output waits for space on the disk.
        lost: Why output could not be kept, or ``""``; it is still read, so that its writer continues.
        heard_at: When the last output came.
    """

    def __init__(
        self,
        loop: Loop,
        *,
        merge_streams: bool,
        limit: int,
        on_rotated: Callable[[int], None],
        on_end: Callable[[], None],
        on_change: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._kinds = (COMBINED,) if merge_streams else (STDOUT, STDERR)
        self._limit = limit
        self._on_rotated = on_rotated
        self._on_end = on_end
        self._on_change = on_change
        self._chunk = min(CHUNK, limit // 4)
        self._pipes: dict[int, int] = {}
        self._log: Segments | None = None
        self._finished = False
        self.waits_for_disk = False
        self.lost = ""
        self.heard_at = 0.0

    def open(self, log_dirs: LogDirs, parents: OpenedParents) -> list[int]:
        """Make the log and the pipes; return the write ends, stdout first."""
        with log_dirs.make(parents) as at:
            self._log = Segments(log_dirs, at, kinds=self._kinds, limit=self._limit, on_rotated=self._on_rotated)
        theirs: list[int] = []
        try:
            for kind in self._kinds:
                ours, end = os.pipe2(os.O_CLOEXEC)
                os.set_blocking(ours, False)
                self._pipes[ours] = kind
                theirs.append(end)
        except BaseException:
            for end in theirs:
                os.close(end)
            raise
        return theirs

    def begin(self) -> None:
        """Start reading."""
        for fd in self._pipes:
            self._loop.add(fd, self._reader(fd))

    @property
    def has_ended(self) -> bool:
        """Whether all pipes are closed."""
        return not self._pipes

    def _reader(self, fd: int) -> Callable[[int], int]:
        return lambda _mask: self._read(fd)

    def _read(self, fd: int) -> int:
        try:
            data = os.read(fd, self._chunk)
        except BlockingIOError:
            return 0
        if not data:
            self._end_pipe(fd)
            return 0
        self.heard_at = time.monotonic()
        kind = self._pipes[fd]
        self._write(lambda log: log.add(kind, data))
        return len(data)

    def _write(self, step: Callable[[Segments], bool]) -> None:
        if not self._done(step):
            self._wait_for_disk()

    def _done(self, step: Callable[[Segments], bool]) -> bool:
        """Run a step on the log; return whether nothing waits for the disk."""
        assert self._log is not None
        if self.lost:
            return True
        try:
            return step(self._log)
        except OSError as error:
            # Not a full disk: the process continues, because it is worth more than its output.
            self._lose(f"its output could not be kept: {error.strerror}")
            return True

    def _lose(self, why: str) -> None:
        assert self._log is not None
        self._log.close()
        self.lost = why
        self._on_change()

    def _end_pipe(self, fd: int) -> None:
        kind = self._pipes.pop(fd)
        self._loop.remove(fd)
        os.close(fd)
        self._write(lambda log: log.end_stream(kind))
        self._on_end()

    def _wait_for_disk(self) -> None:
        if self.waits_for_disk:
            return
        # The writer blocks on its full pipe, as it would on a full disk; nothing is lost.
        self.waits_for_disk = True
        self._on_change()
        for fd in self._pipes:
            self._loop.remove(fd)
        self._loop.call_later(DISK_RETRY, self._try_disk)

    def _try_disk(self) -> None:
        if not self.waits_for_disk:
            return
        if not self._done(Segments.flush):
            self._loop.call_later(DISK_RETRY, self._try_disk)
            return
        self.waits_for_disk = False
        self.heard_at = time.monotonic()
        self._on_change()
        self.begin()

    def give_up_waiting(self) -> None:
        """Drop what does not fit on the disk."""
        if self.waits_for_disk:
            self.waits_for_disk = False
            self._lose("the end of its output could not be kept: no space left on the disk")

    def finish(self) -> bool:
        """Read what is in the pipes and end the log; return whether everything is on the disk.

        No process of the replica is left to write more. If not everything is written, `on_change` is called for a
        retry.
        """
        for fd in tuple(self._pipes):
            self._drain(fd)
            if not self.waits_for_disk and fd in self._pipes:
                self._end_pipe(fd)
        if not self.waits_for_disk:
            self._end_log()
        return not self.waits_for_disk

    def _drain(self, fd: int) -> None:
        for _ in range(LAST_READS):
            if self.waits_for_disk or fd not in self._pipes or not self._read(fd):
                return

    def _end_log(self) -> None:
        if not self._finished:
            self._finished = True
            self._write(Segments.finish)

    def begin_anew(self) -> None:
        """Continue the log in new directories, because the old ones were removed."""
        if not self._finished:
            self._write(Segments.begin_anew)

    def drop_oldest(self) -> None:
        """Remove the oldest segment of the log."""
        assert self._log is not None
        try:
            self._log.drop_oldest()
        except OSError:
            pass  # its directory was removed, with the segment

    def close(self) -> None:
        """Close the pipes and the log's files."""
        for fd in self._pipes:
            self._loop.remove(fd)
            os.close(fd)
        self._pipes.clear()
        if self._log is not None:
            self._log.close()
