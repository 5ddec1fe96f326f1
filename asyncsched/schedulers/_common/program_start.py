"""Start a command from a thread, or before there is a loop, without importing asyncio."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Started", "open_pidfd", "start_program"]


class Started:
    """A started command, which may have ended.

    Args:
        process: Its process, the leader of its session.
        pipes: Descriptors of its standard output and standard error; empty if they are discarded.
    """

    def __init__(self, process: subprocess.Popen[bytes], pipes: tuple[int, ...]) -> None:
        self.process = process
        self.program = os.path.basename(str(process.args[0]))  # type: ignore[index]  # noqa: PTH119 - a list, as we gave it
        self.pipes = pipes
        self.pidfd = open_pidfd(process.pid)

    def has_ended(self) -> bool:
        """Return whether it has ended; then its exit code is known, and its process is reaped."""
        return self.process.poll() is not None

    def wait(self) -> int:
        """Wait for its end without a loop, close its descriptors, and return its exit code."""
        code = self.process.wait()
        self.close()
        return code

    def signal(self, number: int) -> None:
        """Send a signal to it and its children; do nothing once it was waited for."""
        if not self.has_ended():
            try:
                os.killpg(self.process.pid, number)
            except (ProcessLookupError, PermissionError):
                self.process.send_signal(number)

    def close(self) -> None:
        """Close its descriptors."""
        for fd in (*self.pipes, self.pidfd):
            if fd >= 0:
                os.close(fd)
        self.pipes, self.pidfd = (), -1


def start_program(
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    cwd: Path | str | None = None,
    pass_fds: Sequence[int] = (),
    output: bool = True,
) -> Started:
    """Start a command and return at once; the fork may block. The arguments are those of `Programs.run`.

    Raises:
        OSError: It cannot be started.
    """
    if os.name != "posix":  # event loops of other systems cannot wait for pipes
        raise OSError(errno.ENOSYS, f"commands cannot be run on {sys.platform}")
    pipes = [os.pipe()] if output else []
    try:
        if output:
            pipes.append(os.pipe())
        with _input(stdin) as source:
            process = subprocess.Popen(
                list(argv),
                stdin=source,
                stdout=pipes[0][1] if output else subprocess.DEVNULL,
                stderr=pipes[1][1] if output else subprocess.DEVNULL,
                env=dict(env) if env is not None else None,
                cwd=cwd,
                pass_fds=pass_fds,
                start_new_session=True,
            )
    except BaseException:
        for ours, _ in pipes:
            os.close(ours)
        raise
    finally:
        for _, theirs in pipes:
            os.close(theirs)
    for ours, _ in pipes:
        os.set_blocking(ours, False)
    return Started(process, tuple(ours for ours, _ in pipes))


@contextmanager
def _input(text: bytes) -> Generator[IO[bytes]]:
    if not text:
        with open(os.devnull, "rb") as empty:  # noqa: PTH123 - pathlib is not shorter here
            yield empty
        return
    import tempfile  # imported late: few commands need it

    with tempfile.TemporaryFile() as source:
        source.write(text)
        source.seek(0)
        yield source


def open_pidfd(pid: int) -> int:
    """Return a descriptor that becomes readable when a process ends; -1 if none can be opened."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # not every kernel and interpreter has them
        return -1
