"""Read and write single files in containers, which the daemon transfers as tar archives."""

from __future__ import annotations

import tarfile
from io import BytesIO

from asyncsched._dockerd.client import Daemon
from asyncsched.errors import SchedulerError

__all__ = ["ensure_tmp", "read_file"]

_HEADERS = 64 * 1024
"""The most bytes before a file's content: its name, its times, its extended attributes."""

_OTHERS = {
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.LNKTYPE: "a hard link",
    tarfile.DIRTYPE: "a directory",
    tarfile.FIFOTYPE: "a named pipe",
}


async def read_file(daemon: Daemon, container: str, path: str, longest: int, *, operation: str) -> bytes:
    """Return a file in a container, at most its first `longest` bytes; the container may have ended.

    Links are not followed: the container's program may have pointed one anywhere.

    Raises:
        NotFoundError: There is no such file, or no such container.
        ValueError: It is not a regular file.
    """

    async def read() -> bytes:
        what = f"cannot read {path} of the container {container}"
        chunks: list[bytes] = []
        room = longest + _HEADERS
        stream = daemon.stream(f"containers/{container}/archive", {"path": path}, what=what, operation=operation)
        async with stream as content:
            while room > 0 and (chunk := await content.read(room)):
                chunks.append(chunk)
                room -= len(chunk)
        return b"".join(chunks)

    return _first_file(await daemon.repeated(read), longest)


def _first_file(archive: bytes, longest: int) -> bytes:
    try:
        with tarfile.open(fileobj=BytesIO(archive), mode="r:") as entries:
            entry = entries.next()
            file = entries.extractfile(entry) if entry is not None and entry.type in tarfile.REGULAR_TYPES else None
            if file is not None:
                return file.read(longest)
    except tarfile.TarError as error:
        raise ValueError(f"cannot be read: {error}") from None
    raise ValueError(f"is {_OTHERS.get(entry.type, 'a device') if entry else 'nothing'} and not a regular file")


async def ensure_tmp(daemon: Daemon, container: str, *, operation: str) -> bool:
    """Create a world-writable /tmp in a container that has not started; return False if its image has one."""
    if await daemon.has_path(container, "/tmp", operation=operation):  # noqa: S108 - in the container
        return False
    directory = tarfile.TarInfo("tmp")
    directory.type, directory.mode = tarfile.DIRTYPE, 0o1777
    archive = BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as entries:
        entries.addfile(directory)
    try:
        await daemon.put_archive(container, "/", archive.getvalue(), operation=operation)
    except SchedulerError as error:
        if "read-only" not in error.why:  # then the program can write only to mounts, if anywhere
            raise
    return True
