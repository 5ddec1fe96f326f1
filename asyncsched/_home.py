"""The directory for state on this machine."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path

from asyncsched import _platform

__all__ = ["UNMAKEABLE", "find_home", "is_kept_out", "is_there"]

UNMAKEABLE = frozenset(
    {
        errno.EACCES,
        errno.EEXIST,
        errno.EINVAL,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOSYS,
        errno.ENOTDIR,
        errno.EOPNOTSUPP,
        errno.EPERM,
        errno.EROFS,
    }
)
"""Errors for a candidate that cannot be made, so that the next one is used; others may pass."""


def find_home(environ: Mapping[str, str]) -> list[Path]:
    """Return the candidates for the state directory, the best first."""
    named = environ.get("ASYNCSCHED_HOME")
    if named:
        return [_expanded(named).absolute()]
    # The specification of these variables says to ignore relative paths.
    state = _expanded(environ.get("XDG_STATE_HOME") or "~/.local/state")
    runtime = Path(environ.get("XDG_RUNTIME_DIR") or ".")
    return [directory / "asyncsched" for directory in (state, runtime) if directory.is_absolute()]


def _expanded(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:  # the home directory is unknown
        return Path(text)


def is_there(directory: Path) -> bool:
    """Return whether a candidate exists, so that the state is there.

    Raises:
        OSError: That cannot be told for now.
    """
    try:
        os.stat(directory)  # noqa: PTH116 - `Path.exists` takes some errors for a missing file
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError:
        if is_kept_out(directory):
            return False
        raise
    return True


def is_kept_out(directory: Path) -> bool:
    """Return whether the path leads through another user's directory that we may not enter: nothing there is ours."""
    for each in (directory, *directory.parents):
        try:
            found = each.stat()
        except OSError:
            continue
        return each != directory and found.st_uid != _platform.user_id() and not os.access(each, os.X_OK)
    return False
