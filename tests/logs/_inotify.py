"""Inotify as it may be: there, missing, or used up by the user's other programs."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from typing_extensions import override

from asyncsched.logs.inotify import Inotify


class NoInstances(Inotify):
    @override
    def __init__(self) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


class NoWatches(Inotify):
    """As when the user's watches are used up by somebody else, but for `left`."""

    left = 0

    @override
    def add(self, fd: int, mask: int) -> int:
        if not self.left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.left -= 1
        return super().add(fd, mask)


class OneWatch(NoWatches):
    left = 1


MAKERS = {"inotify": Inotify, "never": None, "EMFILE": NoInstances, "ENOSPC": NoWatches, "ENOSPC later": OneWatch}


def open_files() -> list[str]:
    """Return what this process has open."""
    found: list[str] = []
    for fd in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            found.append(str(fd.readlink()))
    return found
