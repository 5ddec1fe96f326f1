"""Running a service's own commands: bounded in time, in output and in number, and no thread stays for a child.

asyncio's and anyio's own processes start a thread for each child on Python 3.11. Here a process is started in a worker
thread, as a fork may block; its end is told by its pidfd and its output by the loop's readers.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from asyncsched._tasks import finished_in_thread, outlast
from asyncsched.clock import Clock
from asyncsched.errors import NotFoundError, SchedulerError, UnavailableError

__all__ = ["Finished", "Programs"]

LARGEST_OUTPUT = 64 << 20
AT_ONCE = 16
STARTED_AT_ONCE = 4
"""A fork takes the kernel's locks: more threads at a time are no faster."""
GRACE = 2.0
"""Seconds between TERM and KILL for a command that is stopped."""
LINGER = 1.0
"""Seconds for which the output of a command that has ended is waited for: a child of it may hold the pipe open."""
LOOK_EVERY = 0.05
CHUNK = 64 << 10
CHUNKS_AT_ONCE = 8
PASSING = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETIMEDOUT})


class Finished(NamedTuple):
    """How a command ended.

    Attributes:
        program: Its name.
        code: Its exit code, or minus the number of the signal that ended it.
        stdout: What it wrote there.
        stderr: What it wrote there.
    """

    program: str
    code: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """The standard output as text; what is not UTF-8 is replaced."""
        return self.stdout.decode(errors="replace")

    @property
    def complaint(self) -> str:
        """The last line of the error output that says something, at most 500 characters of it."""
        lines = self.stderr.decode(errors="replace").split("\n")
        return next((line.strip()[:500] for line in reversed(lines) if line.strip()), f"exit code {self.code}")


