"""Containers as processes of this machine: real commands, real signals, their output stamped as it comes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

Output = Callable[[str, int, bytes], None]
"""Takes a stream's name, a time in nanoseconds, and an entry: a line with its newline, or what had none at the end."""


class Process:
    """One process in a session of its own. Raises OSError where it cannot be started."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], directory: Path, output: Output) -> None:
        self.loop = asyncio.get_running_loop()
        self.output = output
        self.exited: asyncio.Future[int] = self.loop.create_future()
        self._popen = subprocess.Popen(
            command,
            env=dict(env),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._rest = {"stdout": b"", "stderr": b""}
        self._open: dict[str, int] = {}
        for name, pipe in (("stdout", self._popen.stdout), ("stderr", self._popen.stderr)):
            assert pipe is not None
            self._open[name] = fd = os.dup(pipe.fileno())
            pipe.close()
            os.set_blocking(fd, False)
            self.loop.add_reader(fd, self._read, name)
        self._pidfd = os.pidfd_open(self._popen.pid)
        self.loop.add_reader(self._pidfd, self._reap)

    @property
    def pid(self) -> int:
        return self._popen.pid

    def terminate(self) -> None:
        """Ask it to end: as in a container, the first process alone is asked."""
        if self._popen.returncode is None:
            self._popen.terminate()

    def kill(self) -> None:
        """End it with all its children."""
        if self._popen.returncode is None:
            self._kill_group()

    def _read(self, name: str) -> None:
        try:
            data = os.read(self._open[name], 1 << 16)
        except BlockingIOError:
            return
        ns = time.time_ns()
        *lines, self._rest[name] = (self._rest[name] + data).split(b"\n")
        for line in lines:
            self.output(name, ns, line + b"\n")
        if not data:
            self._shut(name)

    def _shut(self, name: str) -> None:
        fd = self._open.pop(name)
        self.loop.remove_reader(fd)
        os.close(fd)
        if self._rest[name]:
            self.output(name, time.time_ns(), self._rest[name])

    def _reap(self) -> None:
        self.loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        code = self._popen.wait()
        self._kill_group()  # what it has left behind, as the end of a pid namespace does
        for name in list(self._open):  # what it has written is there by now; a child of it may hold the pipe
            while name in self._open and has_more(self._open[name]):
                self._read(name)
            if name in self._open:
                self._shut(name)
        if not self.exited.done():
            self.exited.set_result(128 - code if code < 0 else code)

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, signal.SIGKILL)


def has_more(descriptor: int) -> bool:
    """Tell whether there is something to read; select() takes no descriptor from 1024 on."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
