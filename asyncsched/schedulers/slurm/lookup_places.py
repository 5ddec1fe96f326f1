"""Check that no other user can replace an app's directory, from which its job runs scripts."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from asyncsched import _platform
from asyncsched.schedulers.slurm.errors import foreign, open_to_others

__all__ = ["check_own", "provide_place"]

_MOST_LINKS = 40


def check_own(directory: str, found: os.stat_result, operation: str) -> None:
    """Raise if a directory does not belong to this user alone."""
    if not stat.S_ISDIR(found.st_mode):
        raise foreign(directory, "it is not a directory", operation)
    if found.st_uid != _platform.user_id():
        raise foreign(directory, f"it {_belongs(found)}", operation)
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise foreign(directory, f"it {_lets_write(found)}", operation)


def provide_place(place: Path, operation: str) -> None:
    """Create a directory for apps if needed, and check that only root and this user can change its path.

    Raises:
        PermissionDeniedError: Another user can.
        OSError: It cannot be created.
    """
    missing = [each for each in (place, *place.parents) if not each.exists()]
    for each in reversed(missing):
        with suppress(FileExistsError):
            each.mkdir(mode=0o700)
    users = _root_and_me()
    way, left, links = Path(), [*reversed(place.parts)], 0
    while left:
        way /= left.pop()
        found = way.lstat()
        if found.st_uid not in users:
            raise open_to_others(str(place), f"{way} {_belongs(found)}", operation)
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > _MOST_LINKS:
                raise OSError(f"{place} has more than {_MOST_LINKS} links in its path")
            left += reversed(way.readlink().parts)
            way = way.parent
        elif not found.st_mode & stat.S_ISVTX and _platform.others_may_write(found, users):
            fix = f"set the sticky bit of {way} (chmod +t), or "
            raise open_to_others(str(place), f"{way} {_lets_write(found)}", operation, fix=fix)


def _root_and_me() -> set[int]:
    me = _platform.user_id()
    return {0} if me is None else {0, me}


def _belongs(found: os.stat_result) -> str:
    return f"belongs to {_platform.user_name(found.st_uid)}"


def _lets_write(found: os.stat_result) -> str:
    return f"has mode {stat.S_IMODE(found.st_mode):04o}, which lets others write"
