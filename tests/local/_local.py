"""What the tests of local apps share: apps, other processes that submit them, and looking around on the machine."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from asyncsched.logs import LogLine
from asyncsched.schedulers import DescribeAppResponse
from asyncsched.schedulers.local import LocalScheduler
from asyncsched.schedulers.local.supervisor.formats import APPS, STATE
from asyncsched.specs import AppDef, Role
from tests._support import WITHIN

ONE_LOOP = pytest.mark.one_loop
"""For tests of what no loop has a part in."""

EACH_LOOP = pytest.mark.one_loop(False)
"""For the others, where a module's tests run on one."""

LOOKS_AROUND = pytest.mark.guard(loop_step=False, reason="the test itself looks through all processes in a step")

IS_ROOT = os.geteuid() == 0
NOBODY = 65534
AS_NOBODY = (
    "setpriv",
    f"--reuid={NOBODY}",
    f"--regid={NOBODY}",
    "--clear-groups",
    "--inh-caps=-all,+dac_read_search",
    "--ambient-caps=+dac_read_search",
)
"""Runs a command as an ordinary user, where we are root; our interpreter may lie where only we can read."""

FAMILY = """
    import os, signal, subprocess, sys
    sleep = ["sleep", "1000"]
    subprocess.Popen(sleep)
    subprocess.Popen(sleep, start_new_session=True)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execvp("sleep", sleep)
        os._exit(0)
    os.wait()
    if "obedient" not in sys.argv:
        subprocess.Popen(["sh", "-c", "trap '' TERM; exec sleep 1000"])
    stopped = subprocess.Popen(sleep)
    os.kill(stopped.pid, signal.SIGSTOP)
    print("ready", flush=True)
    while True:
        signal.pause()
"""
"""A replica with grandchildren of five kinds: plain, in a session of its own, a double-forked daemon, one that
ignores TERM (not if it is to be ``obedient``), and one that is stopped."""

FAMILY_SIZE = 6


def python(code: str, *args: str, name: str = "main", **more: Any) -> Role:
    """Return a role that runs a piece of Python."""
    return Role(name, "", entrypoint=sys.executable, args=["-S", "-c", textwrap.dedent(code), *args], **more)


def shell(script: str, *args: str, name: str = "main", **more: Any) -> Role:
    """Return a role that runs a piece of shell."""
    return Role(name, "", entrypoint="sh", args=["-c", script, "sh", *args], **more)


def app(*roles: Role, name: str = "job") -> AppDef:
    """Return an app of these roles."""
    return AppDef(name, list(roles))


async def until(
    scheduler: LocalScheduler,
    app_id: str,
    condition: Callable[[DescribeAppResponse], bool],
    *,
    within: float = WITHIN,
) -> DescribeAppResponse:
    """Watch an app until it is as it should be."""
    async with asyncio.timeout(within):
        async with scheduler.watch([app_id]) as watch:
            async for event in watch:
                if event.current is not None and condition(event.current):
                    return event.current
    raise AssertionError(f"{app_id} was never as it should be; now it is {await scheduler.describe(app_id)}")


async def ended(scheduler: LocalScheduler, app_id: str, *, within: float = WITHIN) -> DescribeAppResponse:
    """Wait for an app's end."""
    return await until(scheduler, app_id, lambda found: found.state.is_terminal(), within=within)


async def read(scheduler: LocalScheduler, app_id: str, *, within: float = WITHIN, **query: Any) -> list[LogLine]:
    """Read a log until its app has ended, or to its present end with ``should_tail=False``."""
    async with asyncio.timeout(within):
        return [line async for line in scheduler.log_iter(app_id, **{"should_tail": True, **query})]


async def texts(scheduler: LocalScheduler, app_id: str, **query: Any) -> list[str]:
    """Read a log's lines without their newlines."""
    return [line.text for line in await read(scheduler, app_id, **query)]


async def first(scheduler: LocalScheduler, app_id: str, count: int = 1) -> list[str]:
    """Wait for a log's first lines."""
    lines: list[str] = []
    async with asyncio.timeout(WITHIN):
        async for line in scheduler.log_iter(app_id, should_tail=True):
            lines.append(line.text)
            if len(lines) == count:
                return lines
    raise AssertionError(f"the log ended after {lines}")


def app_directory(home: Path, app_id: str) -> Path:
    """Return where an app's state lies."""
    return home / APPS / app_id


def read_state(home: Path, app_id: str) -> dict[str, Any]:
    """Return an app's record on the disk."""
    found: dict[str, Any] = json.loads((app_directory(home, app_id) / STATE).read_bytes())
    return found


def write_state(home: Path, app_id: str, record: Mapping[str, Any]) -> None:
    """Replace an app's record."""
    (app_directory(home, app_id) / STATE).write_text(json.dumps(record))


def marked(token: str) -> list[int]:
    """Return the living processes of this machine that have a word in their environment or command line."""
    return [int(pid) for pid in next(os.walk("/proc"))[1] if pid.isdigit() and _has(int(pid), token.encode())]


def _has(pid: int, token: bytes) -> bool:
    try:
        place = Path(f"/proc/{pid}")
        return lives(pid) and (token in (place / "environ").read_bytes() or token in (place / "cmdline").read_bytes())
    except OSError:
        return False


def start_of(pid: int) -> int:
    """Return when a process was started, in the kernel's ticks."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def lives(pid: int) -> bool:
    """Tell whether a process is there, and not only still to be waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


PRELUDE = """
import asyncio, json, os, signal, sys, threading, time
from asyncsched.errors import *
from asyncsched.schedulers.local import *
from asyncsched.specs import AppDef, Role
from tests.local._local import FAMILY, ended, first, python, read, shell, app

def say(*words):
    print(*words, flush=True)

def hear():
    return sys.stdin.readline().strip()
"""


class Other:
    """A Python process of its own, which speaks in lines.

    Args:
        code: What it runs; it has `say` and `hear`, and what the tests of local apps have.
        prefix: A command that runs it, such as one that changes the user.
        env: Variables beside ours.
        without: Variables of ours that it does not get.
        path: Where its modules are looked for first.
    """

    def __init__(
        self,
        code: str,
        *args: str,
        prefix: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        without: Sequence[str] = (),
        path: Path = Path(__file__).parents[2],
        cwd: Path | None = None,
    ) -> None:
        ours = {name: value for name, value in os.environ.items() if name not in without}
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-P", "-c", PRELUDE + textwrap.dedent(code), *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**ours, "PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1", **(env or {})},
            cwd=cwd,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin, self.process.stdout
        self._buffer = b""

    @property
    def pid(self) -> int:
        return self.process.pid

    def say(self, text: str = "") -> None:
        """Send it a line."""
        self._in.write(text.encode() + b"\n")
        self._in.flush()

    def hear(self, *, within: float = WITHIN) -> str:
        """Wait for its next line."""
        deadline = time.monotonic() + within
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._out], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self._out.fileno(), 65536) if ready else b""
            assert data, "the other process has ended" if ready else f"it has said nothing for {within:g} s"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()

    async def heard(self) -> str:
        """Wait for its next line, while our own loop goes on."""
        return await asyncio.to_thread(self.hear)

    def send(self, number: int = signal.SIGKILL) -> None:
        """Signal it."""
        self.process.send_signal(number)

    def wait(self, *, within: float = WITHIN) -> int:
        """Wait for its end."""
        return self.process.wait(within)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()
        self._in.close()
        self._out.close()
