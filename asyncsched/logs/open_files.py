"""Open and read growing files, with few descriptors.

These functions may be called on the loop: the files that are followed were just written and are in the page cache.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import OrderedDict
from typing import Protocol

from asyncsched import _platform

__all__ = ["OpenFiles", "list_names", "open_directory", "open_file", "read_at"]


class Files(Protocol):
    """An object that can close its files and open them again when needed."""

    def release(self) -> None:
        """Close every descriptor for now."""


STAYS_EVERY = 32
"""Of this many files that each take the place of another, one is kept as if it had been used again."""


class OpenFiles:
    """Limits open descriptors to files that are in use, so that a thousand quiet logs need none.

    While there is room, nothing is closed. If more files are used in turn than may be open, closing the one that was
    used longest ago would close each of them just before its next use. So a file that takes the place of another is
    the first to be closed, unless it is used again before the next one comes. One in `STAYS_EVERY` is kept, so that
    files that are no longer used do not keep their places for ever.

    Args:
        most: How many `Files` may hold descriptors at a time; by default a quarter of the process's limit.

    Attributes:
        most: The same.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = max(most, 1) if most is not None else _share_of_descriptors()
        self._files: OrderedDict[Files, None] = OrderedDict()  # those to be closed first come first
        self._last: Files | None = None
        self._replaced = 0

    def used(self, files: Files) -> None:
        """Record that `files` holds descriptors and has just used them."""
        if files is self._last:
            return
        self._last = files
        if files not in self._files and len(self._files) >= self.most:
            self._replace(files)
        else:
            self._files[files] = None
            self._files.move_to_end(files)

    def forget(self, files: Files) -> None:
        """Record that `files` holds no descriptors."""
        self._files.pop(files, None)
        if files is self._last:
            self._last = None

    def _replace(self, files: Files) -> None:
        while len(self._files) >= self.most:
            self._files.popitem(last=False)[0].release()
        self._files[files] = None
        self._replaced += 1
        self._files.move_to_end(files, last=self._replaced % STAYS_EVERY == 0)


def _share_of_descriptors() -> int:
    try:
        import resource
    except ImportError:  # as on Windows, where a process may open more than this
        return 512
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 512 if limit == resource.RLIM_INFINITY else min(max(limit // 12, 8), 512)


DIRECTORY = os.O_RDONLY | _platform.DIRECTORY | _platform.CLOEXEC


def open_directory(path: str, below: str = "") -> int:
    """Open a directory, or a directory below it, without following links."""
    fd = os.open(path, DIRECTORY)
    for part in below.split("/") if below else ():
        try:
            inner = os.open(part, DIRECTORY | _platform.NOFOLLOW, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd


def open_file(name: str, *, at: int) -> int:
    """Open a regular file for reading; raise OSError for a link, a pipe or a device."""
    fd = os.open(name, os.O_RDONLY | _platform.NOFOLLOW | _platform.NONBLOCK | _platform.CLOEXEC, dir_fd=at)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", name)
    return fd


def list_names(at: int) -> list[str]:
    """Return the names in an open directory."""
    return os.listdir(at)


def read_at(fd: int, size: int, offset: int) -> bytes:
    """Return at most `size` bytes of a file, from `offset` on."""
    return os.pread(fd, size, offset)
