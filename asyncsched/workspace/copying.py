"""Write a workspace's files to a directory of this machine. It blocks: use a thread."""

from __future__ import annotations

import errno
import itertools
import os
from typing import IO, TYPE_CHECKING

from asyncsched.workspace.archive import digest_of
from asyncsched.workspace.files import CHUNK, changed_error, failed
from asyncsched.workspace.hashing import sha256

if TYPE_CHECKING:
    from asyncsched.errors import WorkspaceError
    from asyncsched.workspace.context import Context
    from asyncsched.workspace.entry import Entry
    from asyncsched.workspace.files import Tree
    from asyncsched.workspace.threads import Check

__all__ = ["Copy", "make_directory"]

FICLONE = 0x40049409
"""The ioctl that makes two files share their blocks until one of them is written."""

MODES = 0o1777
"""The mode bits to keep: without setuid and setgid, because the copy has another owner."""

_NOT_HERE = frozenset(
    {
        errno.EBADF,
        errno.EINVAL,
        errno.EISDIR,
        errno.ENOSYS,
        errno.ENOTTY,
        errno.EOPNOTSUPP,
        errno.EPERM,
        errno.ETXTBSY,
        errno.EXDEV,
    }
)
"""Errors by which a file system, or a pair of them, refuses this way of copying."""


def make_directory(directory: str) -> None:
    """Create the directory of a copy; it must not exist."""
    try:
        os.mkdir(directory, 0o700)
    except OSError as error:
        raise _cannot_write(directory, error) from error


class Copy:
    """One copy in the making."""

    def __init__(self, tree: Tree, context: Context, directory: str, check: Check) -> None:
        self._tree = tree
        self._context = context
        self._directory = directory
        self._check = check
        self._root = os.path.realpath(context.workspace)
        self._links = {entry.path for entry in context.entries if entry.kind == "link"}

    def make(self) -> str:
        """Copy everything and return the digest of the copy."""
        digests: dict[str, bytes] = {}
        made: list[tuple[str, Entry]] = []
        for entry in self._context.entries:
            self._check()
            path = f"{self._directory}/{entry.path}"
            try:
                if entry.kind == "directory":
                    os.mkdir(path, 0o700)
                    made.append((path, entry))
                elif entry.kind == "link":
                    os.symlink(self._led(entry), path)
                else:
                    digests[entry.path] = self._copy_file(entry, path)
            except OSError as error:
                raise _cannot_write(path, error) from error
        for path, entry in reversed(made):  # last, because the mode may forbid writing into the directory
            try:
                os.chmod(path, entry.mode & MODES)
            except OSError as error:
                raise _cannot_write(path, error) from error
        return digest_of(self._context.entries, digests)

    def _copy_file(self, entry: Entry, path: str) -> bytes:
        with self._tree.open(entry) as source, open(path, "x+b", buffering=0) as target:
            if not (_clone(source, target) or _copy_in_kernel(source, target, entry, self._check)):
                _copy_bytes(source, target, entry, self._check)
            if os.fstat(target.fileno()).st_size != entry.size:
                raise changed_error(self._tree.name, entry.path)
            target.seek(0)
            summed = sha256()
            while piece := target.read(CHUNK):
                self._check()
                summed.update(piece)
            os.fchmod(target.fileno(), entry.mode & MODES)
            if (fd := _descriptor(source)) is not None:
                at = os.fstat(fd).st_mtime_ns
                os.utime(target.fileno(), ns=(at, at))
        return summed.digest()

    def _led(self, link: Entry) -> str:
        """Return a link's target for the copy, so that no link of the copy leads back into the workspace."""
        place = os.path.dirname(link.path)
        if _stays_below(place, link.target) and not self._goes_through_a_link(place, link.target):
            return link.target
        is_absolute = link.target.startswith("/")
        found = os.path.realpath(link.target if is_absolute else f"{self._root}/{place}/{link.target}")
        if found != self._root and not found.startswith(f"{self._root.rstrip('/')}/"):
            return link.target if is_absolute else found
        return os.path.relpath(os.path.relpath(found, self._root), place or ".")

    def _goes_through_a_link(self, place: str, target: str) -> bool:
        parts = os.path.normpath(f"{place or '.'}/{target}").split("/")
        return any("/".join(parts[:count]) in self._links for count in range(1, len(parts)))


def _stays_below(place: str, target: str) -> bool:
    """Return whether a link's text alone shows that its target is below the root, wherever the root is."""
    parts = [part for part in target.split("/") if part not in ("", ".")]
    names = list(itertools.dropwhile(lambda part: part == "..", parts))
    ups = len(parts) - len(names)
    return not target.startswith("/") and ".." not in names and ups <= len([part for part in place.split("/") if part])


def _descriptor(file: IO[bytes]) -> int | None:
    try:
        return file.fileno()
    except (OSError, AttributeError):  # the file is behind a URL
        return None


def _clone(source: IO[bytes], target: IO[bytes]) -> bool:
    """Make the copy share its blocks with the file until one of them is written; return False if not possible."""
    fd = _descriptor(source)
    if fd is None:
        return False
    try:
        import fcntl

        fcntl.ioctl(target.fileno(), FICLONE, fd)
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
        return False
    except ImportError:  # only Unix has it
        return False
    return True


def _copy_in_kernel(source: IO[bytes], target: IO[bytes], entry: Entry, check: Check) -> bool:
    """Copy in the kernel, without moving the bytes through this process; return False if not possible."""
    fd = _descriptor(source)
    if fd is None or not hasattr(os, "copy_file_range"):  # only Linux has it
        return False
    done = 0
    try:
        while done <= entry.size and (count := os.copy_file_range(fd, target.fileno(), CHUNK * 16)):
            check()
            done += count
    except OSError as error:
        if error.errno not in _NOT_HERE or done:
            raise
        return False
    return done > 0 or entry.size == 0  # some files of the kernel (/proc) report a size of 0


def _copy_bytes(source: IO[bytes], target: IO[bytes], entry: Entry, check: Check) -> None:
    left = entry.size
    while left >= 0 and (piece := source.read(CHUNK)):  # stop past the size: the file may keep growing
        check()
        left -= len(piece)
        view = memoryview(piece)
        while view:
            view = view[target.write(view) :]


def _cannot_write(path: str, error: OSError) -> WorkspaceError:
    return failed(f"cannot copy a workspace to {path}", error)
