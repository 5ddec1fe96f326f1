"""Run a service's commands, with limits on time, output and number, and without a thread per child.

On Python 3.11, processes of asyncio and anyio start a thread for each child. Here a worker thread starts the process,
because a fork may block; the loop watches its pidfd for its end, and its pipes for output. Code that runs before there
is a loop is in `program_start`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from asyncsched._tasks import finished_in_thread, outlast
from asyncsched._typing import NamedTuple
from asyncsched.clock import Clock
from asyncsched.errors import NotFoundError, SchedulerError, UnavailableError
from asyncsched.schedulers._common.program_start import Started, start_program

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Finished", "Programs", "until_readable"]

LARGEST_OUTPUT = 64 << 20
AT_ONCE = 16
STARTED_AT_ONCE = 4
"""Most threads that start processes; more are not faster, because a fork takes the kernel's locks."""
GRACE = 2.0
"""Seconds between TERM and KILL when a command is stopped."""
LINGER = 1.0
"""Seconds to wait for output after a command has ended, in case its child keeps the pipe open."""
LOOK_EVERY = 0.05
CHUNK = 64 << 10
CHUNKS_AT_ONCE = 8
PASSING = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETIMEDOUT})


class Finished(NamedTuple):
    """How a command ended.

    Attributes:
        program: Its name.
        code: Its exit code; negative for the signal that ended it.
        stdout: Its standard output.
        stderr: Its standard error.
    """

    program: str
    code: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """The standard output as text; bytes that are not UTF-8 are replaced."""
        return self.stdout.decode(errors="replace")

    @property
    def complaint(self) -> str:
        """The last non-empty line of the standard error, at most 500 characters."""
        from asyncsched.schedulers._common.untrusted import last_line  # loaded by the few who need it

        return last_line(self.stderr) or f"exit code {self.code}"


class Programs:
    """Runs the commands of a service for one scheduler.

    Args:
        backend: The scheduler's name, for errors.
        clock: The time source.
        at_once: How many commands run at a time; others wait.
        largest_output: Most bytes that a command may write to either stream.
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
        output: bool = True,
    ) -> Finished:
        """Run a command to its end, whatever its exit code. Cancelling it ends the command.

        Args:
            argv: The program and its arguments; no shell is used, and errors do not show the arguments.
            operation: The operation, for errors.
            timeout: Seconds after which it is ended.
            stdin: Its standard input.
            env: Its environment; this process's by default.
            cwd: Its working directory.
            pass_fds: Descriptors that it inherits.
            output: Whether to collect its output. If not, the output is discarded, and a process that the command
                leaves behind, such as a daemon, does not delay the answer.

        Raises:
            NotFoundError: There is no such program.
            UnavailableError: It took too long, or the machine cannot start another process now.
            SchedulerError: It could not be started, or wrote too much.
        """
        async with self._turns:
            start = partial(start_program, argv, stdin=stdin, env=env, cwd=cwd, pass_fds=pass_fds, output=output)
            try:
                async with self._starts:
                    child = await _started(start)
            except OSError as error:
                raise self._not_started(argv[0], error, operation) from error
            self.started += 1
            return await self.finish(child, operation=operation, timeout=timeout)

    async def finish(self, child: Started, *, operation: str, timeout: float) -> Finished:
        """Do what `run` does, for a command that was started before there was a loop; it does not wait for a turn.

        Args:
            child: The command; this call takes ownership of it.
            operation: The operation, for errors.
            timeout: Seconds from now after which it is ended.

        Raises:
            UnavailableError: It took too long.
            SchedulerError: It wrote too much.
        """
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
                why="its expected output is much shorter",
                backend=self._backend,
                operation=operation,
            ) from error
        finally:
            await _ended(child)

    def _not_started(self, program: str, error: OSError, operation: str) -> SchedulerError:
        kind, what, fix = SchedulerError, f"{program} cannot be started", "check that it is an executable program"
        if isinstance(error, FileNotFoundError):
            kind, what, fix = NotFoundError, f"there is no program {program}", "install it, or correct PATH"
        elif error.errno in PASSING:
            kind, what = UnavailableError, f"{program} cannot be started at the moment"
            fix = "close files or processes, or raise the limit (ulimit -n, ulimit -u)"
        why = error.strerror or str(error)
        return kind(what, why=why, fix=fix, backend=self._backend, operation=operation)


class _TooMuchError(Exception):
    """A command wrote more than it may."""


async def _started(start: Callable[[], Started]) -> Started:
    """Start a process in a thread; if this is cancelled, end the process first."""
    started: list[Started] = []
    try:
        await finished_in_thread(lambda: started.append(start()))
    except asyncio.CancelledError:
        for child in started:
            await _ended(child)
        raise
    return started[0]


class _Collector:
    """Collects the output of a process until it has ended and both pipes are closed."""

    def __init__(self, child: Started, largest: int) -> None:
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
        out, err = [bytes(text) for text in self._output.values()] or [b"", b""]
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
        for _ in range(CHUNKS_AT_ONCE):  # so that others get their turn
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
        elif not self._child.has_ended():
            self._timer = self._loop.call_later(pause, self._wait_for_end, min(2 * pause, LOOK_EVERY))
        else:
            self._on_end()

    def _on_end(self) -> None:
        if not self._child.has_ended():
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


async def _ended(child: Started) -> None:
    """End a process: TERM, then KILL; a cancellation waits until it has ended."""
    if child.has_ended():
        child.close()
        return
    ending = asyncio.create_task(_end(child))
    await outlast([ending], GRACE + 10.0)


async def _end(child: Started) -> None:
    loop = asyncio.get_running_loop()
    child.signal(signal.SIGTERM)
    kill = loop.call_later(GRACE, child.signal, signal.SIGKILL)
    try:
        while not child.has_ended():
            await (until_readable(child.pidfd) if child.pidfd >= 0 else asyncio.sleep(LOOK_EVERY))
    finally:
        kill.cancel()
        child.close()


async def until_readable(pidfd: int) -> None:
    """Wait until the process of a pidfd has ended."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(pidfd, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(pidfd)
