"""Check that a program can be executed, before any replica runs."""

from __future__ import annotations

import errno
import os
import stat

from . import TYPE_CHECKING
from .limits import room_for_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LONGEST_WORD = 128 * 1024
"""Longest argument or variable of Linux in bytes, including the final NUL."""

POINTER = 8
SPARE = 4096
"""Bytes reserved for the program's name and for what a script's first line adds."""

BINFMT = "/proc/sys/fs/binfmt_misc"


def variable_sizes(env: Mapping[str, str]) -> dict[str, int]:
    """Return the size of each variable; raise as `check_arguments` does."""
    sizes: dict[str, int] = {}
    for name, value in env.items():
        if not name or "=" in name:
            raise ValueError(f"not a valid variable name: {name!r}")
        sizes[name] = _size(f"{name}={value}", f"variable {name!r}")
    return sizes


def check_arguments(argv: Sequence[str], env: Mapping[str, str], common: Mapping[str, int]) -> None:
    """Check that arguments and variables can be passed to a program; errors do not repeat values.

    Args:
        argv: The command and its arguments.
        env: The variables of this program only.
        common: The sizes of variables shared with other programs; those in `env` override them.

    Raises:
        ValueError: An argument contains NUL, or cannot be encoded; a variable's name is not valid.
        OSError: They are too long.
    """
    total = SPARE + sum(common.values())
    for number, word in enumerate(argv):
        total += _size(word, "the command" if number == 0 else f"argument {number}")
    for name, size in variable_sizes(env).items():
        total += size - common.get(name, 0)
    if total > room_for_arguments():
        raise OSError(errno.E2BIG, "the arguments and the environment are too long")


def _size(word: str, what: str) -> int:
    try:
        size = len(os.fsencode(word)) + 1
    except UnicodeEncodeError:
        raise ValueError(f"{what} cannot be encoded on this machine") from None
    if "\0" in word:
        raise ValueError(f"{what} contains a NUL byte")
    if size > LONGEST_WORD:
        raise OSError(errno.E2BIG, f"{what} is too long")
    return size + POINTER


def find_program(name: str, path: str) -> str:
    """Return the path of a program, as a shell would find it.

    Raises:
        FileNotFoundError: The program, or the interpreter in its first line, does not exist.
        PermissionError: It is not executable.
        OSError: The kernel could not execute it.
    """
    if not name:
        raise FileNotFoundError(errno.ENOENT, "the command is empty")
    candidates = [name] if "/" in name else [os.path.join(each or ".", name) for each in path.split(os.pathsep)]
    refused = ""
    for candidate in candidates:
        if _is_file(candidate):
            if os.access(candidate, os.X_OK):
                _check_header(candidate)
                return candidate
            refused = refused or candidate
    if refused:
        raise PermissionError(errno.EACCES, "is not executable", refused)
    if "/" in name and os.path.isdir(name):
        raise PermissionError(errno.EACCES, "is a directory", name)
    raise FileNotFoundError(errno.ENOENT, "No such file or directory" if "/" in name else "not found in PATH", name)


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def _check_header(program: str) -> None:
    try:
        fd = os.open(program, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        return  # the kernel checks a program that may be executed but not read
    header = os.read(fd, 256)
    os.close(fd)
    if header.startswith(b"#!"):
        # Parsed like the kernel does: a carriage return is part of the name.
        words = header[2:].split(b"\n", 1)[0].replace(b"\t", b" ").strip(b" ").split(b" ")
        interpreter = os.fsdecode(words[0])
        if not os.path.exists(interpreter):
            raise FileNotFoundError(errno.ENOENT, f"its interpreter {interpreter!r} does not exist", program)
        if not os.access(interpreter, os.X_OK):
            raise PermissionError(errno.EACCES, f"its interpreter {interpreter!r} is not executable", program)
    elif not header.startswith(b"\x7fELF") and not _has_other_formats():
        raise OSError(errno.ENOEXEC, "is neither a binary nor a script that begins with #!", program)


def _has_other_formats() -> bool:
    try:
        return bool(set(os.listdir(BINFMT)) - {"register", "status"})
    except OSError:
        return False
