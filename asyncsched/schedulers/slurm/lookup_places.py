"""Places in which nobody else can put something in the place of an app, whose job runs what its directory holds."""

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
    """Raise for a directory that is not one of this user, and of nobody else."""
    is_own = found.st_uid == _platform.user_id() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if not stat.S_ISDIR(found.st_mode) or not is_own:
        raise foreign(directory, operation)


def provide_place(place: Path, operation: str) -> None:
    """Make a directory for apps, if there is none, and see that only root and we can change the way to it.

    Raises:
        PermissionDeniedError: Another user can.
        OSError: It cannot be made.
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
                raise OSError(f"{place} leads over more than {_MOST_LINKS} links")
            left += reversed(way.readlink().parts)
            way = way.parent
        elif _may_others_write(found):
            raise open_to_others(str(way), str(place), operation)


def _may_others_write(found: os.stat_result) -> bool:
    """Tell whether others may rename what is not theirs; a group in which we are alone holds no others."""
    if found.st_mode & stat.S_ISVTX:
        return False
    if found.st_mode & stat.S_IWGRP and not _is_own_group(found.st_gid):
        return True
    return bool(found.st_mode & stat.S_IWOTH)


def _is_own_group(gid: int) -> bool:
    me = _platform.user_id()
    if me is None:
        return False
    import grp  # there are none where users have no numbers
    import pwd

    try:
        user, group = pwd.getpwuid(me), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and user.pw_name == group.gr_name and not {*group.gr_mem} - {user.pw_name}
