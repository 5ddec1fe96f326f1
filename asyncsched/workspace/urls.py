"""Read a tree of files behind a URL, such as ``memory://`` or ``s3://``, with fsspec. It blocks: use a thread."""

from __future__ import annotations

import stat
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any, Protocol

from asyncsched.errors import MissingExtraError, WorkspaceError
from asyncsched.workspace.entry import Entry
from asyncsched.workspace.files import LARGEST_RULES, changed_error, checked_rules

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["UrlTree"]


class _FileSystem(Protocol):
    """The methods of an fsspec file system that are used here."""

    def ls(self, path: str, detail: bool = True) -> Sequence[Mapping[str, Any]]: ...

    def open(self, path: str, mode: str = "rb") -> IO[bytes]: ...

    def isdir(self, path: str) -> bool: ...

    def isfile(self, path: str) -> bool: ...


_UrlToFs = Callable[[str], tuple[_FileSystem, str]]


class UrlTree:
    """A directory behind a URL.

    Args:
        url: The URL; the package for its file system must be installed.

    Raises:
        MissingExtraError: fsspec is not installed.
        WorkspaceError: The directory does not exist, or cannot be reached.
    """

    def __init__(self, url: str) -> None:
        self.name = url
        try:
            url_to_fs: _UrlToFs = import_module("fsspec.core").url_to_fs
        except ImportError as error:
            raise MissingExtraError(
                f"the workspace {url} needs the package fsspec",
                why="it is not installed",
                fix="pip install 'asyncsched[workspace]' and the package for the URL's scheme, such as s3fs",
            ) from error
        try:
            self._files, root = url_to_fs(url)
            self._root = root.rstrip("/")
            is_directory = self._files.isdir(root)
        except Exception as error:  # each file system has its own exceptions
            raise self._failed("", error) from error
        if not is_directory:
            raise WorkspaceError(f"cannot read the workspace {url}", why="there is no such directory")

    def scan(self, directory: str, note: Callable[[str], None]) -> Sequence[Entry]:
        """Return the content of a directory, and note what is skipped."""
        at = f"{self._root}/{directory}" if directory else self._root
        try:
            listed = self._files.ls(at or "/", detail=True)
        except Exception as error:  # as above
            raise self._failed(directory, error) from error
        return [entry for found in listed if (entry := self._entry(directory, at, found, note)) is not None]

    def _entry(self, directory: str, at: str, found: Mapping[str, Any], note: Callable[[str], None]) -> Entry | None:
        name = str(found["name"]).rstrip("/").rpartition("/")[2]
        if not name or name in (".", "..") or str(found["name"]).rstrip("/") == at.rstrip("/"):
            return None  # some file systems list a directory in itself
        path = f"{directory}/{name}" if directory else name
        mode = found.get("mode")
        if found.get("islink") or found["type"] == "link":
            note(f"{path}: it is a link, and links behind a URL are not supported")
            return None
        if found["type"] == "directory":
            return Entry(path, "directory", stat.S_IMODE(mode) if isinstance(mode, int) else 0o755)
        if found["type"] != "file":
            note(f"{path}: it is not a file")
            return None
        kept = stat.S_IMODE(mode) if isinstance(mode, int) else 0o644
        return Entry(path, "file", kept, int(found["size"] or 0))

    def open(self, entry: Entry) -> IO[bytes]:
        """Open a file for reading; the caller closes it."""
        try:
            return self._files.open(f"{self._root}/{entry.path}", "rb")
        except FileNotFoundError as error:
            raise changed_error(self.name, entry.path) from error
        except Exception as error:  # as above
            raise self._failed(entry.path, error) from error

    def read_rules(self, name: str, *, from_inside: bool = False) -> bytes | None:
        """Return the content of a small file in the root; None if there is none. Links are not recognised here."""
        try:
            if not self._files.isfile(f"{self._root}/{name}"):
                return None
            with self._files.open(f"{self._root}/{name}", "rb") as file:
                said: bytes = file.read(LARGEST_RULES + 1)
        except Exception as error:  # as above
            raise self._failed(name, error) from error
        return checked_rules(said, name, self.name)

    def close(self) -> None:
        """Do nothing: fsspec manages its file systems itself."""

    def _failed(self, path: str, error: Exception) -> WorkspaceError:
        what = f"cannot read {path} of the workspace {self.name}" if path else f"cannot read the workspace {self.name}"
        return WorkspaceError(what, why=f"{type(error).__name__}: {error}", fix="check the URL and its credentials")
