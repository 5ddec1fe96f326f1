"""Open what is ours and nothing else: relative to a directory's descriptor, never through a link."""

from __future__ import annotations

import errno
import os
import stat

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
USED_UP = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Errors that say nothing about what is there."""

NOT_EMPTY = frozenset({errno.ENOTEMPTY, errno.EEXIST})
"""Errors of what takes an empty directory; which one it is depends on the file system."""

PASSING = DISK_FULL | USED_UP
"""Errors of writing that may be gone another time."""


class ForeignDirectory(PermissionError):  # noqa: N818 - a state of things that readers tell apart by this name
    """A directory of the state belongs to somebody else, or others may write to it."""


def open_directory(path: str, *, at: int | None = None, create: bool = False) -> int:
    """Open a directory of ours, making it (0700) when it is not there and `create` is given.

    Raises:
        ForeignDirectory: It belongs to another user, or others may write to it.
        OSError: It cannot be made or opened; a link in its place is not followed.
    """
    if create:
        try:
            os.mkdir(path, 0o700, dir_fd=at)
        except FileExistsError:
            pass
    # A directory that the user names may be reached through links; what lies inside of it may not.
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
        raise ForeignDirectory(errno.EPERM, f"belongs to user {found.st_uid}, not to us", path)
    if found.st_mode & 0o022:
        raise ForeignDirectory(errno.EPERM, "can be written by others", path)


def open_path(parts: str, *, at: int, create: bool = False) -> int:
    """Open a directory some levels down, none of them through a link.

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
    """The directories that others are made in, each of which stays open until `close`.

    Args:
        at: The directory that they are in.
    """

    def __init__(self, at: int) -> None:
        self._at = at
        self._opened: dict[str, int] = {}

    def make(self, path: str) -> int:
        """Make a directory some levels down, as `open_path` does, and open it."""
        above, _, name = path.rpartition("/")
        if name in ("", ".", "..") or not above:
            return open_path(path, at=self._at, create=True)
        if above not in self._opened:
            self._opened[above] = open_path(above, at=self._at, create=True)
        return open_directory(name, at=self._opened[above], create=True)

    def close(self) -> None:
        """Let go of them."""
        while self._opened:
            os.close(self._opened.popitem()[1])


def create_file(name: str, *, at: int) -> int:
    """Open a file for appending, making it (0600) if need be; a link in its place is refused."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(name, flags, 0o600, dir_fd=at)


def write_atomic(name: str, data: bytes, *, at: int) -> None:
    """Replace a file's content so that a reader sees all of the old or all of the new.

    Raises:
        OSError: It could not be written, and the old content stands.
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
    """Remove a file; one that is not there is fine."""
    try:
        os.unlink(name, dir_fd=at)
    except FileNotFoundError:
        pass


def missing_directories(path: str) -> list[str]:
    """Return what has to be made for a directory that the user has named to be there, the highest first."""
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
    """Read a regular file's first `limit` bytes; a link, a pipe or a device in its place is refused.

    Raises:
        OSError: It cannot be read, or is something else than a file.
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
    """Remove a directory and all that is in it, following no link; what is not there is fine, now or in between.

    Several may remove it at once, and each returns when all is gone; what somebody makes in it meanwhile is his.
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
    """Open a directory of ours that is to be removed, and that a program may have made unreadable."""
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
    """Remove what is in an open directory, and then the directory, unless another one has its name by now.

    One that is not empty is never removed by its name: at worst an empty one that has taken the name is.
    """
    try:
        if os.fstat(fd).st_mode & 0o300 != 0o300:  # nothing in it could be removed, unless we are root
            os.fchmod(fd, 0o700)
        for entry in os.listdir(fd):
            _remove_entry(entry, fd)
        # Another one may have been faster, and somebody may have made a new one since.
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
