"""Which calls of ours can block, made in the thread of a running loop.

Python's audit events tell of connecting, resolving and of everything that touches a directory or
opens a file, on any loop and from C as well. What has no event (sleeping, reading, fsync,
waiting) is wrapped. A call counts when it comes from `asyncsched` without asyncio, or Python's
import system, in between.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

_DIRECTORY_CALLS = "chmod chown link listdir mkdir remove rename rmdir scandir symlink truncate utime"
_NETWORK_CALLS = "connect getaddrinfo gethostbyaddr gethostbyname"
_AUDITED = {
    "open",
    "sqlite3.connect",
    *(f"os.{name}" for name in _DIRECTORY_CALLS.split()),
    *(f"socket.{name}" for name in _NETWORK_CALLS.split()),
}

_SPEC = importlib.util.find_spec("asyncsched")
assert _SPEC is not None
OURS = f"{Path(str(_SPEC.origin)).parent}/"

# Reading what the kernel already holds is how logs are followed; see the design of logs.
_MAY_READ = OURS + "logs/open_files"
_BRIEF = {
    threading.Thread.start.__code__,  # waits until the thread runs: microseconds, and no way around it
    ThreadPoolExecutor.submit.__code__,  # asks for an idle thread with a timeout of zero
}
_NOT_OURS = ("/asyncio/", "/uvloop/", "<frozen importlib", "/importlib/", "/linecache.py", "/traceback.py", "/_pytest/")


class Watch:
    """Records blocking calls while it is switched on."""

    def __init__(self) -> None:
        self.on = False
        self.calls: list[str] = []

    @property
    def here(self) -> bool:
        """Whether it is on, and this is the thread of a running loop."""
        return self.on and asyncio._get_running_loop() is not None

    def install(self) -> None:
        """Hook in, once for the process."""
        sys.addaudithook(self._on_event)
        self._wrap(time, "sleep")
        self._wrap(os, "fsync")
        self._wrap(os, "fdatasync")
        for name in ("read", "pread", "readv", "preadv", "write", "pwrite"):
            self._wrap(os, name, blocks=lambda fd, *_, **__: os.get_blocking(fd))
        self._wrap(os, "waitpid", blocks=lambda pid, options: not options & os.WNOHANG)
        self._wrap(os, "waitid", blocks=lambda idtype, id_, options: not options & os.WNOHANG)
        self._wrap(subprocess.Popen, "wait")
        self._wrap(threading.Thread, "join")
        self._wrap(threading.Condition, "wait")

    def _wrap(self, owner: Any, name: str, blocks: Callable[..., bool] = lambda *_, **__: True) -> None:
        function = getattr(owner, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            if self.here and blocks(*args, **kwargs):
                self._record(f"{owner.__name__}.{name}", sys._getframe(1))
            return function(*args, **kwargs)

        setattr(owner, name, watched)

    def _on_event(self, event: str, args: tuple[Any, ...]) -> None:
        if event not in _AUDITED or not self.here:
            return
        if event == "open" and isinstance(args[0], int):
            return  # a file object around an open descriptor
        if event == "socket.connect" and args[0].gettimeout() == 0:
            return
        self._record(event, sys._getframe(1))

    def _record(self, call: str, frame: FrameType | None) -> None:
        caller = _caller(frame)
        if caller is not None:
            place = f"{caller.f_code.co_filename}:{caller.f_lineno} in {caller.f_code.co_qualname}"
            self.calls.append(f"a blocking call in the loop's thread: {call} at {place}")


WATCH = Watch()


def _caller(frame: FrameType | None) -> FrameType | None:
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(OURS):
            return None if path.startswith(_MAY_READ) else frame
        if any(part in path for part in _NOT_OURS) or frame.f_code in _BRIEF:
            return None
        frame = frame.f_back
    return None
