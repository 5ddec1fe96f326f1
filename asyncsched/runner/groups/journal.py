"""The journal of a durable group: one line of JSON for each attempt that is submitted, and for each that ends.

It is in ``groups`` in the state directory. Services forget ended apps, so ends are read from here, and services are
asked only about other attempts. A process that dies leaves at most an incomplete line, which is ignored.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from asyncsched import _platform
from asyncsched._tasks import finished_in_thread, made_in_thread
from asyncsched.errors import ConfigError, ConflictError, UnavailableError
from asyncsched.runner.groups.outcome import Verdict
from asyncsched.runner.groups.state_files import file_name, make_folder
from asyncsched.specs.handle import AppHandle
from asyncsched.specs.state import AppState, AppStatus, FailureCause

__all__ = ["Attempt", "Journal", "Past", "end_line", "plan_line", "read_journal", "sent_line"]

LONGEST_MESSAGE = 2000


@dataclass(slots=True)
class Attempt:
    """The journal's record of an attempt.

    Attributes:
        handle: The handle that its app was to get.
        is_sent: Whether its submit returned.
        end: Its last status, if it has ended.
        was_launched: Whether an app was launched.
        timed_out: Whether it exceeded its timeout.
    """

    handle: AppHandle
    is_sent: bool = False
    end: AppStatus | None = None
    was_launched: bool = True
    timed_out: bool = False


@dataclass(slots=True)
class Past:
    """The journal's record of a job, with its attempts by number."""

    index: int
    digest: str
    attempts: dict[int, Attempt] = field(default_factory=dict[int, Attempt])


def plan_line(name: str, index: int, digest: str, attempt: int, handle: str) -> dict[str, object]:
    """Return the line that is written before an attempt is submitted."""
    return {"job": name, "index": index, "digest": digest, "attempt": attempt, "handle": handle}


def sent_line(name: str, attempt: int) -> dict[str, object]:
    """Return the line that is written when its submit has returned."""
    return {"job": name, "attempt": attempt, "sent": True}


def end_line(name: str, attempt: int, verdict: Verdict, *, launched: bool = True) -> dict[str, object]:
    """Return the line that is written when it has ended, or could not be launched."""
    status = verdict.status
    line: dict[str, object] = {"job": name, "attempt": attempt, "state": status.state.name}
    line |= {"msg": status.msg[:LONGEST_MESSAGE], "timed_out": verdict.timed_out, "launched": launched}
    return line | ({"cause": str(status.cause)} if status.cause is not None else {})


def read_journal(data: bytes) -> dict[str, Past]:
    """Return the records of a journal by job name; incomplete or unknown lines are skipped."""
    told: dict[str, Past] = {}
    for text in data.split(b"\n")[:-1]:
        try:
            line = json.loads(text)
            if isinstance(line, dict):
                _take(cast("dict[str, object]", line), told)
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return told


def _take(line: Mapping[str, object], told: dict[str, Past]) -> None:
    name, number = str(line["job"]), line["attempt"]
    if not isinstance(number, int):
        raise TypeError
    if "handle" in line:
        handle, index = AppHandle(str(line["handle"])), line["index"]
        if not isinstance(index, int):
            raise TypeError
        past = told.setdefault(name, Past(index, str(line["digest"])))
        past.attempts[number] = Attempt(handle)
        return
    attempt = told[name].attempts[number]
    if "sent" in line:
        attempt.is_sent = True
    else:
        cause = FailureCause(str(line["cause"])) if "cause" in line else None
        state = AppState[str(line["state"])]
        attempt.end = AppStatus(state, msg=str(line["msg"]), handle=attempt.handle, cause=cause)
        attempt.timed_out, attempt.was_launched = bool(line["timed_out"]), bool(line["launched"])


class Journal:
    """The journal of one group, held by one process at a time.

    Args:
        session: The runner's name.
        key: The group's key.
    """

    def __init__(self, session: str, key: str) -> None:
        self._key = key
        self._name = file_name(session, key, ".jsonl")
        self._request = file_name(session, key, ".cancel")
        self._folder: Path | None = None
        self.is_called_off = False  # by another process
        self._fd = -1
        self._pending: list[bytes] = []
        self._sync = False
        self._is_torn = False
        self._lock = asyncio.Lock()

    async def open(self) -> dict[str, Past]:
        """Lock the journal, creating it if necessary, and return its records.

        Raises:
            ConflictError: Another process, or another group of this one, holds it.
            UnavailableError: It cannot be created or read.
            ConfigError: The system has no file locks.
        """
        if not _platform.has_file_locks():
            raise ConfigError(
                f"a group with key={self._key!r} cannot run here",
                why=f"Python on {sys.platform} has no file locks, which protect its journal",
                fix="leave out key, or run it on Linux or macOS",
            )
        try:
            async with self._lock:  # who closes it meanwhile waits, and closes what was opened
                self._fd, data = await made_in_thread(self._open, lambda opened: os.close(opened[0]), waits=True)
        except BlockingIOError as error:
            raise ConflictError(
                f"the group {self._key!r} is run already",
                why="another process, or another group of this one, holds its journal",
                fix="wait for it, or use another key",
            ) from error
        except OSError as error:
            raise UnavailableError(
                f"the journal of the group {self._key!r} cannot be opened", why=str(error)
            ) from error
        return read_journal(data)

    def _open(self) -> tuple[int, bytes]:
        folder = self._folder = make_folder()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | _platform.CLOEXEC | _platform.NOFOLLOW
        fd = os.open(folder / self._name, flags, 0o600)
        try:
            _platform.lock_file(fd)  # the kernel lets go of it, however the process ends
            with open(fd, "rb", closefd=False) as file:
                data = file.read()
            (folder / self._request).unlink(missing_ok=True)  # it was meant for who held it before
            whole = data[: data.rfind(b"\n") + 1]
            if whole != data:  # what would be appended to half a line would be lost with it
                os.ftruncate(fd, len(whole))
            _sync_folder(folder)
        except BaseException:
            os.close(fd)
            raise
        return fd, whole

    def add(self, *lines: Mapping[str, object], sync: bool = False) -> None:
        """Add lines for the next `flush`; with `sync`, it also syncs them to the disk."""
        self._pending += [json.dumps(line).encode() + b"\n" for line in lines]
        self._sync = self._sync or sync

    async def flush(self) -> None:
        """Write what was added.

        Raises:
            UnavailableError: It cannot be written, for example because the disk is full; a later call tries again.
        """
        async with self._lock:
            if not self._pending or self._fd < 0:
                return
            data, sync = b"".join(self._pending), self._sync
            self._pending, self._sync = [], False
            try:
                await finished_in_thread(lambda: self._write(data, sync=sync))
            except OSError as error:
                self._pending.insert(0, data)
                self._sync, self._is_torn = sync, True
                raise UnavailableError(
                    f"the journal of the group {self._key!r} cannot be written",
                    why=str(error),
                    fix=f"see to the disk of {self._folder}, and start the group again: what is done stays done",
                ) from error

    def _write(self, data: bytes, *, sync: bool) -> None:
        left = memoryview(b"\n" + data if self._is_torn else data)
        while left:
            left = left[os.write(self._fd, left) :]
        self._is_torn = False
        if sync:
            os.fsync(self._fd)
        if self._folder is not None and (self._folder / self._request).exists():
            self.is_called_off = True

    async def close(self) -> None:
        """Write the remaining lines and release the lock."""
        try:
            await self.flush()
        finally:
            fd, self._fd = self._fd, -1
            if fd >= 0:
                os.close(fd)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | _platform.DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
