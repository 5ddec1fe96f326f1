"""A growing file as a thread reads it: its end, its replacement and its being cut short."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import NamedTuple, TypeAlias

from asyncsched import _platform

__all__ = ["Cut", "FileReader", "Item", "PastEnd"]

_FLAGS = os.O_RDONLY | _platform.NOFOLLOW | _platform.NONBLOCK | _platform.CLOEXEC | _platform.BINARY

CHUNK = 64 << 10
CHUNKS = 4
"""How many are read in one visit to a thread."""


class Cut(NamedTuple):
    """Stands between the chunks of two files: the first one is over."""

    why: str = ""  # what was lost in between, if anything


class PastEnd(NamedTuple):
    """Stands behind what was written before the source was started."""


Item: TypeAlias = bytes | Cut | PastEnd


class FileReader:
    """A file as a thread reads it; `number` counts the files that have stood under the name.

    Args:
        path: Where it is; a link or anything but a regular file is refused.
        tail_lines: How many of the last lines to begin with.
    """

    def __init__(self, path: str | Path, tail_lines: int | None) -> None:
        self._path = os.fspath(path)
        self._tail_lines = tail_lines
        self.fd = -1
        self.number = 0
        self._offset = 0
        self._past_end: int | None = 0  # where the past ends; None once that has been told

    def read(self) -> list[Item]:
        """Return what comes next, at most `CHUNKS` chunks; nothing if that is all for now."""
        if self.fd < 0 and not self._open():
            return self._past_over()
        found = self._chunks()
        if found:
            return [*found, *self._past_over()]
        return self._past_over() or self._cut_short() or self._replaced()

    def close(self) -> None:
        """Let go of it."""
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
            if error.errno != errno.ESTALE:  # of a file on a network that has been removed there
                raise
            data = b""
        self._offset += len(data)
        return [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)]

    def _past_over(self) -> list[Item]:
        """Tell once that what was written before the beginning has been read."""
        if self._past_end is None or (self.fd >= 0 and self._offset < self._past_end <= os.fstat(self.fd).st_size):
            return []
        self._past_end = None
        return [PastEnd()]

    def _cut_short(self) -> list[Item]:
        size = os.fstat(self.fd).st_size
        if size >= self._offset:
            return []
        why = f"its file was cut from {self._offset} bytes to {size}"
        self._offset = 0
        return [Cut(why)]

    def _replaced(self) -> list[Item]:
        """Go on with the file that stands under the name, once something is in it and nothing is left in this one."""
        try:
            there = os.lstat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return []
        own = os.fstat(self.fd)
        if not there.st_size or (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino):
            return []
        if rest := self._chunks():  # written before the other one was
            return rest
        self.close()
        return [Cut()] if self._open() else []


def _start_of_last(fd: int, size: int, lines: int) -> int:
    """Return where the last lines begin; an unfinished one comes on top of them."""
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
