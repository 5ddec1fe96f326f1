"""Open only files and directories of this user, relative to a directory's descriptor, never through links."""

from __future__ import annotations

import errno
import os
import stat

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
USED_UP = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Errors of exhausted resources, which say nothing about the file."""

NOT_EMPTY = frozenset({errno.ENOTEMPTY, errno.EEXIST})
"""Errors for a directory that is not empty; which one depends on the file system."""

PASSING = DISK_FULL | USED_UP
"""Temporary errors of writing."""


class ForeignDirectory(PermissionError):  # noqa: N818 - readers know it by this name
    """A directory of the state belongs to another user, or others may write to it."""


def open_directory(path: str, *, at: int | None = None, create: bool = False) -> int:
    """Open a directory of this user; with `create`, make it (0700) if it does not exist.

    Raises:
        ForeignDirectory: It belongs to another user, or others may write to it.
        OSError: It cannot be made or opened; links are not followed.
    """
    if create:
        try:
            os.mkdir(path, 0o700, dir_fd=at)
        except FileExistsError:
            pass
    # A directory that the user names may be reached through links; directories inside it may not.
    follow = 0 if at is None else os.O_NOFOLLOW
    fd = os.open(path, DIRECTORY | follow, dir_fd=at)
    try:
        _check_ours(fd, path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check_ours(fd: int, path: str) -> None:
    found = os.fstat(fd)
    if found.st_uid != os.geteuid():
        raise ForeignDirectory(errno.EPERM, f"belongs to user {found.st_uid}, not to you", path)
    if found.st_mode & 0o022:
        raise ForeignDirectory(errno.EPERM, "is writable by other users", path)


def open_path(parts: str, *, at: int, create: bool = False) -> int:
    """Open a directory several levels down, without following links.

    Raises:
        ValueError: A part would lead elsewhere (empty, ``.`` or ``..``).
        OSError: As for `open_directory`.
    """
    fd = os.dup(at)
    for part in parts.split("/"):
        if part in ("", ".", ".."):
            os.close(fd)
            raise ValueError(f"not a name inside the state directory: {parts!r}")
        try:
            below = open_directory(part, at=fd, create=create)
        finally:
            os.close(fd)
        fd = below
    return fd


class OpenedParents:
    """Parent directories, which stay open until `close`, for making many directories in them.

    Args:
        at: The directory that contains them.
    """

    def __init__(self, at: int) -> None:
        self._at = at
        self._opened: dict[str, int] = {}

    def make(self, path: str) -> int:
        """Make a directory several levels down, as `open_path` does, and open it."""
        above, _, name = path.rpartition("/")
        if name in ("", ".", "..") or not above:
            return open_path(path, at=self._at, create=True)
        if above not in self._opened:
            self._opened[above] = open_path(above, at=self._at, create=True)
        return open_directory(name, at=self._opened[above], create=True)

    def close(self) -> None:
        """Close them."""
        while self._opened:
            os.close(self._opened.popitem()[1])


def create_file(name: str, *, at: int) -> int:
    """Open a file for appending; make it (0600) if needed, and refuse a link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(name, flags, 0o600, dir_fd=at)


def write_atomic(name: str, data: bytes, *, at: int) -> None:
    """Replace a file's content so that a reader sees all of the old or all of the new.

    Raises:
        OSError: It could not be written; the old content remains.
    """
    draft = f".{name}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(draft, flags, 0o600, dir_fd=at)
    try:
        try:
            write_all(fd, data)
        finally:
            os.close(fd)
        os.rename(draft, name, src_dir_fd=at, dst_dir_fd=at)
    except OSError:
        remove_file(draft, at=at)
        raise


def remove_file(name: str, *, at: int) -> None:
    """Remove a file; do nothing if it does not exist."""
    try:
        os.unlink(name, dir_fd=at)
    except FileNotFoundError:
        pass


def missing_directories(path: str) -> list[str]:
    """Return the missing directories of a path that the user named, the topmost first."""
    missing: list[str] = []
    while not os.path.isdir(path):
        missing.insert(0, path)
        path = os.path.dirname(path) or "/"
    return missing


def write_all(fd: int, data: bytes) -> None:
    """Write everything, in as many calls as it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_regular(name: str, *, at: int | None = None, limit: int) -> bytes:
    """Read the first `limit` bytes of a regular file; refuse a link, a pipe or a device.

    Raises:
        OSError: It cannot be read, or is not a regular file.
    """
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", name)
        return read_opened(fd, limit)
    finally:
        os.close(fd)


def read_opened(fd: int, limit: int) -> bytes:
    """Read the first `limit` bytes of an open file."""
    parts: list[bytes] = []
    while limit > 0 and (part := os.read(fd, min(limit, 1 << 20))):
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def remove_tree(name: str, *, at: int) -> None:
    """Remove a directory with its content, without following links; missing entries are fine.

    Several processes may remove it at once, and each returns when everything is gone. Entries that another process
    creates meanwhile are not waited for.
    """
    try:
        fd = _open_unreadable(name, at)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        remove_file(name, at=at)
        return
    try:
        remove_opened(fd, name, at=at)
    finally:
        os.close(fd)


def _open_unreadable(name: str, at: int) -> int:
    """Open a directory for removal, even if a program made it unreadable."""
    try:
        return os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
    except PermissionError:
        found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        os.chmod(f"/proc/self/fd/{found}", 0o700)
        return os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
    finally:
        os.close(found)


def remove_opened(fd: int, name: str, *, at: int) -> None:
    """Remove the content of an open directory, then the directory, unless another one has its name by now.

    A directory that is not empty is never removed by name; at worst, an empty one that took the name is.
    """
    try:
        if os.fstat(fd).st_mode & 0o300 != 0o300:  # otherwise only root could remove its entries
            os.fchmod(fd, 0o700)
        for entry in os.listdir(fd):
            _remove_entry(entry, fd)
        # Another process may have removed it, and a new one may exist.
        if os.path.samestat(os.fstat(fd), os.stat(name, dir_fd=at, follow_symlinks=False)):
            os.rmdir(name, dir_fd=at)
    except OSError as error:
        if error.errno not in (errno.ENOENT, *NOT_EMPTY):
            raise


def _remove_entry(entry: str, fd: int) -> None:
    try:
        remove_file(entry, at=fd)
    except IsADirectoryError:
        remove_tree(entry, at=fd)
