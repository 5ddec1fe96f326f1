"""The files of a replica's log: segments, each with an index and output files."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from asyncsched._typing import NamedTuple
from asyncsched.logs.open_files import list_names, open_file, read_at
from asyncsched.schedulers.local.supervisor.formats import RECORD, index_name, log_name

if TYPE_CHECKING:
    from collections.abc import Generator

    from asyncsched.logs.inotify import FileWatch
    from asyncsched.logs.open_files import OpenFiles

__all__ = ["LogFiles", "OpenDirectory", "Position"]

OpenDirectory = Callable[[], int]
"""Opens a directory and returns a descriptor that the caller closes; FileNotFoundError if it does not exist.

It is called on the loop: see `asyncsched.logs.open_files.open_directory`.
"""

TIME = 8  # bytes of a record that hold its time


class Position(NamedTuple):
    """A place in an index: between two records of a segment."""

    segment: int
    offset: int


class LogFiles:
    """Reads one segment of a log at a time.

    Descriptors may be closed and opened again. Meanwhile a file or the whole log may be removed, and another log may
    have its name, if the app was submitted again. Then this reader finds nothing: everything that opens a file raises
    FileNotFoundError.

    Args:
        open_index: Opens the directory of the index.
        open_logs: Opens the directory of the output; None if that is the same.
        pool: Decides which files hold descriptors.
    """

    def __init__(self, open_index: OpenDirectory, open_logs: OpenDirectory | None, pool: OpenFiles) -> None:
        self._open_index = open_index
        self._open_logs = open_logs or open_index
        self._one_directory = open_logs is None
        self._pool = pool
        self._descriptors: dict[int, int] = {}  # by kind of output; 0 is the index
        self._last_kind = 0  # the stream that was read last, and is likely to be read next
        self._place: tuple[int, int] | None = None  # identifies the index's directory
        self._read = (-1, b"")  # the last segment that was read, and the time of its first record, by which it is
        self._is_gone = False  # another log has its place now
        self.segment = -1

    def segments(self) -> list[int]:
        """Return the numbers of the existing segments, in order; empty if the log has not begun."""
        try:
            with self._index_directory() as at:
                names = list_names(at)
        except FileNotFoundError:
            return []
        return sorted(segment for name in names if (segment := _segment(name)) is not None)

    def go_to(self, segment: int) -> None:
        """Switch to this segment."""
        if segment != self.segment:
            self.release()
            self.segment = segment

    def begin(self) -> None:
        """Read the log that exists now."""
        self.go_to(-1)
        self._place = None
        self._read = (-1, b"")
        self._is_gone = False

    def release(self) -> None:
        """Close every descriptor for now."""
        descriptors, self._descriptors = self._descriptors, {}
        for fd in descriptors.values():
            os.close(fd)
        self._pool.forget(self)

    def watch(self, watch: Callable[[int], FileWatch]) -> FileWatch:
        """Watch the index of this segment; raise FileNotFoundError if it does not exist."""
        return watch(self._descriptor(0))

    def watch_directory(self, watch: Callable[[int], FileWatch]) -> FileWatch:
        """Watch for new files beside the index; raise FileNotFoundError if the directory does not exist."""
        with self._index_directory() as at:
            return watch(at)

    def size(self) -> int:
        """Return the bytes of the whole records in this segment's index."""
        return _whole(os.fstat(self._descriptor(0)).st_size)

    def records(self, offset: int, count: int) -> bytes:
        """Return whole records of the index, at most `count`."""
        data = read_at(self._descriptor(0), count * RECORD.size, offset)
        if not offset and data:
            self._read = (self.segment, data[:TIME])
        return data[: _whole(len(data))]

    def output(self, kind: int, size: int, offset: int) -> bytes:
        """Return bytes of a stream's file in this segment."""
        self._last_kind = kind
        return read_at(self._descriptor(kind), size, offset)

    def last_byte(self, kind: int) -> bytes:
        """Return the last byte of a stream's file in this segment; empty if the file is empty."""
        size = os.fstat(self._descriptor(kind)).st_size
        return read_at(self._descriptor(kind), 1, size - 1) if size else b""

    def index_stands(self) -> bool:
        """Return whether the open index is still the file with its name."""
        try:
            with self._index_directory() as at:
                named = os.stat(index_name(self.segment), dir_fd=at, follow_symlinks=False)
                return os.path.samestat(named, os.fstat(self._descriptor(0)))
        except FileNotFoundError:
            return False

    def time(self, record: int) -> int | None:
        """Return the time of a record of this segment's index; None if it does not exist."""
        data = read_at(self._descriptor(0), TIME, record * RECORD.size)
        return int.from_bytes(data, "little") if len(data) == TIME else None

    def end(self) -> Position | None:
        """Return the place after the last record; None if the log does not exist."""
        segments = self.segments()
        if not segments:
            return None
        if segments[-1] == self.segment:
            return Position(self.segment, self.size())
        with self._index_directory() as at, _closing(open_file(index_name(segments[-1]), at=at)) as fd:
            return Position(segments[-1], _whole(os.fstat(fd).st_size))

    def find(self, ns: int) -> Position:
        """Return the place of the first record that is not older than `ns`.

        Times are in order within a segment; between segments they may go back with the clock. If all records are
        older, it is the place of the last one, which may end the log.
        """
        place = Position(0, 0)
        for segment in self.segments():
            self.go_to(segment)
            try:
                count = self.size() // RECORD.size
                last = self.time(count - 1) if count else None
            except FileNotFoundError:  # dropped in the meantime
                continue
            place = Position(segment, max(count - 1, 0) * RECORD.size)
            if last is None or last >= ns:
                record = bisect_left(range(count), ns, key=lambda number: self.time(number) or 0)
                return Position(segment, record * RECORD.size)
        return place

    def _descriptor(self, kind: int) -> int:
        if 0 not in self._descriptors:
            self._open_known_index()
        self._pool.used(self)
        if kind not in self._descriptors:
            self._open_output(kind)
        return self._descriptors[kind]

    def _open_known_index(self) -> None:
        """Open the index, and the output that was read last if it is beside it, while the directory is open."""
        with self._index_directory() as at:
            self._descriptors[0] = self._open_index_in(at)
            if self._last_kind and self._one_directory:
                with suppress(OSError):  # reading it tries again, and reports why it cannot be opened
                    self._descriptors[self._last_kind] = open_file(log_name(self._last_kind, self.segment), at=at)

    def _open_output(self, kind: int) -> None:
        """Open a stream's file, and check that it belongs to the open index."""
        with _closing(self._open_logs()) as at:
            fd = open_file(log_name(kind, self.segment), at=at)
        with _closing_on_error(fd):
            if not self.index_stands():
                raise FileNotFoundError(log_name(kind, self.segment))
        self._descriptors[kind] = fd

    def _open_index_in(self, at: int) -> int:
        """Open the index, and check that the directory is that of this log."""
        segment, first = self._read
        if segment != self.segment:
            self._check_first(self._first_of(segment, at) if first else b"")
        fd = open_file(index_name(self.segment), at=at)
        with _closing_on_error(fd):
            now = read_at(fd, TIME, 0)
            if segment == self.segment:
                self._check_first(now)
        if now:
            self._read = (self.segment, now)
        return fd

    def _first_of(self, segment: int, at: int) -> bytes:
        """Return the time of a segment's first record; empty if the segment was dropped."""
        try:
            with _closing(open_file(index_name(segment), at=at)) as fd:
                return read_at(fd, TIME, 0)
        except FileNotFoundError:
            return b""

    def _check_first(self, now: bytes) -> None:
        first = self._read[1]
        if first and now and now != first:
            self._is_gone = True
            raise FileNotFoundError("another log is there")

    @contextmanager
    def _index_directory(self) -> Generator[int]:
        with _closing(self._open_index()) as at:
            found = os.fstat(at)
            self._place = self._place or (found.st_dev, found.st_ino)
            # A new directory may get the inode number of a removed one; the index tells them apart.
            self._is_gone = self._is_gone or self._place != (found.st_dev, found.st_ino)
            if self._is_gone:
                raise FileNotFoundError("another log is there")
            yield at


def _segment(name: str) -> int | None:
    """Return the segment whose index has this name."""
    number = name.removeprefix("index").removeprefix(".") or "0"
    return int(number) if number.isdecimal() and index_name(int(number)) == name else None


def _whole(size: int) -> int:
    return size - size % RECORD.size


@contextmanager
def _closing(fd: int) -> Generator[int]:
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _closing_on_error(fd: int) -> Generator[None]:
    try:
        yield
    except OSError:
        os.close(fd)
        raise
