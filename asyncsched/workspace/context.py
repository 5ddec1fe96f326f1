"""A workspace's content: the files to send, their digest, and their archive as a stream."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

from asyncsched._tasks import finished_in_thread
from asyncsched.errors import WorkspaceError
from asyncsched.workspace.entry import Entry
from asyncsched.workspace.threads import Check, abandon, in_thread

if TYPE_CHECKING:
    from asyncsched.workspace.files import Tree

__all__ = ["Context", "Entry", "absolute", "open_tree"]

ItemT = TypeVar("ItemT")

_URL = r"(?P<kind>[A-Za-z][A-Za-z0-9+.-]*)(::|://)"


class Context:
    """A workspace's content at the time of reading; files are opened again when their bytes are needed.

    Attributes:
        workspace: An absolute path, or a URL.
        entries: The files, directories and links to send, sorted by name, each directory before its content.
        notes: What was skipped, and why: everything that is not a file, a directory or a link.
    """

    __slots__ = ("_digests", "entries", "notes", "workspace")

    def __init__(self, workspace: str, entries: Sequence[Entry], notes: Sequence[str]) -> None:
        self.workspace = workspace
        self.entries = entries
        self.notes = notes
        self._digests: dict[str, bytes] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.workspace!r}, {len(self.entries)} entries)"

    @classmethod
    async def read(cls, workspace: str, *, ignore: str = ".dockerignore", leave_out: Sequence[str] = ()) -> Context:
        """List a workspace's content; the files themselves are not opened yet.

        Args:
            workspace: A directory on this machine, or a URL that fsspec can read.
            ignore: The name of the ignore file in the workspace's root.
            leave_out: Directories on this machine to skip as well.

        Raises:
            WorkspaceError: The workspace does not exist or cannot be read, or the ignore file is malformed.
            MissingExtraError: The workspace is a URL, and fsspec is not installed.
        """
        from asyncsched.workspace.files import taken  # loaded when a workspace is first read
        from asyncsched.workspace.ignore import Ignore

        place = absolute(workspace)

        def look(check: Check) -> Context:
            notes: list[str] = []
            with closing(open_tree(place, leave_out)) as tree:
                rules = tree.read_rules(ignore) or b""
                found = taken(tree, Ignore(rules.decode("utf-8", "surrogateescape"), ignore), notes.append)
                entries = [*_checked(found, check)]
            return cls(place, entries, sorted(notes))

        return await in_thread(look)

    async def digest(self) -> str:
        """Return a digest of the paths, modes, bytes and links; times and the location do not count.

        Raises:
            WorkspaceError: A file cannot be read, or has changed since `read`.
        """

        from asyncsched.workspace.archive import digest_of, file_digest

        def sum_up(check: Check) -> str:
            with closing(open_tree(self.workspace)) as tree:
                files = (entry for entry in self.entries if entry.kind == "file")
                self._digests = {entry.path: file_digest(tree, entry, check) for entry in _checked(files, check)}
            return digest_of(self.entries, self._digests)

        return await in_thread(sum_up)

    async def read_file(self, path: str) -> bytes | None:
        """Return the content of a small file in the workspace's root, ignored or not; None if there is none.

        Raises:
            WorkspaceError: The file cannot be read, or is a link that leads out of the workspace.
        """

        def look(check: Check) -> bytes | None:
            with closing(open_tree(self.workspace)) as tree:
                return tree.read_rules(path, from_inside=True)

        return await in_thread(look)

    async def tar(self, extra: Mapping[str, bytes] | None = None, *, below: str = "") -> AsyncGenerator[bytes]:
        """Yield a tar archive of the workspace in small pieces: the same bytes for the same files.

        Times are 0 and the owner is root. After `digest`, the bytes are those that it has read, or this raises. Close
        the generator (``aclosing``) if you leave it before its end.

        Args:
            extra: Files to add, by path, such as a Dockerfile; each replaces a file of the workspace.
            below: The archive's directory for the workspace, but not for the extra files; the root by default.

        Raises:
            WorkspaceError: A file cannot be read, or has changed since.
        """
        stream = _Stream(self, extra or {}, below)
        coming = asyncio.ensure_future(in_thread(stream.step))
        try:
            while piece := await coming:
                coming = asyncio.ensure_future(in_thread(stream.step))  # read the next piece while this one is sent
                yield piece
        finally:
            try:
                await abandon(coming)
            finally:
                await finished_in_thread(stream.close)


class _Stream:
    """An archive that is made piece by piece, each in any thread."""

    def __init__(self, context: Context, extra: Mapping[str, bytes], below: str) -> None:
        self._context = context
        self._extra = extra
        self._below = below
        self._tree: Tree | None = None
        self._pieces: Iterator[bytes] = iter(())

    def step(self, check: Check) -> bytes:
        if self._tree is None:
            from asyncsched.workspace.archive import archived

            self._tree = open_tree(self._context.workspace)
            self._pieces = archived(self._tree, self._context.entries, self._extra, self._context._digests, self._below)
        return next(self._pieces, b"")

    def close(self) -> None:
        self._pieces = iter(())
        if self._tree is not None:
            self._tree.close()


def _checked(items: Iterable[ItemT], check: Check) -> Iterator[ItemT]:
    for item in items:
        check()
        yield item


def open_tree(place: str, leave_out: Sequence[str] = ()) -> Tree:
    """Open the directory or the URL that a workspace is; call it in a thread."""
    if re.match(_URL, place):
        from asyncsched.workspace.urls import UrlTree  # rarely needed

        return UrlTree(place)
    from asyncsched.workspace.files import LocalTree  # loaded when a workspace is first read

    return LocalTree(place, leave_out)


def absolute(workspace: str) -> str:
    """Return a workspace as an absolute path, or as its URL."""
    workspace = os.fspath(workspace)  # a Path is accepted too, whatever the type says
    if not workspace:
        raise WorkspaceError("workspace must be a directory or a URL, got ''", fix="use . for the working directory")
    from pathlib import Path  # loaded when a workspace is first read
    from urllib.parse import unquote, urlsplit

    url = re.match(_URL, workspace)
    if url is not None:
        return unquote(urlsplit(workspace).path) if url["kind"] == "file" else workspace
    try:
        return os.path.abspath(Path(workspace).expanduser())  # noqa: PTH100 - a Path would keep the dots
    except RuntimeError as error:
        raise WorkspaceError(f"cannot read the workspace {workspace}", why=str(error)) from error
