"""What an operating system may lack: asyncsched imports everywhere, and reports what this system cannot do.

Flags of `os.open` that a system does not have are 0 here.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Collection, Mapping
from importlib import import_module
from typing import cast

from asyncsched.errors import ConfigError

__all__ = [
    "BINARY",
    "CLOEXEC",
    "DIRECTORY",
    "NOCTTY",
    "NOFOLLOW",
    "NONBLOCK",
    "WANTS",
    "can_open_relative",
    "check_linux",
    "has_file_locks",
    "lock_file",
    "others_may_write",
    "read_at",
    "user_id",
    "user_name",
    "want_behind",
    "write_at",
]

BINARY: int = getattr(os, "O_BINARY", 0)
CLOEXEC: int = getattr(os, "O_CLOEXEC", 0)
DIRECTORY: int = getattr(os, "O_DIRECTORY", 0)
NOCTTY: int = getattr(os, "O_NOCTTY", 0)
NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
NONBLOCK: int = getattr(os, "O_NONBLOCK", 0)

WANTS: Mapping[int, str] = {
    errno.EAGAIN: "let other processes end, or raise the limit of processes (ulimit -u)",
    errno.EDQUOT: "free some of your disk quota",
    errno.EMFILE: "let other apps end, or raise the limit of open files (ulimit -n)",
    errno.ENFILE: "let other programs end, or raise the machine's limit of open files (fs.file-max)",
    errno.ENOMEM: "let other programs end, or give the machine more memory",
    errno.ENOSPC: "free some disk space",
}
"""What to do where the machine or the user is short of something, for now; such errors say nothing about a file."""

_MOST_CAUSES = 20


def want_behind(error: BaseException | None) -> int | None:
    """Return the errno of what this machine was short of when a connection failed, as far as a client's error tells it.

    EAGAIN is none here: of a connection it says that the other side is busy.
    """
    for _ in range(_MOST_CAUSES):
        if error is None:
            return None
        number = error.errno if isinstance(error, OSError) else None
        if number is not None and number in WANTS and number != errno.EAGAIN:
            return number
        details = getattr(error, "kwargs", None)  # of botocore
        inner = cast("dict[str, object]", details).get("error") if isinstance(details, dict) else None
        causes = (inner, getattr(error, "os_error", None), error.__cause__, error.__context__)
        error = next((each for each in causes if isinstance(each, BaseException)), None)
    return None


def check_linux(backend: str) -> None:
    """Raise ConfigError if a backend cannot work because this is not Linux, or Python lacks Linux-only modules."""
    try:
        for module in ("fcntl", "resource"):
            import_module(module)
    except ImportError as error:
        why = f"this Python on {sys.platform} has no module {error.name}"
    else:
        system: str = sys.platform  # type checkers assume that it is the platform they run on
        if system == "linux":
            return
        why = f"this is {system}, which has neither /proc nor inotify"
    raise ConfigError(
        f"{backend} needs Linux", why=why, fix="use a scheduler that runs apps elsewhere, such as local_docker"
    )


def has_file_locks() -> bool:
    """Return whether `lock_file` works."""
    try:
        import_module("fcntl")
    except ImportError:
        return False
    return True


def lock_file(fd: int, *, shared: bool = False) -> None:
    """Lock an open file, without waiting; the lock ends with its process, however that ends.

    Raises:
        BlockingIOError: Another process holds it.
        OSError: This system has no such locks (ENOSYS).
    """
    try:
        import fcntl
    except ImportError:
        raise OSError(errno.ENOSYS, f"Python on {sys.platform} has no file locks") from None
    fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


def can_open_relative() -> bool:
    """Return whether files can be opened relative to an open directory."""
    return os.open in os.supports_dir_fd


def user_id() -> int | None:
    """Return the user id that this process acts for; None on systems without user ids."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def user_name(number: int) -> str:
    """Return a user's name and id, to be shown."""
    try:
        import pwd

        return f"{pwd.getpwuid(number).pw_name} (uid {number})"
    except (KeyError, ImportError):
        return f"uid {number}"


def others_may_write(found: os.stat_result, users: Collection[int]) -> bool:
    """Return whether a file's mode lets others than these users write to it; a group of these users alone does not."""
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _is_group_of(found.st_gid, users)


def _is_group_of(group: int, users: Collection[int]) -> bool:
    """Return whether nobody but these users is in a group, as if each user has one and files are made g+w."""
    try:
        import grp
        import pwd
    except ImportError:
        return False
    try:
        names, members = {pwd.getpwuid(user).pw_name for user in users}, grp.getgrgid(group).gr_mem
    except KeyError:  # as in a container that runs as any user: by custom, user and group have one number
        return group in users and group != 0
    return {*members} <= names and not any(each.pw_gid == group and each.pw_uid not in users for each in pwd.getpwall())


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
