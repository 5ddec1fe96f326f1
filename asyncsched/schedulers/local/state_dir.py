"""The state directory: where it is, and what it contains.

::

    HOME/apps/APP_ID/state.json            the app's record, replaced as a whole
    HOME/apps/APP_ID/workspace             the copy of its workspace, if it has one
    HOME/apps/APP_ID/ROLE/K/index          the time and the offset of each chunk of output
    HOME/apps/APP_ID/ROLE/K/stdout.log     the replica's output, unchanged; also stderr.log, combined.log
    HOME/apps/APP_ID/ROLE/K/error.json     the replica's report of its failure
    HOME/apps/APP_ID/ROLE/K/result.json    the replica's result
    HOME/supervisors/PID-START.sock        the socket of a supervisor

Everything here reads and writes files, so call it in a thread.
"""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from asyncsched._home import UNMAKEABLE, is_kept_out
from asyncsched.errors import AsyncSchedError, ConfigError, PermissionDeniedError, SchedulerError
from asyncsched.schedulers.local.errors import failed
from asyncsched.schedulers.local.status_record import BACKEND, AppRecord, SpoiltError, read_record
from asyncsched.schedulers.local.supervisor.files import (
    DIRECTORY,
    ForeignDirectory,
    open_directory,
    open_path,
    read_regular,
    remove_file,
    remove_opened,
    remove_tree,
)
from asyncsched.schedulers.local.supervisor.formats import APPS, STATE, SUPERVISORS

__all__ = ["StateDir", "Stored"]

_APP = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,200}")
LARGEST_RECORD = 256 << 20
_NO_RECORD = frozenset({errno.EINVAL, errno.ELOOP, errno.ENOTDIR, errno.ENXIO})
"""Errors for a link, a pipe, a socket or the like in the place of an app's record or directory."""
LATE_WORDS = 8
"""Tries to remove an app's directory, because its supervisor may be writing the final record."""


def _is_app_name(name: str) -> bool:
    """Return whether a directory's name can be an app's id."""
    return _APP.fullmatch(name) is not None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Stored:
    """An app's record on the disk, to recognise the app later.

    Attributes:
        app_id: Its id.
        content: Its record, or the error of reading it; None if there is no record.
    """

    app_id: str
    content: AppRecord | AsyncSchedError | None

    def is_same(self, now: AppRecord | AsyncSchedError | None) -> bool:
        """Return whether `now` is the record of the same app, or what is left of one."""
        if isinstance(self.content, AppRecord) and isinstance(now, AppRecord):
            return self.content.run == now.run
        return now is None or type(self.content) is type(now)


