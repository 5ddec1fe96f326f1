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
    is_own = found.st_uid == _platform.user_id() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if not stat.S_ISDIR(found.st_mode) or not is_own:
        raise foreign(directory, operation)


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
    way, left, links = Path(), [*reversed(place.parts)], 0
    while left:
        way /= left.pop()
        found = way.lstat()
        if found.st_uid not in (0, _platform.user_id()):
            raise open_to_others(str(way), str(place), operation)
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > _MOST_LINKS:
                raise OSError(f"{place} has more than {_MOST_LINKS} links in its path")
            left += reversed(way.readlink().parts)
            way = way.parent
        elif _may_others_write(found):
            raise open_to_others(str(way), str(place), operation)


def _may_others_write(found: os.stat_result) -> bool:
    """Return whether others may rename files that are not theirs; a group with only this user has no others."""
    if found.st_mode & stat.S_ISVTX:
        return False
    if found.st_mode & stat.S_IWGRP and not _is_own_group(found.st_gid):
        return True
    return bool(found.st_mode & stat.S_IWOTH)


def _is_own_group(gid: int) -> bool:
    me = _platform.user_id()
    if me is None:
        return False
    import grp  # missing on systems without user ids
    import pwd

    try:
        user, group = pwd.getpwuid(me), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and user.pw_name == group.gr_name and not {*group.gr_mem} - {user.pw_name}
