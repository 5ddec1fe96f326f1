"""The files that groups share with other processes, in ``groups`` in the state directory."""

from __future__ import annotations

import os
from pathlib import Path

from asyncsched._home import find_home
from asyncsched.specs.names import derive_id

__all__ = ["file_name", "make_folder"]


def file_name(session: str, group: str, suffix: str) -> str:
    """Return the name of a group's file."""
    return f"{derive_id(group, session)}{suffix}"


def make_folder() -> Path:
    """Return the directory, created at the first place where that works.

    Raises:
        OSError: It cannot be created.
    """
    errors: list[OSError] = []
    for home in find_home(os.environ):
        folder = home / "groups"
        try:
            home.mkdir(0o700, parents=True, exist_ok=True)
            folder.mkdir(0o700, exist_ok=True)
        except OSError as error:
            errors.append(error)
        else:
            return folder
    raise errors[0] if errors else FileNotFoundError("there is no home directory; set ASYNCSCHED_HOME")
