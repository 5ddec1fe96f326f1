"""Files that wait while the disk is full, and the segments of a replica's log."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from .files import DISK_FULL, create_file
from .layout import COMBINED, END, LINE_START, RECORD, ROTATED, STDERR, STDOUT, index_name, log_name

LONGEST_LINE = 1 << 20


class Sink:
    """A file that is appended to; what the disk has no room for waits here, and nothing after it is written."""

    __slots__ = ("_fd", "_waiting", "size")

    def __init__(self, name: str, *, at: int) -> None:
        self._fd = create_file(name, at=at)
        self._waiting = b""
        self.size = 0

    def write(self, data: bytes) -> bool:
        """Append, and tell whether everything is in the file by now."""
        if self._waiting:
            self._waiting += data
        else:
            self._put(data)
        return not self._waiting

    def retry(self) -> bool:
        """Try again what waits, and tell whether nothing waits any more."""
        if self._waiting:
            waiting, self._waiting = self._waiting, b""
            self._put(waiting)
        return not self._waiting

    def _put(self, data: bytes) -> None:
        written = 0
        try:
            while written < len(data):
                written += os.write(self._fd, data[written:] if written else data)
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            self._waiting = data[written:]
        self.size += written

    def close(self) -> None:
        """Close the file; what waits is lost."""
        os.close(self._fd)


class CombinedFile:
    """One readable file of both streams: whole lines, in the order in which they were read."""

    def __init__(self, *, at: int) -> None:
        self._at = at
        self._open = {STDOUT: b"", STDERR: b""}
        self.sink = Sink(log_name(COMBINED, 0), at=at)

    def add(self, kind: int, data: bytes) -> None:
        """Write the lines that end in this chunk; keep the rest until its end comes, or it gets too long."""
        cut = data.rfind(b"\n") + 1
        if not cut and len(self._open[kind]) < LONGEST_LINE:
            self._open[kind] += data
            return
        cut = cut or len(data)
        self.sink.write(self._open[kind] + data[:cut])
        self._open[kind] = data[cut:]

    def end(self, kind: int) -> None:
        """Write what a stream has left, whether or not it ends with a newline."""
        if self._open.get(kind):
            self.sink.write(self._open[kind])
            self._open[kind] = b""

    def rotate(self, segment: int) -> None:
        """Go on in another file."""
        self.sink.close()
        self.sink = Sink(log_name(COMBINED, segment), at=self._at)


class Segments:
    """A replica's log: the files of its streams and the index that says when which chunk was read.

    Args:
        index_at: The directory of the index.
        logs_at: The directory of the streams' files.
        kinds: The streams: stdout and stderr, or both as one.
        combined: Whether to write a third, readable file of both.
    """

    def __init__(self, *, index_at: int, logs_at: int, kinds: Iterable[int], combined: bool) -> None:
        self._index_at = index_at
        self._logs_at = logs_at
        self._kinds = tuple(kinds)
        self.segment = 0
        self.first = 0
        self._open_files()
        self._at_line_start = dict.fromkeys(self._kinds, True)
        self._is_open = True
        self._owed: list[bytes] = []
        self._combined = CombinedFile(at=logs_at) if combined else None

    def _open_files(self) -> None:
        self._index = Sink(index_name(self.segment), at=self._index_at)
        self._streams = {kind: Sink(log_name(kind, self.segment), at=self._logs_at) for kind in self._kinds}

    @property
    def size(self) -> int:
        """Bytes in the present segment."""
        combined = self._combined.sink.size if self._combined is not None else 0
        return self._index.size + sum(sink.size for sink in self._streams.values()) + combined

    def add(self, kind: int, data: bytes) -> bool:
        """Write a chunk and its record; tell whether all of it is on the disk.

        When it is not, call `retry` before the next chunk.
        """
        sink = self._streams[kind]
        flags = LINE_START if self._at_line_start[kind] else 0
        record = RECORD.pack(time.time_ns(), sink.size, len(data), kind, flags, 0)
        self._at_line_start[kind] = data.endswith(b"\n")
        # The record comes after its chunk, so that a reader never looks for bytes that are not there.
        if sink.write(data):
            written = self._index.write(record)
        else:
            self._owed.append(record)
            written = False
        if self._combined is not None:
            self._combined.add(kind, data)
            written = self._combined.sink.retry() and written
        return written

    def retry(self) -> bool:
        """Try again what the disk had no room for, and tell whether nothing waits any more."""
        streams = [sink.retry() for sink in self._streams.values()]
        combined = self._combined is None or self._combined.sink.retry()
        if not all(streams):
            return False
        while self._owed and self._index.retry():
            self._index.write(self._owed.pop(0))
        return self._index.retry() and combined

    def rotate(self) -> int:
        """Go on in a new segment, and return the size of the one that has ended."""
        size = self.size
        self._index.write(RECORD.pack(time.time_ns(), 0, 0, ROTATED, 0, 0))
        self._close_files()
        self.segment += 1
        self._open_files()
        if self._combined is not None:
            self._combined.rotate(self.segment)
        return size

    def drop_oldest(self) -> None:
        """Remove the oldest segment that has ended; readers find it gone and say so."""
        for kind in (*self._kinds, COMBINED):
            _remove(log_name(kind, self.first), self._logs_at)
        _remove(index_name(self.first), self._index_at)
        self.first += 1

    def end_stream(self, kind: int) -> None:
        """Note that a stream has ended."""
        if self._combined is not None:
            self._combined.end(kind)

    def finish(self) -> bool:
        """Write the log's last record, and tell whether it is on the disk."""
        return self._index.write(RECORD.pack(time.time_ns(), 0, 0, END, 0, 0))

    def close(self) -> None:
        """Close every file; the directories stay open for `drop_oldest` until `release`."""
        if self._is_open:
            self._is_open = False
            self._close_files()
            if self._combined is not None:
                self._combined.sink.close()

    def release(self) -> None:
        """Let go of everything."""
        self.close()
        os.close(self._index_at)
        os.close(self._logs_at)

    def _close_files(self) -> None:
        for sink in (self._index, *self._streams.values()):
            sink.close()


def _remove(name: str, at: int) -> None:
    try:
        os.unlink(name, dir_fd=at)
    except FileNotFoundError:
        pass
