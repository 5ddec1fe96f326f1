"""Pack a workspace into a tar archive, piece by piece: the same files give the same bytes. It blocks: use a thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from asyncsched.workspace.entry import Entry
from asyncsched.workspace.files import CHUNK, changed_error, failed
from asyncsched.workspace.hashing import sha256
from asyncsched.workspace.threads import Check

if TYPE_CHECKING:
    from asyncsched.workspace.files import Tree

__all__ = ["archived", "content", "digest_of", "file_digest"]

_KINDS = {"file": b"0", "directory": b"5", "link": b"2"}
_BLOCK = 512


def archived(
    tree: Tree, entries: Sequence[Entry], extra: Mapping[str, bytes], digests: Mapping[str, bytes], below: str = ""
) -> Iterator[bytes]:
    """Yield an archive in pieces of about `CHUNK` bytes.

    Args:
        tree: The tree to read the files from.
        entries: The entries to pack, in this order.
        extra: Additional files, by path; each replaces an entry of the same path.
        digests: The known digests of files, by path; a file whose content differs is an error.
        below: The archive's directory for the entries, but not for the extra files; empty for the root.
    """
    pending: list[bytes] = []
    size = 0
    for piece in _pieces(tree, entries, extra, digests, below):
        if pending and size + len(piece) > CHUNK:
            yield b"".join(pending)
            pending, size = [], 0
        pending.append(piece)
        size += len(piece)
    yield b"".join([*pending, bytes(2 * _BLOCK)])


def _pieces(
    tree: Tree, entries: Sequence[Entry], extra: Mapping[str, bytes], digests: Mapping[str, bytes], below: str
) -> Iterator[bytes]:
    if below:
        yield _header(Entry(below, "directory", 0o755, 0))
    for entry in entries:
        path = f"{below}/{entry.path}" if below else entry.path
        if path in extra:
            continue
        yield _header(entry._replace(path=path))
        if entry.kind == "file":
            summed = sha256()
            for piece in content(tree, entry):
                summed.update(piece)
                yield piece
            if digests.get(entry.path, summed.digest()) != summed.digest():
                raise changed_error(tree.name, entry.path)
            yield _padding(entry.size)
    for path, text in sorted(extra.items()):
        yield _header(Entry(path, "file", 0o644, len(text)))
        yield text
        yield _padding(len(text))


def content(tree: Tree, entry: Entry) -> Iterator[bytes]:
    """Yield a file's content: exactly `entry.size` bytes.

    Raises:
        WorkspaceError: The file has changed its size, or cannot be read.
    """
    left = entry.size
    try:
        with tree.open(entry) as file:
            while piece := file.read(min(CHUNK, left + 1)):
                left -= len(piece)
                if left < 0:
                    break
                yield piece
    except OSError as error:
        raise failed(f"cannot read {entry.path} of the workspace {tree.name}", error) from error
    if left:
        raise changed_error(tree.name, entry.path)


def _header(entry: Entry) -> bytes:
    import tarfile  # imported only when something is packed

    info = tarfile.TarInfo(entry.path)
    info.type, info.mode, info.size, info.linkname = _KINDS[entry.kind], entry.mode, entry.size, entry.target
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _padding(size: int) -> bytes:
    return bytes(-size % _BLOCK)


def file_digest(tree: Tree, entry: Entry, check: Check) -> bytes:
    """Return the digest of a file's content."""
    summed = sha256()
    for piece in content(tree, entry):
        check()
        summed.update(piece)
    return summed.digest()


def digest_of(entries: Sequence[Entry], digests: Mapping[str, bytes]) -> str:
    """Return a digest of paths, modes, bytes and links; times and the workspace's location do not count.

    Args:
        entries: The workspace's entries, in the order in which they are read.
        digests: The digest of each file, by path.
    """
    summed = sha256(b"asyncsched workspace 1\n")
    for entry in entries:
        for field in (entry.kind, f"{entry.mode:o}", entry.path, entry.target):
            raw = field.encode("utf-8", "surrogateescape")
            summed.update(b"%d:" % len(raw) + raw)
        summed.update(digests.get(entry.path, b""))
    return summed.hexdigest()
