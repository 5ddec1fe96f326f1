"""Ctrl-C where a loop takes no handlers of signals, as on Windows, and where it does not end the loop's wait."""

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


MISSED = """
import asyncio, signal, threading
from asyncsched.cli.console import Console
from asyncsched.cli.run_async import run_with_runner

async def work(runner):
    # What arrives just before the loop waits does not end the wait: neither does what another thread gets.
    threading.Timer(0.1, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGINT)).start()
    await asyncio.Event().wait()

try:
    run_with_runner(Console(), work)
except KeyboardInterrupt:
    print("heard")
"""


def test_ctrl_c_is_heard_though_it_did_not_end_the_wait_of_the_loop() -> None:
    done = subprocess.run([sys.executable, "-c", MISSED], capture_output=True, text=True, timeout=60, check=False)

    assert ("heard\n", "") == (done.stdout, done.stderr)


IN_A_THREAD = """
import threading
from asyncsched.cli.console import Console
from asyncsched.cli.run_async import run_with_runner

async def work(runner):
    return 3

thread = threading.Thread(target=lambda: print(run_with_runner(Console(), work)))
thread.start()
thread.join()
"""


def test_it_runs_in_a_thread_as_well() -> None:
    done = subprocess.run([sys.executable, "-c", IN_A_THREAD], capture_output=True, text=True, timeout=60, check=False)

    assert ("3\n", "") == (done.stdout, done.stderr)