class Programs:
    """Runs the commands of a service for one scheduler.

    Args:
        backend: The scheduler's name, for errors.
        clock: Tells the time.
        at_once: How many commands run at a time; others wait for their turn.
        largest_output: Bytes that one command may write to either stream.
    """

    def __init__(
        self, backend: str, *, clock: Clock, at_once: int = AT_ONCE, largest_output: int = LARGEST_OUTPUT
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._turns = asyncio.Semaphore(at_once)
        self._starts = asyncio.Semaphore(STARTED_AT_ONCE)
        self._largest = largest_output
        self.started = 0

    async def run(
        self,
        argv: Sequence[str],
        *,
        operation: str,
        timeout: float,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: Path | str | None = None,
        pass_fds: Sequence[int] = (),
    ) -> Finished:
        """Run a command to its end, whatever its exit code. Cancelling it ends the command.

        Args:
            argv: The program and its arguments; no shell reads them, and no error shows the arguments.
            operation: What it is run for, for errors.
            timeout: Seconds that it may take.
            stdin: What it reads.
            env: Its environment; this process's by default.
            cwd: Its working directory.
            pass_fds: Descriptors that it inherits.

        Raises:
            NotFoundError: There is no such program.
            UnavailableError: It took too long, or the machine has no room for another process at the moment.
            SchedulerError: It could not be started, or wrote too much.
        """
        async with self._turns:
            start = partial(_start, argv, stdin=stdin, env=env, cwd=cwd, pass_fds=pass_fds)
            try:
                async with self._starts:
                    child = await _started(start)
            except OSError as error:
                raise self._not_started(argv[0], error, operation) from error
            self.started += 1
            return await self._finish(child, operation, timeout)

    async def _finish(self, child: _Child, operation: str, timeout: float) -> Finished:
        limit = self._clock.deadline(timeout)
        try:
            async with limit:
                return await _Collector(child, self._largest).collect()
        except TimeoutError as error:
            if not limit.expired:
                raise
            raise UnavailableError(
                f"{child.program} did not end",
                why=f"it took more than {timeout:g} s",
                fix="try again, or raise `request_timeout`",
                backend=self._backend,
                operation=operation,
            ) from error
        except _TooMuchError as error:
            raise SchedulerError(
                f"{child.program} wrote more than {self._largest} bytes",
                why="nothing that is expected of it is as long",
                backend=self._backend,
                operation=operation,
            ) from error
        finally:
            await _ended(child)

    def _not_started(self, program: str, error: OSError, operation: str) -> SchedulerError:
        kind, what, fix = SchedulerError, f"{program} cannot be started", "see that it is a program and may be executed"
        if isinstance(error, FileNotFoundError):
            kind, what, fix = NotFoundError, f"there is no program {program}", "install it, or correct PATH"
        elif error.errno in PASSING:
            kind, what = UnavailableError, f"{program} cannot be started at the moment"
            fix = "close what is not needed, or raise the limit (ulimit -n, ulimit -u)"
        why = error.strerror or str(error)
        return kind(what, why=why, fix=fix, backend=self._backend, operation=operation)


class _TooMuchError(Exception):
    """A command wrote more than it may."""


class _Child:
    """A started process: made in a thread, used on the loop."""

    def __init__(self, process: subprocess.Popen[bytes], pipes: tuple[int, int]) -> None:
        self.process = process
        self.program = os.path.basename(str(process.args[0]))  # type: ignore[index]  # noqa: PTH119 - a list, as we gave it
        self.pipes = pipes
        self.pidfd = _open_pidfd(process.pid)

    def signal(self, number: int) -> None:
        """Send a signal to it and to its children; nothing happens once it has been waited for."""
        if self.process.poll() is None:
            try:
                os.killpg(self.process.pid, number)
            except (ProcessLookupError, PermissionError):
                self.process.send_signal(number)

    def close(self) -> None:
        """Let go of its descriptors."""
        for fd in (*self.pipes, self.pidfd):
            if fd >= 0:
                os.close(fd)
        self.pipes, self.pidfd = (-1, -1), -1


async def _started(start: Callable[[], _Child]) -> _Child:
    """Start a process in a thread; a cancellation goes on once it has been ended again."""
    started: list[_Child] = []
    try:
        await finished_in_thread(lambda: started.append(start()))
    except asyncio.CancelledError:
        for child in started:
            await _ended(child)
        raise
    return started[0]


def _start(
    argv: Sequence[str],
    *,
    stdin: bytes,
    env: Mapping[str, str] | None,
    cwd: Path | str | None,
    pass_fds: Sequence[int],
) -> _Child:
    """Start a process, in a thread."""
    out, their_out = os.pipe()
    err, their_err = os.pipe()
    try:
        with tempfile.TemporaryFile() if stdin else open(os.devnull, "rb") as source:  # noqa: PTH123
            if stdin:
                source.write(stdin)
                source.seek(0)
            process = subprocess.Popen(
                list(argv),
                stdin=source,
                stdout=their_out,
                stderr=their_err,
                env=dict(env) if env is not None else None,
                cwd=cwd,
                pass_fds=pass_fds,
                start_new_session=True,
            )
    except BaseException:
        os.close(out)
        os.close(err)
        raise
    finally:
        os.close(their_out)
        os.close(their_err)
    os.set_blocking(out, False)
    os.set_blocking(err, False)
    return _Child(process, (out, err))


def _open_pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # neither every kernel nor every interpreter has them
        return -1


class _Collector:
    """Gathers what a process writes, until it has ended and both pipes are closed."""

    def __init__(self, child: _Child, largest: int) -> None:
        self._child = child
        self._largest = largest
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._output: dict[int, bytearray] = {fd: bytearray() for fd in child.pipes}
        self._open = set(child.pipes)
        self._timer: asyncio.TimerHandle | None = None

    async def collect(self) -> Finished:
        for fd in self._open:
            self._loop.add_reader(fd, self._read, fd)
        try:
            self._wait_for_end(LOOK_EVERY / 16)
            await self._done
        finally:
            self._stop()
        code = self._child.process.returncode
        out, err = (bytes(text) for text in self._output.values())
        return Finished(self._child.program, code, out, err)

    def _stop(self) -> None:
        for fd in self._open:
            self._loop.remove_reader(fd)
        if self._child.pidfd >= 0:
            self._loop.remove_reader(self._child.pidfd)
        if self._timer is not None:
            self._timer.cancel()

    def _read(self, fd: int) -> None:
        output = self._output[fd]
        for _ in range(CHUNKS_AT_ONCE):  # the others are to get a turn, too
            try:
                data = os.read(fd, CHUNK)
            except BlockingIOError:
                return None
            output += data
            if not data:
                self._loop.remove_reader(fd)
                self._open.discard(fd)
                return self._look()
            if len(output) > self._largest:
                return self._settle(_TooMuchError())
        return None

    def _wait_for_end(self, pause: float) -> None:
        if self._child.pidfd >= 0:
            self._loop.add_reader(self._child.pidfd, self._on_end)
        elif self._child.process.poll() is None:
            self._timer = self._loop.call_later(pause, self._wait_for_end, min(2 * pause, LOOK_EVERY))
        else:
            self._on_end()

    def _on_end(self) -> None:
        if self._child.process.poll() is None:
            return
        if self._child.pidfd >= 0:
            self._loop.remove_reader(self._child.pidfd)
        self._timer = self._loop.call_later(LINGER, self._settle)
        self._look()

    def _look(self) -> None:
        if not self._open and self._child.process.returncode is not None:
            self._settle()

    def _settle(self, error: Exception | None = None) -> None:
        if not self._done.done():
            self._done.set_result(None) if error is None else self._done.set_exception(error)


async def _ended(child: _Child) -> None:
    """See to it that a process is over: TERM, then KILL; a cancellation goes on once it is."""
    if child.process.poll() is not None:
        child.close()
        return
    ending = asyncio.create_task(_end(child))
    await outlast([ending], GRACE + 10.0)


async def _end(child: _Child) -> None:
    loop = asyncio.get_running_loop()
    child.signal(signal.SIGTERM)
    kill = loop.call_later(GRACE, child.signal, signal.SIGKILL)
    try:
        await _until(lambda: child.process.poll() is not None, child.pidfd)
    finally:
        kill.cancel()
        child.close()


async def _until(is_over: Callable[[], bool], pidfd: int) -> None:
    """Wait until a process is over, which its pidfd tells if there is one."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    if pidfd >= 0:
        loop.add_reader(pidfd, ended.set)
    try:
        while not is_over():
            await (ended.wait() if pidfd >= 0 else asyncio.sleep(LOOK_EVERY))
    finally:
        if pidfd >= 0:
            loop.remove_reader(pidfd)
