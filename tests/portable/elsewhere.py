"""Run a program as if this were another system: for asyncsched alone, parts of the standard library are missing.

    python elsewhere.py KIND PROGRAM [ARGUMENT ...]

``blocked`` leaves out modules that not every Python has; ``windows`` also what `os`, `signal` and `socket` lack there.
Whoever asks is known by the module that imports, so that the standard library itself and SDKs work as ever.
"""

from __future__ import annotations

import builtins
import importlib
import os
import runpy
import signal
import socket
import sys
import types
from collections.abc import Mapping, Sequence

BLOCKED = frozenset({"fcntl", "grp", "pwd", "resource", "termios", "tty"})
OF_WINDOWS = BLOCKED | {"_posixsubprocess", "curses", "posix", "pty", "readline", "syslog"}

_OS = """
O_CLOEXEC O_DIRECTORY O_DSYNC O_NOCTTY O_NOFOLLOW O_NONBLOCK O_PATH O_SYNC WNOHANG
chown copy_file_range eventfd fchdir fchmod fchown fork forkpty getegid geteuid getgid getgrouplist getgroups
getloadavg getpgid getpgrp getuid initgroups killpg lchown lockf memfd_create mkfifo nice pidfd_open posix_fadvise
posix_fallocate posix_spawn pread preadv pwrite pwritev register_at_fork sched_getaffinity sendfile setpgid setsid
splice statvfs sysconf uname wait3 wait4 waitid
"""
_SIGNALS = "SIGALRM SIGCHLD SIGHUP SIGKILL SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 SIGWINCH pthread_sigmask"


class Part(types.ModuleType):
    """A module without some of its names, and with some values of another system."""

    def __init__(self, whole: types.ModuleType, missing: str, others: Mapping[str, object] | None = None) -> None:
        super().__init__(whole.__name__)
        self.__dict__.update(others or {})
        self._whole = whole
        self._missing = frozenset(missing.split())

    def __getattr__(self, name: str) -> object:
        if name in self._missing:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} on this system")
        return getattr(self._whole, name)


def become(kind: str) -> None:
    """Have asyncsched find another system from now on."""
    windows = kind == "windows"
    blocked = OF_WINDOWS if windows else BLOCKED
    parts = {
        "os": Part(os, _OS, {"name": "nt", "supports_dir_fd": frozenset[object]()}),
        "signal": Part(signal, _SIGNALS),
        "socket": Part(socket, "AF_UNIX SO_PEERCRED"),
        "sys": Part(sys, "", {"platform": "win32"}),
    }
    original, by_name = builtins.__import__, importlib.import_module

    def find(
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 - as the builtin has it
        locals: Mapping[str, object] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> types.ModuleType:
        if level == 0 and str((globals or {}).get("__name__", "")).partition(".")[0] == "asyncsched":
            if name.partition(".")[0] in blocked:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            if windows and name in parts:
                return parts[name]
        return original(name, globals, locals, fromlist or (), level)

    def find_by_name(name: str, package: str | None = None) -> types.ModuleType:
        if name in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return by_name(name, package)

    builtins.__import__ = find
    importlib.import_module = find_by_name


if __name__ == "__main__":
    become(sys.argv[1])
    program = sys.argv[2]
    sys.argv = sys.argv[2:]
    runpy.run_path(program, run_name="__main__")
