"""The files of an app's saved log: each holds the exact output of one stream of a replica."""

from __future__ import annotations

import os
import re
from pathlib import Path

from asyncsched import _platform
from asyncsched.logs.line import LogLine, LogOrigin
from asyncsched.specs.names import derive_id

__all__ = ["KeptApp", "check_writable", "plain_name"]

COMPLETE = "complete"
"""The file that says that an app's log has been kept to its end; no log is named so."""

PIECE = 1 << 20
FLAGS = os.O_RDWR | os.O_CREAT | _platform.CLOEXEC | _platform.NOFOLLOW | _platform.BINARY

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}\Z")


def plain_name(text: str) -> str:
    """Return a name for a file or folder: the text, or a name derived from it if it is not a valid file name."""
    return text if _PLAIN.match(text) and text != COMPLETE else derive_id(text)


def check_writable(folder: Path) -> None:
    """Create a folder and write to it; raise OSError if that fails."""
    folder.mkdir(parents=True, exist_ok=True)
    probe = folder / f".{os.getpid()}.tmp"
    probe.write_bytes(b"\n")
    probe.unlink()


class KeptApp:
    """The files of one app.

    Existing contents are compared with the log and continued. If the log has changed, because its service lost lines,
    the old file stays, and a second one gets the new log. No file is open between calls.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.waiting = 0  # bytes that `flush` has to write
        self._files: dict[LogOrigin, _KeptFile] = {}

    def add(self, line: LogLine) -> None:
        """Add a line for the next `flush`."""
        text = line if line.gap is None else f"[lines are missing here: {line.gap.reason}]\n"
        data = text.encode("utf-8", "replace")
        if line.source not in self._files:
            self._files[line.source] = _KeptFile(self.folder, _name_of(line.source))
        self._files[line.source].pending.append(data)
        self.waiting += len(data)

    # What follows waits for the disk

    def is_complete(self) -> bool:
        """Tell whether the log was saved to its end."""
        return (self.folder / COMPLETE).exists()

    def flush(self) -> None:
        """Write the added lines; after an OSError, another call continues."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for file in self._files.values():
            file.flush()
        self.waiting = 0

    def finish(self) -> None:
        """Record that the log was saved to its end."""
        self.flush()
        (self.folder / COMPLETE).touch()


class _KeptFile:
    """One file of a log.

    Args:
        folder: Where it is.
        name: Its name without ``.log``; later ones have a number.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.pending: list[bytes] = []
        self._folder = folder
        self._name = name
        self._number = 0  # of the file that is written; 0 before the first one
        self._known = 0  # bytes that were there before, with which the log is compared
        self._done = 0  # bytes of the log that the file holds

    def _at(self, number: int) -> Path:
        return self._folder / (f"{self._name}.log" if number == 1 else f"{self._name}.{number}.log")

    def flush(self) -> None:
        """Write the buffered data."""
        if self.pending:
            data = b"".join(self.pending)
            self._put(data)
            self._done += len(data)
            self.pending = []

    def _put(self, data: bytes) -> None:
        fd = self._open()
        try:
            again = data[: max(self._known - self._done, 0)]
            if _platform.read_at(fd, len(again), self._done) != again:
                self._fork(fd)
            else:
                _write(fd, data[len(again) :], self._done + len(again))
                return
        finally:
            os.close(fd)
        self._put(data)

    def _open(self) -> int:
        if self._number == 0:
            self._number = 1
            while self._at(self._number + 1).exists():
                self._number += 1
            fd = os.open(self._at(self._number), FLAGS, 0o666)
            self._known = os.fstat(fd).st_size
            return fd
        return os.open(self._at(self._number), FLAGS, 0o666)

    def _fork(self, old: int) -> None:
        """Keep the file, and continue in a new one that begins with the common part."""
        new = os.open(self._at(self._number + 1), FLAGS | os.O_TRUNC, 0o666)
        try:
            for start in range(0, self._done, PIECE):
                _write(new, _platform.read_at(old, min(PIECE, self._done - start), start), start)
        finally:
            os.close(new)
        self._number += 1
        self._known = self._done


def _write(fd: int, data: bytes, offset: int) -> None:
    left = memoryview(data)
    while left:
        written = _platform.write_at(fd, left, offset)
        left, offset = left[written:], offset + written


def _name_of(origin: LogOrigin) -> str:
    """Return the file name for an origin; role names have no ``@``, so the names are unique."""
    parts = [f"{plain_name(origin.role)}-{origin.replica}"]
    if origin.attempt != 0:
        parts.append("attempt" if origin.attempt is None else f"attempt{origin.attempt}")
    if origin.container:
        parts.append(f"@{plain_name(origin.container)}")
    return f"{'@'.join(parts)}.{origin.stream.value}"
