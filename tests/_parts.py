"""Commands that run side by side: their output as it comes, line by line under their names, and an end to what hangs.

A part is a process with a process group. Each line that it prints is shown at once, after the part's name. A part that
prints nothing for too long, or runs for too long, is asked for its stacks (SIGABRT, which `faulthandler` answers) and
ended with its process group. An interrupt ends all parts the way a terminal does.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

CHUNK = 1 << 16
LOOK_AGAIN = 1.0
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What ends a run; a second one ends it at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A command with the name under which its lines are shown.

    Attributes:
        passes: The exit codes that are a success.
    """

    name: str
    command: Sequence[str]
    passes: frozenset[int] = frozenset({0})


@dataclass(kw_only=True, slots=True)
class Limits:
    """How long things may take, in seconds of real time: they guard against hangs and judge nothing.

    Attributes:
        silence: How long a part may print nothing.
        total: How long a part may run that keeps printing, which may be beside others that leave it a third of the
            machine.
        stacks: How long it may take to print its stacks.
        ending: How long it may take to end once it was asked to.
        rest: How long the output is read on once the process has ended: what it left behind may hold the pipe open.
    """

    silence: float = 1200
    total: float = 4500
    stacks: float = 10
    ending: float = 45  # the guard gives what a test has left behind 30 to end
    rest: float = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a part ended.

    Attributes:
        why: Why the part is a failure; empty if it is none.
    """

    part: Part
    code: int
    seconds: float
    why: str = ""


class InterruptError(Exception):
    """Somebody wants the run to end; all parts have ended."""


async def side_by_side(
    parts: Sequence[Part], *, limits: Limits | None = None, write: Callable[[str], object] | None = None
) -> list[Ended]:
    """Run all parts at once, and return how each ended, in their order.

    Raises:
        InterruptError: After SIGINT, SIGTERM or SIGHUP, once all parts have ended.
    """
    width = max((len(part.name) for part in parts), default=0)
    runs = [
        asyncio.create_task(_Run(part, limits or Limits(), _Lines(part.name.ljust(width), write or _show)).run())
        for part in parts
    ]
    stopped: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        stopped.append(number)
        for run in runs:
            run.cancel()

    loop = asyncio.get_running_loop()
    for number in ENDING:
        loop.add_signal_handler(number, stop, number)
    try:
        ended = await asyncio.gather(*runs, return_exceptions=True)
    finally:
        for number in ENDING:
            loop.remove_signal_handler(number)
    if stopped:
        raise InterruptError(stopped[0].name)
    failed = [each for each in ended if isinstance(each, BaseException)]
    if failed:
        raise failed[0]
    return [each for each in ended if isinstance(each, Ended)]


def _show(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


@dataclass(slots=True)
class _Lines:
    """Shows whole lines, each after the part's name."""

    name: str
    write: Callable[[str], object]
    begun: bytes = b""

    def feed(self, data: bytes) -> None:
        *lines, self.begun = (self.begun + data).split(b"\n")
        for line in lines:
            self.show(line.decode(errors="replace"))

    def show(self, line: str) -> None:
        self.write(f"[{self.name}] {line}".rstrip() + "\n")

    def finish(self) -> None:
        if self.begun:
            self.feed(b"\n")


@dataclass(slots=True)
class _Run:
    """One part from its start to its end."""

    part: Part
    limits: Limits
    lines: _Lines
    started: float = field(default_factory=time.monotonic)
    heard: float = field(default_factory=time.monotonic)
    all_read: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> Ended:
        # A pipe that asyncio does not own: what a part leaves behind may keep it open after the part's end.
        output, its_end = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *self.part.command, stdin=asyncio.subprocess.DEVNULL, stdout=its_end, stderr=its_end, process_group=0
            )
        finally:
            os.close(its_end)
        loop = asyncio.get_running_loop()
        loop.add_reader(output, self._read, output)
        try:
            why = await self._watch(process)
            await _wait(self.all_read, self.limits.rest)
        finally:
            loop.remove_reader(output)
            os.close(output)
            self.lines.finish()
        code = await process.wait()
        if not why and code not in self.part.passes:
            why = f"exit code {code}"
        return Ended(part=self.part, code=code, seconds=time.monotonic() - self.started, why=why)

    def _read(self, output: int) -> None:
        data = os.read(output, CHUNK)
        self.heard = time.monotonic()
        self.lines.feed(data)
        if not data:
            asyncio.get_running_loop().remove_reader(output)
            self.all_read.set()

    async def _watch(self, process: asyncio.subprocess.Process) -> str:
        """Wait for its end, or end it and return why."""
        try:
            while process.returncode is None:
                if why := self._over_limit():
                    self.lines.finish()
                    self.lines.show(f"this part {why} and is ended; its stacks follow")
                    await self._end_what_hangs(process)
                    return why
                await _finished(process, min(self._left(), LOOK_AGAIN))  # the limits may have changed meanwhile
        except asyncio.CancelledError:
            await self._end(process, signal.SIGINT)
            raise
        return ""

    def _left(self) -> float:
        limits = self.limits
        return min(self.heard + limits.silence, self.started + limits.total) - time.monotonic()

    def _over_limit(self) -> str:
        if self._left() > 0:
            return ""
        if self.heard + self.limits.silence < self.started + self.limits.total:
            return f"has printed nothing for {self.limits.silence:g} s"
        return f"has run for {self.limits.total:g} s"

    async def _end_what_hangs(self, process: asyncio.subprocess.Process) -> None:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGABRT)  # to it alone: what it has started need not know of stacks
        await _finished(process, self.limits.stacks)
        await self._end(process, signal.SIGTERM)

    async def _end(self, process: asyncio.subprocess.Process, politely: signal.Signals) -> None:
        """End the whole process group; whoever cancels this ends it at once."""
        try:
            _signal_group(process.pid, politely)
            await _finished(process, self.limits.ending)
        finally:
            _signal_group(process.pid, signal.SIGKILL)


async def _finished(process: asyncio.subprocess.Process, within: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), within)


async def _wait(event: asyncio.Event, within: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), within)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, number)
