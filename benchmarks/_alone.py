"""Run one benchmark in a process of its own, and wait until all that it has started is gone.

What one benchmark leaves to be done (a daemon that still removes containers, processes in their grace period) would
be measured by the next.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from benchmarks._harness import load

PATIENCE = 60.0
"""Seconds for what a benchmark has started to go."""

LONGEST = 3600.0
"""Seconds that a benchmark may take: one that hangs is interrupted then, and shows where it was."""

_PR_SET_CHILD_SUBREAPER = 36


def run(command: list[str], *, others: Collection[int] = ()) -> int:
    """Run a command, wait for whatever it has left, and return its exit code.

    What its descendants leave behind when they end becomes ours, as it would become init's, and is waited for. It is
    interrupted when we are, once, and has the time to clean up. `others` are children of ours that have no part in it.
    """
    adopt_orphans()
    left: list[str] = []
    try:
        with _passing_on() as pass_on_to:  # before there is a process: an interruption must not come between
            # A terminal's Ctrl-C reaches us alone.
            process = subprocess.Popen(command, process_group=0, env=_compiling())
            pass_on_to(process)
            code = _ended(process)
    finally:  # also when it has been interrupted
        left = _wait_for_the_rest({*others})
        if left:
            print(f"  LEFT BEHIND after {PATIENCE:g} s: {', '.join(left)}", flush=True)
    return code or bool(left)


def _compiling() -> dict[str, str]:
    """Let Python keep what it has compiled: an installed package is compiled, and what is measured is one."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _ended(process: subprocess.Popen[bytes]) -> int:
    """Wait for its end; what hangs is interrupted, and killed where that does not help."""
    for limit, number in ((LONGEST, signal.SIGINT), (PATIENCE, signal.SIGKILL)):
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            print(f"  HANGS: no end after {limit:g} s, {number.name} is sent", flush=True)
            process.send_signal(number)
    return process.wait()


def adopt_orphans() -> None:
    """Become the parent of what descendants of this process leave behind when they end, as init would."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot become the parent of what a benchmark leaves behind")


@contextmanager
def _passing_on() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    interrupted = False
    waiting: list[subprocess.Popen[bytes]] = []

    def interrupt() -> None:
        while interrupted and waiting:
            waiting.pop().send_signal(signal.SIGINT)

    def pass_on(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        interrupt()

    def pass_on_to(process: subprocess.Popen[bytes]) -> None:
        waiting.append(process)
        interrupt()

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield pass_on_to
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if interrupted:
        raise KeyboardInterrupt


def _wait_for_the_rest(others: set[int]) -> list[str]:
    """Reap what has come to us until there is no more of it, and name what stays."""
    deadline = time.monotonic() + PATIENCE
    while left := _children() - others:
        for pid in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > deadline:
            return [_named(pid) for pid in sorted(left)]
        time.sleep(0.02)
    return []


def _children() -> set[int]:
    tasks = Path("/proc/self/task").iterdir()
    return {int(pid) for task in tasks for pid in (task / "children").read_text().split()}


def _named(pid: int) -> str:
    with contextlib.suppress(OSError):
        return f"{pid} ({Path(f'/proc/{pid}/comm').read_text().strip()})"
    return str(pid)


def main(name: str) -> int:
    """Run the benchmark in this process, print each claim as soon as it has been measured; 1 if one does not hold."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job is started without it
    print(name, flush=True)
    broken = 0
    for claim in load(name)():
        broken += not claim.holds
        print("  " + str(claim).replace("\n", "\n  "), flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