class StateDir:
    """One state directory, held open.

    Args:
        candidates: Possible paths; the first that exists is used, or with `make` the first that can be made. One that
            cannot be opened or made for now is an error, and not passed over: apps in it would be gone.
    """

    def __init__(self, candidates: Sequence[Path]) -> None:
        self._candidates = candidates
        self.path = candidates[0] if candidates else Path()
        self.fd = -1
        self._is_closed = False
        self._lock = threading.Lock()

    def choose(self) -> None:
        """Choose its path, without making it."""
        if not self.open():
            self.path = next(filter(_can_be_made, self._candidates), self.path)

    def open(self) -> bool:
        """Open it if it exists; return whether it does.

        Raises:
            PermissionDeniedError: It belongs to another user.
            SchedulerError: It cannot be opened; an UnavailableError if that may pass.
        """
        with self._lock:
            return self._open()

    def _open(self) -> bool:
        if self._is_closed:  # closed by a caller that did not wait for this thread
            raise FileNotFoundError(str(self.path))
        return self.fd >= 0 or any(self._try(path) for path in self._candidates)

    def make(self) -> None:
        """Open it; make it if needed.

        Raises:
            ConfigError: None of the candidates can be made; the message names the variable to set.
            PermissionDeniedError: It belongs to another user.
            UnavailableError: It cannot be opened or made for now, as where the disk has no space.
            SchedulerError: It cannot be opened, or something else is in its place.
        """
        with self._lock:
            problems = {} if self._open() else {path: self._make(path) for path in self._candidates if self.fd < 0}
        if self.fd < 0:
            raise ConfigError(
                "no directory can be used for the state of local apps",
                why="; ".join(f"{path}: {error and error.strerror}" for path, error in problems.items())
                or "there is no home directory",
                fix="set ASYNCSCHED_HOME to a directory that you own and can write to",
            )
        for name in (APPS, SUPERVISORS):  # checked here, because a supervisor could not report what is wrong
            self._make_below(name)

    def _make_below(self, name: str) -> None:
        try:
            os.close(open_directory(name, at=self.fd, create=True))
        except ForeignDirectory as error:
            raise _not_to_be_trusted(self.path / name, error) from error
        except OSError as error:
            is_in_place = error.errno in (errno.EEXIST, errno.ELOOP, errno.ENOTDIR)
            fix = "remove what is there" if is_in_place else ""
            raise failed(f"cannot create {self.path / name}", error, fix=fix) from error

    def _make(self, path: Path) -> OSError | None:
        """Make it there and open it, or return why that is impossible."""
        try:
            path.mkdir(0o700, parents=True, exist_ok=True)
        except OSError as error:
            if error.errno in UNMAKEABLE:
                return error
            raise failed(f"the state directory {path} cannot be made", error) from error
        return None if self._try(path) else OSError(errno.EACCES, "it cannot be opened")

    def _try(self, path: Path) -> bool:
        try:
            fd = open_directory(str(path))
        except ForeignDirectory as error:
            raise _not_to_be_trusted(path, error) from error
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            if error.errno == errno.EACCES and is_kept_out(path):
                return False
            raise failed(f"the state directory {path} cannot be opened", error) from error
        self.fd, self.path = fd, path
        return True

    def close(self) -> None:
        """Close it for good."""
        with self._lock:
            self._is_closed = True
            if self.fd >= 0:
                os.close(self.fd)
                self.fd = -1

    def app_path(self, app_id: str) -> Path:
        """Return an app's directory, for display."""
        return self.path / APPS / app_id

    def read(self, app_id: str) -> AppRecord | AsyncSchedError | None:
        """Return an app's record, or the error of reading it; None if there is no such app."""
        try:
            with self.below(APPS, app_id) as at:
                return _read(app_id, at)
        except FileNotFoundError:
            return None
        except AsyncSchedError as error:
            return error

    def app_ids(self) -> list[str]:
        """Return the ids of all apps."""
        if not self.open():
            return []
        try:
            with self.below(APPS) as at:
                return [name for name in os.listdir(at) if _is_app_name(name)]  # noqa: PTH208 - a descriptor
        except FileNotFoundError:
            return []

    def changed_at(self, app_id: str) -> float | None:
        """Return when an app's record was last replaced; without a record, when its directory was made.

        It works for unfinished apps too.
        """
        try:
            with self.below(APPS) as at:
                try:
                    return os.stat(f"{app_id}/{STATE}", dir_fd=at, follow_symlinks=False).st_mtime
                except FileNotFoundError:
                    return os.stat(app_id, dir_fd=at, follow_symlinks=False).st_mtime
        except (OSError, SchedulerError):
            return None

    def remove(self, judged: Stored) -> None:
        """Remove an app with its whole directory; do nothing if it does not exist, and raise if that cannot be told.

        Its record is removed first. If the rest cannot be removed, the app no longer exists, and the next delete, prune
        or submit of it removes what is left.

        A newer app of the same id is not removed: only the content of the directory that was opened and read here is
        removed, even if its name leads to another directory by then.
        """
        if not _is_app_name(judged.app_id):
            return
        try:
            with self.below(APPS, what=f"{judged.app_id} cannot be removed as a whole") as at:
                _remove(judged, at)
        except FileNotFoundError:
            pass

    def unfinished(self) -> list[str]:
        """Return the names of unfinished directories of apps, in use or left behind by supervisors."""
        try:
            with self.below(APPS) as at:
                return [name for name in os.listdir(at) if name.startswith(".")]  # noqa: PTH208 - a descriptor
        except FileNotFoundError:
            return []

    def remove_unfinished(self, name: str) -> None:
        """Remove one of them; such a name is never used twice."""
        try:
            with self.below(APPS) as at:
                remove_tree(name, at=at)
        except FileNotFoundError:
            pass

    @contextmanager
    def below(self, *parts: str, what: str = "") -> Generator[int]:
        """Open a directory in it for the block, without following links.

        Args:
            parts: The directory.
            what: What happened, if a system call of the block fails.

        Raises:
            FileNotFoundError: It does not exist, or its name is not valid here.
            SchedulerError: A system call failed.
        """
        fd = self.open_below(*parts)
        try:
            yield fd
        except (FileNotFoundError, AsyncSchedError):
            raise
        except OSError as error:
            raise failed(what or f"the state directory {self.path} cannot be read", error) from error
        finally:
            os.close(fd)

    def open_below(self, *parts: str) -> int:
        """Open a directory in it; the caller closes the descriptor."""
        if not self.open() or (len(parts) > 1 and not _is_app_name(parts[1])):
            raise FileNotFoundError(str(self.path.joinpath(*parts)))
        try:
            return open_path("/".join(parts), at=self.fd)
        except ValueError as error:
            raise FileNotFoundError(str(error)) from error
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _unread(f"the state directory {self.path} cannot be read", error) from error

    def open_sockets(self) -> int:
        """Open the directory of the supervisors' sockets."""
        return self.open_below(SUPERVISORS)


def _read(app_id: str, at: int) -> AppRecord | AsyncSchedError | None:
    """Return the record in an app's directory, or the error of reading it."""
    try:
        return read_record(app_id, read_regular(STATE, at=at, limit=LARGEST_RECORD))
    except FileNotFoundError:
        return None
    except AsyncSchedError as error:
        return error
    except OSError as error:
        return _unread(f"the record of {app_id} cannot be read", error)


def _unread(what: str, error: OSError) -> SchedulerError:
    """Return the error for something that cannot be read; a SpoiltError only if no record can be there."""
    return failed(what, error, otherwise=SpoiltError if error.errno in _NO_RECORD else SchedulerError)


def _remove(judged: Stored, apps_at: int) -> None:
    name = judged.app_id
    try:
        fd = os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=apps_at)
    except NotADirectoryError:
        remove_file(name, at=apps_at)  # this does not remove a directory
        return
    try:
        found = _read(name, fd)
        if judged.is_same(found):
            for _ in range(LATE_WORDS):
                remove_file(STATE, at=fd)  # first: without its record the app no longer exists
                remove_opened(fd, name, at=apps_at)
                if not os.listdir(fd):  # noqa: PTH208 - a descriptor
                    break
        elif isinstance(found, AsyncSchedError):
            raise found  # the app is still there
    finally:
        os.close(fd)


def _not_to_be_trusted(path: Path, error: ForeignDirectory) -> PermissionDeniedError:
    return PermissionDeniedError(
        f"the state directory {path} is not safe",
        why=f"it {error.strerror}",
        fix="remove it, or set ASYNCSCHED_HOME to a directory that you own",
        backend=BACKEND,
    )


def _can_be_made(path: Path) -> bool:
    there = next(each for each in (path, *path.parents) if os.path.exists(each))  # noqa: PTH110 - never an error
    return os.access(there, os.W_OK | os.X_OK)
