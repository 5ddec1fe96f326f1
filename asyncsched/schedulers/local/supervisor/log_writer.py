"""Write a replica's log: its files, the order of writes, and its segments."""

from __future__ import annotations

import os
import time

from . import TYPE_CHECKING
from .bare import deque
from .files import (
    DIRECTORY,
    DISK_FULL,
    PASSING,
    OpenedParents,
    create_file,
    missing_directories,
    open_path,
    remove_file,
)
from .formats import COMBINED, END, LINE_START, RECORD, RESULT, ROTATED, STDERR, STDOUT, index_name, log_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LONGEST_LINE = 1 << 20
INDEX = 0
"""The key of the index among a segment's files; the others are keyed by the kind of their records."""


STEP_BACK = 1_000_000_000
"""Nanoseconds by which the clock may be set back without a new segment."""


class OpenDirs:
    """The directories of the index and of the streams, open until the block ends.

    Args:
        index_at: The descriptor of the index's directory.
        logs_at: The descriptor of the streams' directory, which may be the same.
    """

    def __init__(self, index_at: int, logs_at: int) -> None:
        self._at = index_at, logs_at

    def __enter__(self) -> tuple[int, int]:
        return self._at

    def __exit__(self, *_: object) -> None:
        for fd in {*self._at}:
            os.close(fd)


class LogDirs:
    """The directories of a replica's log: the index is in the app's directory, the streams there or in a named one.

    The directories are opened only when needed, because five hundred replicas would need too many descriptors.

    Args:
        app_at: The app's directory.
        inside: The replica's directory in it.
        named: A directory that the user named for the streams, or ``""``.
    """

    def __init__(self, app_at: int, inside: str, named: str) -> None:
        self._app_at = app_at
        self._inside = inside
        self._named = named
        self._made: list[str] = []

    @property
    def is_named(self) -> bool:
        """Whether the user named a directory for the streams."""
        return bool(self._named)

    def make(self, parents: OpenedParents | None = None) -> OpenDirs:
        """Make missing directories, and open them as `open` does.

        Args:
            parents: Makes the directory of the index; None for a single one.
        """
        if parents is not None:
            index_at = parents.make(self._inside)
        else:
            index_at = open_path(self._inside, at=self._app_at, create=True)
        return self._beside(index_at, make=True)

    def open(self) -> OpenDirs:
        """Open the directories of the index and of the streams."""
        return self._beside(open_path(self._inside, at=self._app_at), make=False)

    def _beside(self, index_at: int, *, make: bool) -> OpenDirs:
        try:
            if make:
                self._make_named()
            return OpenDirs(index_at, os.open(self._named, DIRECTORY) if self._named else index_at)
        except BaseException:
            os.close(index_at)
            raise

    def _make_named(self) -> None:
        for path in missing_directories(self._named) if self._named else ():
            try:
                os.mkdir(path)
            except FileExistsError:
                continue  # it exists, or a file is in its place, which opening will show
            self._made.append(path)

    def find_result(self) -> list[int] | None:
        """Return inode, time and size of the result file, if it exists."""
        try:
            with self.open() as (_, logs_at):
                found = os.stat(RESULT, dir_fd=logs_at, follow_symlinks=False)
        except OSError:
            return None
        return [found.st_ino, found.st_mtime_ns, found.st_size]

    def remove_segment(self, segment: int) -> None:
        """Remove the files of a segment; the index first, because readers use it to find the segment."""
        with self.open() as (index_at, logs_at):
            remove_file(index_name(segment), at=index_at)
            for kind in (STDOUT, STDERR, COMBINED):
                remove_file(log_name(kind, segment), at=logs_at)

    def unmake(self) -> None:
        """Remove an empty log, and the directories that `make` made for it outside the app's directory."""
        try:
            self.remove_segment(0)
            for path in reversed(self._made):
                os.rmdir(path)
        except (OSError, ValueError):
            pass  # they were never made, are in use by others, or were removed


class AppendFile:
    """A file for appending.

    Attributes:
        size: Its size once everything that waits is written.
    """

    __slots__ = ("_fd", "size")

    def __init__(self, name: str, *, at: int) -> None:
        self._fd = create_file(name, at=at)
        self.size = os.lseek(self._fd, 0, os.SEEK_END)

    def write(self, data: bytes) -> bytes:
        """Append, and return the bytes that did not fit on the disk."""
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
        return data

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


