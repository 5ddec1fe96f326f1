"""Copy a workspace's files on this machine; writing to the copy never changes the workspace."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from typing import IO, TYPE_CHECKING, cast

from asyncsched._tasks import finished_in_thread
from asyncsched.errors import WorkspaceError
from asyncsched.specs.dryrun import WorkspacePlan
from asyncsched.workspace.context import Context, open_tree
from asyncsched.workspace.files import CHUNK, Entry, changed_error, failed
from asyncsched.workspace.hashing import sha256, workspace_hash
from asyncsched.workspace.threads import Check, in_thread

if TYPE_CHECKING:
    import logging

    from asyncsched.specs.app import AppDef
    from asyncsched.workspace.files import Tree

__all__ = ["IGNORE_FILE", "DirWorkspace", "changed_since", "copy_planned", "directory_hash", "plan_copy"]

IGNORE_FILE = ".asyncschedignore"
"""The file in a workspace's root that lists what a copy leaves out."""

FICLONE = 0x40049409
"""The ioctl that makes two files share their blocks until one of them is written."""

MODES = 0o1777
"""The mode bits to keep: without setuid and setgid, because the copy has another owner."""

NOTES = 10
"""How many skipped files are logged by name."""

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


class DirWorkspace:
    """Copy a workspace into directories.

    Attributes:
        workspace: A directory on this machine, or a URL that fsspec can read.
        leave_out: Directories to skip, such as the one that holds the copies.
    """

    def __init__(self, workspace: str, leave_out: Sequence[str] = ()) -> None:
        self.workspace = workspace
        self.leave_out = leave_out

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.workspace!r}, {self.leave_out!r})"

    async def context(self) -> Context:
        """List what would be copied."""
        return await Context.read(self.workspace, ignore=IGNORE_FILE, leave_out=self.leave_out)

    async def hash(self) -> str:
        """Return the workspace hash: equal for equal files, whatever their times and location."""
        return await directory_hash(await self.context())

    async def copy(self, directory: str, expected: str | None = None) -> str:
        """Copy the files into a new directory and return the workspace hash of the copy.

        Modes, empty directories and times are kept. Links stay links: a link to a path in the workspace leads to the
        same path in the copy, any other link leads where it led before. If this fails or is cancelled, nothing is left.

        Args:
            directory: The directory to create; it must not exist.
            expected: The hash that the copy must have; None for any.

        Raises:
            WorkspaceError: A file cannot be read or written, has changed meanwhile, or the hash is not `expected`.
        """
        context = await self.context()

        made: list[str] = []

        def copy(check: Check) -> str:
            with closing(open_tree(context.workspace)) as tree:
                _make(directory)
                made.append(directory)
                return workspace_hash(_Copy(tree, context, directory, check).make())

        try:
            found = await in_thread(copy)
            if expected not in (None, found):
                raise changed_since(context.workspace)
        except (Exception, asyncio.CancelledError):  # others leave no time to wait; the next clean-up removes the copy
            if made:
                with suppress(OSError):  # the first error is to be told
                    await finished_in_thread(lambda: remove(directory))
            raise
        return found


async def plan_copy(app: AppDef, workspace: str, leave_out: Sequence[str], log: logging.Logger) -> WorkspacePlan:
    """Plan a copy for a dry-run, and log what is skipped.

    Args:
        app: The app that will run in the copy.
        workspace: A directory or a URL.
        leave_out: Directories to skip, with those of their parents that do not exist yet.
        log: The logger for skipped files.
    """
    leave_out = await in_thread(lambda _: [each for path in leave_out for each in (path, *_missing(path))])
    context = await DirWorkspace(workspace, leave_out).context()
    for note in context.notes[:NOTES]:
        log.warning("the workspace %s is copied without %s", context.workspace, note)
    if len(context.notes) > NOTES:
        log.warning("the workspace %s is copied without %d others", context.workspace, len(context.notes) - NOTES)
    return WorkspacePlan(app, context.workspace, {"": await directory_hash(context)}, detail=leave_out)


def _missing(path: str) -> Iterator[str]:
    """Yield the parents of a directory that do not exist yet."""
    while not os.path.exists(path := os.path.dirname(path)):
        yield path


async def copy_planned(plan: WorkspacePlan, directory: str) -> None:
    """Make the copy that `plan_copy` has planned, in a directory that must not exist.

    Raises:
        WorkspaceError: The files have changed since, or cannot be copied; nothing is left.
    """
    await DirWorkspace(plan.workspace, cast("Sequence[str]", plan.detail)).copy(directory, plan.hashes[""])


def _make(directory: str) -> None:
    try:
        os.mkdir(directory, 0o700)
    except OSError as error:
        raise _cannot_write(directory, error) from error


async def directory_hash(context: Context) -> str:
    """Return the workspace hash of a copy."""
    return workspace_hash(await context.digest())


class _Copy:
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
        from asyncsched.workspace.archive import digest_of

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


def remove(directory: str) -> None:
    """Remove a copy and its content, whatever its modes, if it exists. It blocks."""
    import shutil  # imported only when something is removed

    with suppress(FileNotFoundError):
        os.chmod(directory, 0o700)
        for parent, names, _ in os.walk(directory):
            for name in names:
                if not os.path.islink(path := f"{parent}/{name}"):
                    os.chmod(path, 0o700)
        shutil.rmtree(directory)


def changed_since(workspace: str) -> WorkspaceError:
    """Return the error for a workspace that has changed since its dry-run."""
    return WorkspaceError(
        f"the workspace {workspace} has changed since its dry-run",
        why="its hash differs, and schedule launches only what the dry-run showed",
        fix="dry-run again (info.renew()), and schedule that",
    )


def _cannot_write(path: str, error: OSError) -> WorkspaceError:
    return failed(f"cannot copy a workspace to {path}", error)
