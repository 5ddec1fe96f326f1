"""Read a tree of files on this machine. It blocks: use a thread.

Every directory and file is opened relative to its parent directory and never through a link: whatever changes
meanwhile, nothing from outside the workspace is read. Anything but files, directories and links (named pipes, sockets,
devices) is not opened, so that reading never hangs.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Protocol

from asyncsched import _platform
from asyncsched.errors import WorkspaceError
from asyncsched.workspace.entry import Entry

if TYPE_CHECKING:
    from asyncsched.workspace.ignore import Ignore, IgnoreVerdict

__all__ = ["CHUNK", "LocalTree", "changed_error", "checked_rules", "failed", "taken"]

CHUNK = 256 << 10
"""Bytes per read: a packed archive has a few such pieces in memory; smaller ones are slower."""

LARGEST_RULES = 1 << 20
"""The largest size of an ignore file or a Dockerfile, in bytes."""

_DIRECTORY = os.O_RDONLY | _platform.DIRECTORY | _platform.NOFOLLOW | _platform.CLOEXEC
_FILE = os.O_RDONLY | _platform.NOFOLLOW | _platform.NONBLOCK | _platform.CLOEXEC

_OTHERS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

_IS_ELSEWHERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO})
"""Errors of opening something that has been removed or replaced since it was listed."""


if TYPE_CHECKING:

    class Tree(Protocol):
        """A tree to read files from."""

        @property
        def name(self) -> str:
            """Its name in messages."""
            ...

        def scan(self, directory: str, note: Callable[[str], None]) -> Sequence[Entry]:
            """Return the content of a directory (the empty string for the root), and note what is skipped."""
            ...

        def open(self, entry: Entry) -> IO[bytes]:
            """Open a file for reading."""
            ...

        def read_rules(self, name: str, *, from_inside: bool = False) -> bytes | None:
            """Return the content of a small file in the root; None if there is none.

            Args:
                name: The file's name.
                from_inside: Raise WorkspaceError if it is a link that leads out of the tree.
            """
            ...

        def close(self) -> None:
            """Release what the tree holds open."""
            ...


def taken(tree: Tree, ignore: Ignore, note: Callable[[str], None]) -> Iterator[Entry]:
    """Yield a tree's entries that are not ignored, sorted by name, each directory before its content.

    An ignored directory is yielded too if it holds something that is not ignored.
    """
    stack: list[tuple[Iterator[Entry], IgnoreVerdict | None]] = [(_by_name(tree, "", note), None)]
    held: dict[str, Entry] = {}  # ignored directories, by path, until something in them is not ignored
    while stack:
        entries, verdict = stack[-1]
        entry = next(entries, None)
        if entry is None:
            stack.pop()
            continue
        said = ignore.judge(entry.path, verdict)
        if not said.is_left_out:
            yield from _parents(entry.path, held)
            yield entry
        elif entry.kind != "directory" or not ignore.may_take_back_below(entry.path):
            continue
        else:
            held[entry.path] = entry
        if entry.kind == "directory":
            stack.append((_by_name(tree, entry.path, note), said))


def _by_name(tree: Tree, directory: str, note: Callable[[str], None]) -> Iterator[Entry]:
    return iter(sorted(tree.scan(directory, note), key=lambda entry: entry.path))


def _parents(path: str, held: dict[str, Entry]) -> Iterator[Entry]:
    """Yield the directories above a path that have been held back, the topmost first."""
    at = path.find("/") if held else -1
    while at >= 0:
        if (entry := held.pop(path[:at], None)) is not None:
            yield entry
        at = path.find("/", at + 1)


class LocalTree:
    """A directory of this machine, held open.

    Args:
        path: The directory; links in its path are followed.
        leave_out: Directories to skip wherever they are found, such as the one that a copy is written to.

    Raises:
        WorkspaceError: The path does not exist, is not a directory, or cannot be read.
    """

    def __init__(self, path: str, leave_out: Sequence[str] = ()) -> None:
        self.name = path
        if not _platform.can_open_relative():
            raise WorkspaceError(
                f"cannot read the workspace {path} on {sys.platform}",
                why="Python cannot open files relative to a directory here, so files from outside could get in",
                fix="submit from Linux or macOS, or use an image that holds the files, without a workspace",
            )
        try:
            self._root = os.open(path, _DIRECTORY & ~_platform.NOFOLLOW)
        except OSError as error:
            raise _unreadable_root(path, error) from error
        self._leave_out = {found for each in leave_out if (found := _identity(each)) is not None}
        self._parent = ("", -1)  # the last opened directory: files are read in the order of their paths

    def scan(self, directory: str, note: Callable[[str], None]) -> Sequence[Entry]:
        """Return the content of a directory, and note what is skipped."""
        with self._opened(directory, "list") as at:
            with os.scandir(at) as found:
                entries = [self._entry(f"{directory}/{each.name}".lstrip("/"), each, at, note) for each in found]
        return [entry for entry in entries if entry is not None]

    def _entry(self, path: str, found: os.DirEntry[str], at: int, note: Callable[[str], None]) -> Entry | None:
        try:
            status = found.stat(follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                target = os.readlink(found.name, dir_fd=at)
                return Entry(path, "link", 0o777, 0, target)
        except OSError as error:
            if error.errno not in (*_IS_ELSEWHERE, errno.EINVAL):
                raise self._unreadable(path, "read", error) from error
            note(f"{path}: it disappeared while the workspace was read")
            return None
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISDIR(status.st_mode):
            if (status.st_dev, status.st_ino) in self._leave_out:
                note(f"{path}: copies of workspaces are kept there")
                return None
            return Entry(path, "directory", mode)
        if stat.S_ISREG(status.st_mode):
            return Entry(path, "file", mode, status.st_size)
        note(f"{path}: it is {_OTHERS.get(stat.S_IFMT(status.st_mode), 'not a file')}")
        return None

    def open(self, entry: Entry) -> IO[bytes]:
        """Open a file for reading; the caller closes it.

        Raises:
            WorkspaceError: The file cannot be read, or has been removed or replaced.
        """
        directory, _, name = entry.path.rpartition("/")
        try:
            fd = os.open(name, _FILE, dir_fd=self._directory(directory))
        except OSError as error:
            if error.errno in _IS_ELSEWHERE:
                raise changed_error(self.name, entry.path) from error
            raise self._unreadable(entry.path, "read", error) from error
        if (file := _regular(fd)) is None:
            raise changed_error(self.name, entry.path)
        return file

    def read_rules(self, name: str, *, from_inside: bool = False) -> bytes | None:
        """Return the content of a small file in the root; None if there is none."""
        try:
            fd = (
                self._open_inside(name)
                if from_inside
                else os.open(name, _FILE & ~_platform.NOFOLLOW, dir_fd=self._root)
            )
            if (file := _regular(fd)) is None:
                raise WorkspaceError(f"{name} of the workspace {self.name} is not a file", fix="replace or remove it")
            with file:
                return checked_rules(file.read(LARGEST_RULES + 1), name, self.name)
        except FileNotFoundError:
            if from_inside:
                self._check_link(name)
            return None
        except OSError as error:
            raise WorkspaceError(
                f"cannot read {name} of the workspace {self.name}",
                why=error.strerror or str(error),
                fix=f"allow your user to read {name}, replace it with a file, or remove it",
            ) from error

    def _check_link(self, name: str) -> None:
        """Raise WorkspaceError if this name exists: it can only be a broken link."""
        with suppress(OSError):  # there is nothing, or a file by now
            target = os.readlink(name, dir_fd=self._root)
            raise WorkspaceError(
                f"{name} of the workspace {self.name} is a link to {target}, which does not exist",
                fix="replace the link with the file, or remove it",
            )

    def _open_inside(self, name: str) -> int:
        """Open a file, or the file in the tree that a link leads to, safe against changes meanwhile."""
        root = os.path.realpath(self.name)
        path = os.path.relpath(os.path.realpath(f"{root}/{name}"), root)
        if path.partition("/")[0] == "..":
            raise WorkspaceError(
                f"{name} of the workspace {self.name} is a link that leads out of it",
                why="nothing from outside a workspace is sent",
                fix="replace the link with the file",
            )
        directory, _, last = path.rpartition("/")
        return os.open(last, _FILE, dir_fd=self._directory(directory))

    def close(self) -> None:
        """Close the open directories."""
        for fd in (self._parent[1], self._root):
            if fd >= 0:
                os.close(fd)
        self._parent, self._root = ("", -1), -1

    @contextmanager
    def _opened(self, directory: str, what: str) -> Generator[int]:
        try:
            yield self._directory(directory)
        except OSError as error:
            if error.errno in _IS_ELSEWHERE:
                raise changed_error(self.name, directory) from error
            raise self._unreadable(directory, what, error) from error

    def _directory(self, path: str) -> int:
        """Return a descriptor of a directory, valid until the next call."""
        if not path:
            return self._root
        if self._parent[0] == path:
            return self._parent[1]
        at = self._root
        for part in path.split("/"):
            try:
                below = os.open(part, _DIRECTORY, dir_fd=at)
            finally:
                if at != self._root:
                    os.close(at)
            at = below
        if self._parent[1] >= 0:
            os.close(self._parent[1])
        self._parent = (path, at)
        return at

    def _unreadable(self, path: str, what: str, error: OSError) -> WorkspaceError:
        fix = "give your user the permission, or add it to the workspace's ignore file"
        return failed(f"cannot {what} {path or 'the root'} of the workspace {self.name}", error, fix=fix)


def failed(what: str, error: OSError, *, fix: str = "") -> WorkspaceError:
    """Return the error for a failed system call, retryable if the machine was short of something.

    Args:
        what: What happened.
        error: The kernel's error.
        fix: What to do about any other reason.
    """
    want = _platform.WANTS.get(error.errno or 0, "")
    return WorkspaceError(what, why=error.strerror or str(error), fix=want or fix, retryable=bool(want))


def checked_rules(said: bytes, name: str, workspace: str) -> bytes:
    """Return a file's content, or raise WorkspaceError if it is too large."""
    if len(said) > LARGEST_RULES:
        raise WorkspaceError(
            f"{name} of the workspace {workspace} has more than {LARGEST_RULES:,} bytes",
            why="it is read into memory whole",
            fix="make it shorter",
        )
    return said


def _regular(fd: int) -> IO[bytes] | None:
    """Return a descriptor as a file object; close it and return None if it is not a regular file."""
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return os.fdopen(fd, "rb", buffering=0)
    os.close(fd)
    return None


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _unreadable_root(path: str, error: OSError) -> WorkspaceError:
    fix = "name an existing directory, or a URL such as s3://bucket/path"
    return failed(f"cannot read the workspace {path}", error, fix=fix)


def changed_error(workspace: str, path: str) -> WorkspaceError:
    """Return the error for a file that changed while the workspace was read."""
    return WorkspaceError(
        f"{path} of the workspace {workspace} has changed while it was read",
        why="the bytes to send would be neither the old file nor the new one",
        fix="submit again when nothing writes there, or add it to the workspace's ignore file",
    )