class LineMerger:
    """Merges two streams into one of whole lines, in the order in which they were read."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._open = {STDOUT: bytearray(), STDERR: bytearray()}

    def add(self, kind: int, data: bytes) -> bytes:
        """Return the lines that end in this chunk; the rest is kept until its newline comes, or it gets too long."""
        rest = self._open[kind]
        cut = data.rfind(b"\n") + 1
        if not cut and len(rest) + len(data) <= self._longest:
            rest += data
            return b""
        cut = cut or len(data)
        whole = bytes(rest) + data[:cut]
        rest[:] = data[cut:]
        return whole

    def end(self, kind: int) -> bytes:
        """Return the rest of a stream, even without a newline."""
        return bytes(self._open.pop(kind, b""))


class Segments:
    """A replica's log: the files of its streams, and the index with the time and place of each chunk.

    All writes are in one order, and on a full disk later writes wait, so a record is never in the index before its
    bytes are in their file.

    Args:
        log_dirs: The directories of the files.
        at: The open directories of the index and of the streams.
        kinds: The streams: stdout and stderr, or both combined.
        limit: How many bytes a segment may have.
        on_rotated: Called with the size of each segment that has ended.
        time_ns: The time source.
    """

    def __init__(
        self,
        log_dirs: LogDirs,
        at: tuple[int, int],
        *,
        kinds: Iterable[int],
        limit: int,
        on_rotated: Callable[[int], None] = lambda _: None,
        time_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._log_dirs = log_dirs
        self._kinds = tuple(kinds)
        self._limit = limit
        self._on_rotated = on_rotated
        self._time_ns = time_ns
        self._segment = 0
        self._oldest = 0
        self._waiting: deque[tuple[AppendFile, bytes]] = deque()
        self._at_line_start = dict.fromkeys(self._kinds, True)
        # With a log directory of the user, also write a combined file for reading.
        writes_third = log_dirs.is_named and COMBINED not in self._kinds
        self._merger = LineMerger(min(LONGEST_LINE, limit // 4)) if writes_third else None
        self._files = self._open_files(0, at)
        self._ended: dict[int, AppendFile] = {}
        self._size = 0
        self._newest = 0  # the newest time of this segment's records

    def _open_files(self, segment: int, at: tuple[int, int]) -> dict[int, AppendFile]:
        """Open the files of a segment."""
        index_at, logs_at = at
        files: dict[int, AppendFile] = {}
        kinds = (*self._kinds, COMBINED) if self._merger is not None else self._kinds
        try:
            for kind in kinds:
                files[kind] = AppendFile(log_name(kind, segment), at=logs_at)
            files[INDEX] = AppendFile(index_name(segment), at=index_at)
        except BaseException:
            _close_all(files)
            raise
        return files

    def add(self, kind: int, data: bytes) -> bool:
        """Write a chunk and its record; return whether everything is on the disk.

        If not, call `flush` until it is, before the next chunk.

        Raises:
            OSError: The files cannot be written, for another reason than a full disk.
        """
        if not self._has_room(len(data)) or self._clock_was_set_back():
            self._rotate()
        flags = LINE_START if self._at_line_start[kind] else 0
        record = RECORD.pack(self._now(), self._files[kind].size, len(data), kind, flags, 0)
        self._at_line_start[kind] = data.endswith(b"\n")
        self._put(kind, data)
        self._put(INDEX, record)
        if self._merger is not None:
            self._put(COMBINED, self._merger.add(kind, data))
        return not self._waiting

    def _put(self, kind: int, data: bytes) -> None:
        file = self._files[kind]
        file.size += len(data)
        self._size += len(data)
        left = data if self._waiting else file.write(data)
        if left:
            self._waiting.append((file, left))

    def flush(self) -> bool:
        """Retry writes that did not fit on the disk; return whether everything is written.

        Raises:
            OSError: As for `add`.
        """
        while self._waiting:
            file, data = self._waiting[0]
            left = file.write(data)
            if left:
                self._waiting[0] = (file, left)
                return False
            self._waiting.popleft()
        _close_all(self._ended)
        return True

    def _has_room(self, more: int) -> bool:
        copies = 1 if self._merger is None else 2
        # Each segment ends with a record too.
        return self._size + copies * more + 2 * RECORD.size <= self._limit or self._size == 0

    def _clock_was_set_back(self) -> bool:
        return self._size > 0 and self._time_ns() < self._newest - STEP_BACK

    def _now(self) -> int:
        """Return the time for a record; times are in order within a segment, so that readers can search."""
        self._newest = max(self._newest, self._time_ns())
        return self._newest

    def _rotate(self, opened: OpenDirs | None = None) -> None:
        """Continue in a new segment; without disk space or descriptors for one, the current one keeps growing."""
        try:
            with opened or self._log_dirs.open() as at:
                files = self._open_files(self._segment + 1, at)
        except OSError as error:
            if error.errno not in PASSING:
                raise
            return
        self._put(INDEX, RECORD.pack(self._now(), 0, 0, ROTATED, 0, 0))
        # If the disk is full, the old index stays open until its last record is written.
        self._ended, self._files = self._files, files
        if not self._waiting:
            _close_all(self._ended)
        self._segment += 1
        size, self._size = self._size, 0
        self._newest = 0
        self._on_rotated(size)

    def begin_anew(self) -> bool:
        """Continue in a new segment, making its directories first; return whether everything is on the disk."""
        self._rotate(self._log_dirs.make())
        return not self._waiting

    def drop_oldest(self) -> None:
        """Remove the oldest finished segment; readers report that it is gone."""
        self._log_dirs.remove_segment(self._oldest)
        self._oldest += 1

    def end_stream(self, kind: int) -> bool:
        """Record that a stream has ended; return whether everything is on the disk."""
        if self._merger is not None:
            self._put(COMBINED, self._merger.end(kind))
        return not self._waiting

    def finish(self) -> bool:
        """Write the log's last record; return whether it is on the disk."""
        self._put(INDEX, RECORD.pack(self._now(), 0, 0, END, 0, 0))
        return not self._waiting

    def close(self) -> None:
        """Close every file; unwritten bytes are lost."""
        self._waiting.clear()
        _close_all(self._ended)
        _close_all(self._files)


def _close_all(files: dict[int, AppendFile]) -> None:
    """Close the files and clear the mapping."""
    while files:
        files.popitem()[1].close()
