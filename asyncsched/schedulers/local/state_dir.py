"""The state directory: where it is, and what lies in it.

::

    HOME/apps/APP_ID/state.json            the app's record, replaced as a whole
    HOME/apps/APP_ID/workspace             the copy of its workspace, where it was given one
    HOME/apps/APP_ID/ROLE/K/index          when which chunk of output was read, and where it lies
    HOME/apps/APP_ID/ROLE/K/stdout.log     what the replica has written, as it is; also stderr.log, combined.log
    HOME/apps/APP_ID/ROLE/K/error.json     what the replica says of its own failure
    HOME/apps/APP_ID/ROLE/K/result.json    what it leaves as its result
    HOME/supervisors/PID-START.sock        where a supervisor can be asked

Everything here reads and writes files: call it in a thread.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from asyncsched.errors import AsyncSchedError, ConfigError, PermissionDeniedError, SchedulerError, UnavailableError
from asyncsched.schedulers.local.status_record import BACKEND, AppRecord, SpoiltError, read_record
from asyncsched.schedulers.local.supervisor.files import (
    DIRECTORY,
    USED_UP,
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
LATE_WORDS = 8
"""How often an app's directory is emptied: its supervisor may just be writing down that it has ended."""


def _is_app_name(name: str) -> bool:
    """Tell whether a directory's name can be an app's id."""
    return _APP.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Stored:
    """What the disk says of an app, by which it is known again.

    Attributes:
        app_id: Its id.
        content: Its record, or why there is none that could be read; None if there is none at all.
    """

    app_id: str
    content: AppRecord | AsyncSchedError | None

    def is_same(self, now: AppRecord | AsyncSchedError | None) -> bool:
        """Tell whether what stands there now is the same app, or what is left of one."""
        if isinstance(self.content, AppRecord) and isinstance(now, AppRecord):
            return self.content.run == now.run
        return now is None or type(self.content) is type(now)


