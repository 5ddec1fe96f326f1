"""Check whether others may have written a configuration file, which can name programs to run and servers to contact.

A file is checked through the descriptor that it is read from, because the name may refer to another file later.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from asyncsched import _platform
from asyncsched.errors import ConfigError

__all__ = ["TRUST_VARIABLE", "ConfigFile", "expanded", "open_config", "text_of", "trusted_owners", "trusted_paths"]

TRUST_VARIABLE = "ASYNCSCHED_TRUST_CONFIG"
"""Names files, and folders with all that is below them, whose configuration counts whoever may write to it."""

LARGEST = 1 << 20
"""Bytes of a file that are read: a larger one configures nothing, and may not fit into memory."""

LARGEST_DOUBTED = 1 << 16
"""Bytes of a file that others may have written: reading a larger one would take long."""

MOST_LINKS = 40
"""Links to links that are followed, as Linux does."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ConfigFile:
    """A file and its contents.

    Attributes:
        path: Its path.
        data: Its contents, or the beginning of a file that is too large.
        doubt: Why others may have written it; empty if only trusted users can.
        error: Why it cannot be read, or None.
        no_file: What is in its place if it is no regular file and leads to none; nothing else is read.
    """

    path: Path
    data: bytes = b""
    doubt: str = ""
    error: OSError | None = None
    no_file: str = ""


def text_of(file: ConfigFile, name: str) -> str:
    """Return the text of a file, with the ends of lines as files have them.

    Raises:
        ConfigError: It cannot be read.
    """
    try:
        if file.error is not None:
            raise file.error
        return io.TextIOWrapper(io.BytesIO(file.data), encoding="utf-8").read()
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigError(f"{name} cannot be read", why=why) from error


def trusted_owners(folder: Path | None) -> frozenset[int]:
    """Return the users whose files are trusted for a working directory or a home: ourselves, root, and its owner."""
    user = _platform.user_id()
    if user is None:
        return frozenset()
    try:
        return frozenset({user, 0} if folder is None else {user, 0, folder.stat().st_uid})
    except OSError:  # not every home exists
        return frozenset({user, 0})


def trusted_paths(start: Path, environment: Mapping[str, str]) -> list[Path]:
    """Return the paths that the user trusts.

    Raises:
        ConfigError: A path begins with an unknown home.
    """
    named = environment.get(TRUST_VARIABLE, "").split(os.pathsep)
    return [(start / expanded(path, TRUST_VARIABLE)).resolve() for path in named if path]


