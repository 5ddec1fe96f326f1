"""Read a growing file in a thread, including its replacement and truncation."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TypeAlias

from asyncsched import _platform
from asyncsched._typing import NamedTuple

__all__ = ["Cut", "FileReader", "Item", "PastEnd"]

_FLAGS = os.O_RDONLY | _platform.NOFOLLOW | _platform.NONBLOCK | _platform.CLOEXEC | _platform.BINARY

CHUNK = 64 << 10
CHUNKS = 4
"""Chunks to read in one thread call."""


class Cut(NamedTuple):
    """Marks the end of one file, before the chunks of the next."""

    why: str = ""  # what was lost between them, if anything


class PastEnd(NamedTuple):
    """Marks the end of what was written before the source was started."""


Item: TypeAlias = bytes | Cut | PastEnd


class FileReader:
    """Reads a file in a thread; `number` counts the files that have had this name.

    Args:
        path: The file's path; only a regular file is accepted, no link.
        tail_lines: How many of the last lines to begin with.
    """

    def __init__(self, path: str | Path, tail_lines: int | None) -> None:
        self._path = os.fspath(path)
        self._tail_lines = tail_lines
        self.fd = -1
        self.number = 0
        self._offset = 0
        self._past_end: int | None = 0  # where the past ends; None once that was reported

    def read(self) -> list[Item]:
        """Return the next chunks, at most `CHUNKS`; empty at the present end."""
        if self.fd < 0 and not self._open():
            return self._past_over()
        found = self._chunks()
        if found:
            return [*found, *self._past_over()]
        return self._past_over() or self._cut_short() or self._replaced()

    def close(self) -> None:
        """Close the file."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _open(self) -> bool:
        try:
            fd = os.open(self._path, _FLAGS)
        except (FileNotFoundError, NotADirectoryError):
            return False
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, "not a regular file", self._path)
        self.fd, self._offset = fd, 0
        self.number += 1
        if self._past_end == 0:
            self._past_end = found.st_size
            if self._tail_lines is not None:
                self._offset = _start_of_last(fd, found.st_size, self._tail_lines)
        return True

    def _chunks(self) -> list[Item]:
        most = CHUNK * CHUNKS
        if self._past_end is not None:
            most = min(most, max(self._past_end - self._offset, 0))
        try:
            data = _platform.read_at(self.fd, most, self._offset) if most else b""
        except OSError as error:
            if error.errno != errno.ESTALE:  # a file that was removed from a network file system
                raise
            data = b""
        self._offset += len(data)
        return [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)]

    def _past_over(self) -> list[Item]:
        """Return the `PastEnd`, once, when everything written before the start was read."""
        if self._past_end is None or (self.fd >= 0 and self._offset < self._past_end <= os.fstat(self.fd).st_size):
            return []
        self._past_end = None
        return [PastEnd()]

    def _cut_short(self) -> list[Item]:
        size = os.fstat(self.fd).st_size
        if size >= self._offset:
            return []
        why = f"its file was truncated from {self._offset} bytes to {size}"
        self._offset = 0
        return [Cut(why)]

    def _replaced(self) -> list[Item]:
        """Switch to a new file of this name once it is not empty and this one is read to its end."""
        try:
            there = os.lstat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return []
        own = os.fstat(self.fd)
        if not there.st_size or (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino):
            return []
        if rest := self._chunks():  # written before the new file
            return rest
        self.close()
        return [Cut()] if self._open() else []


def _start_of_last(fd: int, size: int, lines: int) -> int:
    """Return the offset of the last `lines` lines, not counting an unfinished one."""
    newlines, at = 0, size
    while at > 0:
        start = max(at - CHUNK, 0)
        block = _platform.read_at(fd, at - start, start)
        count = block.count(b"\n")
        if newlines + count > lines:
            return start + _nth_last(block, lines + 1 - newlines) + 1
        newlines += count
        at = start
    return 0


def _nth_last(block: bytes, number: int) -> int:
    at = len(block)
    for _ in range(number):
        at = block.rindex(b"\n", 0, at)
    return at
