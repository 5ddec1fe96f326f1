"""Ctrl-C where a loop takes no handlers of signals, as on Windows."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import asyncio, os, signal
from asyncsched.cli.run_async import on_interrupt

class Loop(asyncio.SelectorEventLoop):
    def add_signal_handler(self, *_):
        raise NotImplementedError

async def main():
    pressed = asyncio.Event()
    before = signal.getsignal(signal.SIGINT)
    with on_interrupt(pressed.set):
        os.kill(os.getpid(), signal.SIGINT)
        await pressed.wait()
    print("heard", signal.getsignal(signal.SIGINT) == before)

with asyncio.Runner(loop_factory=Loop) as runner:
    runner.run(main())
"""


def test_ctrl_c_is_heard_by_a_loop_that_takes_no_handlers() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)

    assert ("heard True\n", "") == (done.stdout, done.stderr)
