"""The files that groups share with other processes, in ``groups`` in the state directory."""

from __future__ import annotations

import os
from pathlib import Path

from asyncsched._home import UNMAKEABLE, find_home, is_there
from asyncsched.specs.names import derive_id

__all__ = ["file_name", "make_folder"]


def file_name(session: str, group: str, suffix: str) -> str:
    """Return the name of a group's file."""
    return f"{derive_id(group, session)}{suffix}"


def make_folder() -> Path:
    """Return the directory, created where the state is or, if there is none, at the first place where that works.

    Raises:
        OSError: It cannot be created.
    """
    errors: list[OSError] = []
    candidates = find_home(os.environ)
    for home in [each for each in candidates if is_there(each)][:1] or candidates:
        folder = home / "groups"
        try:
            home.mkdir(0o700, parents=True, exist_ok=True)
            folder.mkdir(0o700, exist_ok=True)
        except OSError as error:
            if error.errno not in UNMAKEABLE:
                raise
            errors.append(error)
        else:
            return folder
    raise errors[0] if errors else FileNotFoundError("there is no home directory; set ASYNCSCHED_HOME")