def expanded(path: str, variable: str) -> Path:
    """Return the path that a variable names, with the home of ``~`` or ``~user``.

    Raises:
        ConfigError: Nobody knows that home.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        why = f"{variable} names it, and there is no such home"
        raise ConfigError(f"no file {path}", why=why, fix="correct or unset the variable") from error


def open_config(path: Path, owners: Collection[int] | None = None, links: int = MOST_LINKS) -> ConfigFile | None:
    """Read a file; None if it does not exist or leads to ``/dev/null``.

    Args:
        path: The file; special files such as FIFOs are not read.
        owners: The trusted owners; None if the path itself is trusted.
        links: How many links to follow, if the path itself is not trusted: each is judged like a file.
    """
    if not _platform.can_open_relative():
        return _read_by_name(path, owners)
    try:
        folder = os.open(path.parent, getattr(os, "O_PATH", os.O_RDONLY) | _platform.DIRECTORY | _platform.CLOEXEC)
    except OSError:
        return None
    try:
        name = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        if owners is not None and stat.S_ISLNK(name.st_mode):
            target = path.parent / os.readlink(path.name, dir_fd=folder)
            file = open_config(target, owners, links - 1) if links else None
            if file is None:
                return _no_file(path)
            about_target = f"it links to {target}, and {file.doubt}" if file.doubt else ""
            return _bounded(replace(file, path=path, doubt=_doubt(name, None, folder, owners) or about_target))
        return _read(path, folder, owners) or _no_file(path)
    except OSError:
        return None
    finally:
        os.close(folder)


def _read(path: Path, folder: int, owners: Collection[int] | None) -> ConfigFile | None:
    """Read a file in an open folder; None if it is not a regular file."""
    flags = os.O_RDONLY | _platform.NONBLOCK | _platform.NOCTTY | _platform.CLOEXEC
    try:
        fd = os.open(path.name, flags | (0 if owners is None else _platform.NOFOLLOW), dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM):
            return None
        found = os.stat(path.name, dir_fd=folder, follow_symlinks=owners is None)
        if not stat.S_ISREG(found.st_mode):
            return None
        return ConfigFile(path=path, doubt=_doubt(found, None, folder, owners), error=error)
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        os.close(fd)
        return None
    with open(fd, "rb") as file:  # noqa: PTH123 - it is open already
        return _with_contents(path, file, _doubt(found, fd, folder, owners))


def _with_contents(path: Path, file: BinaryIO, doubt: str) -> ConfigFile:
    return _bounded(ConfigFile(path=path, data=file.read(LARGEST + 1), doubt=doubt))


def _bounded(file: ConfigFile) -> ConfigFile:
    """Return the file, with an error if it is too large for what is known about it."""
    most = LARGEST_DOUBTED if file.doubt else LARGEST
    if file.error is not None or len(file.data) <= most:
        return file
    return replace(file, error=OSError(errno.EFBIG, f"it is larger than {most} bytes"))


def _read_by_name(path: Path, owners: Collection[int] | None) -> ConfigFile | None:
    """Read a file on a system without owners and modes: only its path can be trusted."""
    try:
        with path.open("rb") as file:
            return _with_contents(path, file, "" if owners is None else "nobody can tell here who may write to it")
    except OSError as error:
        if isinstance(error, PermissionError) and path.is_file():
            return ConfigFile(path=path, error=error)
        return _no_file(path)


def _no_file(path: Path) -> ConfigFile | None:
    """Return what is in the place of a file; None for ``/dev/null``, which switches a file off."""
    try:
        found = path.stat()
        if stat.S_ISCHR(found.st_mode) and found.st_rdev == Path(os.devnull).stat().st_rdev:
            return None
    except OSError:
        text = "it links to a file that does not exist or cannot be reached"
        return ConfigFile(path=path, no_file=text) if os.path.lexists(path) else None
    return ConfigFile(path=path, no_file="it is not a regular file")


def _doubt(file: os.stat_result, fd: int | None, folder_fd: int, owners: Collection[int] | None) -> str:
    """Return why others may have written the file or placed it in its folder; `fd` is the file, if it is open."""
    if owners is None:
        return ""
    if file.st_uid not in owners:
        return f"it belongs to {_platform.user_name(file.st_uid)}"
    is_link = stat.S_ISLNK(file.st_mode)  # the mode of a link means nothing
    if not is_link and _others_may_write(file, fd):
        return f"others may write to it (mode {stat.S_IMODE(file.st_mode):04o})"
    folder = os.fstat(folder_fd)
    if folder.st_uid not in owners:
        return f"its folder belongs to {_platform.user_name(folder.st_uid)}"
    # In a sticky folder, such as /tmp, users cannot replace each other's files.
    if not folder.st_mode & stat.S_ISVTX and _others_may_write(folder, folder_fd):
        return f"others may write to its folder (mode {stat.S_IMODE(folder.st_mode):04o})"
    return ""


def _others_may_write(found: os.stat_result, fd: int | None) -> bool:
    """Return whether others than the owner and root may write to a file or folder.

    Kubernetes mounts the folder of a ConfigMap read-only with mode 0777, and OpenShift makes homes writable for the
    group 0, which is root's.
    """
    is_of_root = found.st_gid == 0 and not found.st_mode & stat.S_IWOTH
    if is_of_root or not _platform.others_may_write(found, {found.st_uid}):
        return False
    return fd is None or not _is_read_only(fd)


def _is_read_only(fd: int) -> bool:
    """Return whether an open file is on a read-only mount, as far as this system tells."""
    flag: int = getattr(os, "ST_RDONLY", 0)
    try:
        return bool(flag) and bool(os.fstatvfs(fd).f_flag & flag)
    except OSError:
        return False