class StateDir:
    """One state directory, held open.

    Args:
        candidates: Where it may be; the first is taken that is there or, if `make` is called, can be made.
    """

    def __init__(self, candidates: Sequence[Path]) -> None:
        self._candidates = candidates
        self.path = candidates[0] if candidates else Path()
        self.fd = -1
        self._is_closed = False
        self._lock = threading.Lock()

    def choose(self) -> None:
        """Settle where it is or would be made, without making it."""
        if not self.open():
            self.path = next(filter(_can_be_made, self._candidates), self.path)

    def open(self) -> bool:
        """Open it if it is there; tell whether it is."""
        with self._lock:
            return self._open()

    def _open(self) -> bool:
        if self._is_closed:  # by someone who did not wait for the thread that this is
            raise FileNotFoundError(str(self.path))
        return self.fd >= 0 or any(self._try(path) for path in self._candidates)

    def make(self) -> None:
        """Open it, making it if need be.

        Raises:
            ConfigError: None of the candidates can be made; says which variable to set.
            PermissionDeniedError: It belongs to somebody else.
            SchedulerError: Something else stands where it should be.
        """
        with self._lock:
            problems = [] if self._open() else [self._make(path) for path in self._candidates if self.fd < 0]
        if self.fd < 0:
            raise ConfigError(
                "there is no place for the state of local apps",
                why="; ".join(problems) or "there is no home directory",
                fix="set ASYNCSCHED_HOME to a directory of yours that can be written to",
            )
        for name in (APPS, SUPERVISORS):  # a supervisor could not say what is wrong with them
            self._make_below(name)

    def _make_below(self, name: str) -> None:
        try:
            os.close(open_directory(name, at=self.fd, create=True))
        except ForeignDirectory as error:
            raise _not_to_be_trusted(self.path / name, error) from error
        except OSError as error:
            raise SchedulerError(
                f"{self.path / name} cannot be made",
                why=error.strerror or "",
                fix="remove what is there",
                backend=BACKEND,
            ) from error

    def _make(self, path: Path) -> str:
        """Make it there and open it, or return what stands in the way."""
        try:
            path.mkdir(0o700, parents=True, exist_ok=True)
        except OSError as error:
            return f"{path}: {error.strerror}"
        return "" if self._try(path) else f"{path} cannot be opened"

    def _try(self, path: Path) -> bool:
        try:
            fd = open_directory(str(path))
        except ForeignDirectory as error:
            raise _not_to_be_trusted(path, error) from error
        except OSError as error:
            if error.errno in USED_UP:
                raise UnavailableError(
                    f"the state directory {path} cannot be opened", why=error.strerror or "", backend=BACKEND
                ) from error
            return False
        self.fd, self.path = fd, path
        return True

    def close(self) -> None:
        """Let go of it for good."""
        with self._lock:
            self._is_closed = True
            if self.fd >= 0:
                os.close(self.fd)
                self.fd = -1

    def app_path(self, app_id: str) -> Path:
        """Return an app's directory, to be shown."""
        return self.path / APPS / app_id

    def read(self, app_id: str) -> AppRecord | AsyncSchedError | None:
        """Return what the disk says of an app; None if there is none of that id."""
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
        """Return when an app's record was last replaced; that of one that never got any: when it was made.

        An unfinished one may be asked about, too.
        """
        try:
            with self.below(APPS) as at:
                try:
                    return os.stat(f"{app_id}/{STATE}", dir_fd=at, follow_symlinks=False).st_mtime
                except FileNotFoundError:
                    return os.stat(app_id, dir_fd=at, follow_symlinks=False).st_mtime
        except OSError:
            return None

    def remove(self, judged: Stored) -> None:
        """Remove an app with all that is in its directory; one that is not there is fine.

        Only that one is removed: another that has been submitted as the same since is left alone. For what is
        removed is what lies in the directory that has been opened and read here, wherever its name leads by then.
        """
        if not _is_app_name(judged.app_id):
            return
        try:
            with self.below(APPS) as at:
                _remove(judged, at)
        except FileNotFoundError:
            pass

    def unfinished(self) -> list[str]:
        """Return the names under which supervisors make, or have left, directories of apps."""
        try:
            with self.below(APPS) as at:
                return [name for name in os.listdir(at) if name.startswith(".")]  # noqa: PTH208 - a descriptor
        except FileNotFoundError:
            return []

    def remove_unfinished(self, name: str) -> None:
        """Remove one of them; its name is given once only."""
        try:
            with self.below(APPS) as at:
                remove_tree(name, at=at)
        except FileNotFoundError:
            pass

    @contextmanager
    def below(self, *parts: str) -> Generator[int]:
        """Open a directory in it for a while, none of the way through a link.

        Raises:
            FileNotFoundError: It is not there, or that cannot be the name of anything of ours.
        """
        fd = self.open_below(*parts)
        try:
            yield fd
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
            raise _unreadable(f"the state directory {self.path} cannot be read", error) from error

    def open_sockets(self) -> int:
        """Open the directory of the supervisors' sockets."""
        return self.open_below(SUPERVISORS)


def _read(app_id: str, at: int) -> AppRecord | AsyncSchedError | None:
    """Return what the record in an app's directory says."""
    try:
        return read_record(app_id, read_regular(STATE, at=at, limit=LARGEST_RECORD))
    except FileNotFoundError:
        return None
    except AsyncSchedError as error:
        return error
    except OSError as error:
        return _unreadable(f"the record of {app_id} cannot be read", error)


def _remove(judged: Stored, apps_at: int) -> None:
    name = judged.app_id
    try:
        fd = os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=apps_at)
    except NotADirectoryError:
        remove_file(name, at=apps_at)  # which removes no directory
        return
    try:
        if judged.is_same(_read(name, fd)):
            for _ in range(LATE_WORDS):
                remove_file(STATE, at=fd)  # first: from then on there is no such app
                remove_opened(fd, name, at=apps_at)
                if not os.listdir(fd):  # noqa: PTH208 - a descriptor
                    break
    finally:
        os.close(fd)


def _unreadable(what: str, error: OSError) -> SchedulerError:
    kind = UnavailableError if error.errno in USED_UP else SpoiltError
    return kind(what, why=str(error), backend=BACKEND)


def _not_to_be_trusted(path: Path, error: ForeignDirectory) -> PermissionDeniedError:
    return PermissionDeniedError(
        f"the state directory {path} is not to be trusted",
        why=f"it {error.strerror}",
        fix="remove it, or set ASYNCSCHED_HOME to a directory of yours",
        backend=BACKEND,
    )


def _can_be_made(path: Path) -> bool:
    there = next(each for each in (path, *path.parents) if each.exists())
    return os.access(there, os.W_OK | os.X_OK)
