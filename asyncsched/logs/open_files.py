"""Opening and reading files that grow, and holding few of them open.

What opens and reads here may be called in the loop. It waits for a disk no longer than anybody else: what is followed
was written a moment ago and lies in the page cache.
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
    """What opens its files again when it needs them."""

    def release(self) -> None:
        """Close every descriptor for now."""


class OpenFiles:
    """Lets those hold descriptors that have used them last: a thousand quiet logs need none.

    Args:
        most: How many may at a time; by default so many that their files take a quarter of what the process may open.

    Attributes:
        most: The same.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = max(most, 1) if most is not None else _share_of_descriptors()
        self._files: OrderedDict[Files, None] = OrderedDict()

    def used(self, files: Files) -> None:
        """Take note that `files` holds descriptors and has just used them."""
        self._files[files] = None
        self._files.move_to_end(files)
        while len(self._files) > self.most:
            self._files.popitem(last=False)[0].release()

    def forget(self, files: Files) -> None:
        """Take note that `files` holds none."""
        self._files.pop(files, None)


def _share_of_descriptors() -> int:
    try:
        import resource
    except ImportError:  # as on Windows, where a process may open more than this
        return 512
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 512 if limit == resource.RLIM_INFINITY else min(max(limit // 12, 8), 512)


DIRECTORY = os.O_RDONLY | _platform.DIRECTORY | _platform.CLOEXEC


def open_directory(path: str, below: str = "") -> int:
    """Open a directory, or one some levels below it that is not reached through a link."""
    fd = os.open(path, DIRECTORY)
    for part in below.split("/") if below else ():
        try:
            inner = os.open(part, DIRECTORY | _platform.NOFOLLOW, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd


def open_file(name: str, *, at: int) -> int:
    """Open a regular file for reading; a link, a pipe or a device in its place is refused with OSError."""
    fd = os.open(name, os.O_RDONLY | _platform.NOFOLLOW | _platform.NONBLOCK | _platform.CLOEXEC, dir_fd=at)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", name)
    return fd


def list_names(at: int) -> list[str]:
    """Return the names in an open directory."""
    return os.listdir(at)


def read_at(fd: int, size: int, offset: int) -> bytes:
    """Return what a file holds from `offset` on, at most `size` bytes."""
    return os.pread(fd, size, offset)
