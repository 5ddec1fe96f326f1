"""What an operating system may lack: asyncsched imports everywhere, and says what cannot be done where it runs.

Flags of `os.open` that a system does not know are 0 here.
"""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module

from asyncsched.errors import ConfigError

__all__ = [
    "BINARY",
    "CLOEXEC",
    "DIRECTORY",
    "NOCTTY",
    "NOFOLLOW",
    "NONBLOCK",
    "can_open_relative",
    "check_linux",
    "has_file_locks",
    "lock_file",
    "read_at",
    "user_id",
    "write_at",
]

BINARY: int = getattr(os, "O_BINARY", 0)
CLOEXEC: int = getattr(os, "O_CLOEXEC", 0)
DIRECTORY: int = getattr(os, "O_DIRECTORY", 0)
NOCTTY: int = getattr(os, "O_NOCTTY", 0)
NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
NONBLOCK: int = getattr(os, "O_NONBLOCK", 0)


def check_linux(backend: str) -> None:
    """Raise ConfigError where a backend cannot work because this is not Linux, or Python lacks modules of Linux."""
    try:
        for module in ("fcntl", "resource"):
            import_module(module)
    except ImportError as error:
        why = f"this Python on {sys.platform} has no module {error.name}"
    else:
        system: str = sys.platform  # type checkers take that of the machine that they run on for certain
        if system == "linux":
            return
        why = f"this is {system}, which has neither /proc nor inotify"
    raise ConfigError(
        f"{backend} needs Linux", why=why, fix="use a scheduler that runs apps elsewhere, such as local_docker"
    )


def has_file_locks() -> bool:
    """Tell whether `lock_file` works."""
    try:
        import_module("fcntl")
    except ImportError:
        return False
    return True


def lock_file(fd: int, *, shared: bool = False) -> None:
    """Lock an open file, without waiting; the lock goes with its process, however that ends.

    Raises:
        BlockingIOError: Somebody else holds it.
        OSError: There are no such locks here (ENOSYS).
    """
    try:
        import fcntl
    except ImportError:
        raise OSError(errno.ENOSYS, f"Python on {sys.platform} has no file locks") from None
    fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


def can_open_relative() -> bool:
    """Tell whether files can be opened relative to an open directory."""
    return os.open in os.supports_dir_fd


def user_id() -> int | None:
    """Return the number of the user that this process acts for; None where users have none."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def read_at(fd: int, size: int, offset: int) -> bytes:
    """Return at most `size` bytes of a file from `offset` on; one thread at a time."""
    if hasattr(os, "pread"):
        return os.pread(fd, size, offset)
    os.lseek(fd, offset, os.SEEK_SET)
    return os.read(fd, size)


def write_at(fd: int, data: bytes | memoryview, offset: int) -> int:
    """Write to a file from `offset` on, and return how many bytes were written; one thread at a time."""
    if hasattr(os, "pwrite"):
        return os.pwrite(fd, data, offset)
    os.lseek(fd, offset, os.SEEK_SET)
    return os.write(fd, data)
