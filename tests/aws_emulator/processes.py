"""Nodes as processes of this machine: real commands, real signals, no Docker.

An image whose name contains ``missing`` cannot be pulled; the others have all that this machine has.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable

from tests.aws_emulator.lifecycle import Task


def run_process(task: Task) -> Callable[[], None]:
    """Start a node's command in a session of its own; returns what stops it."""
    if "missing" in task.container["image"]:
        task.exited(None, f"CannotPullContainerError: {task.container['image']}: not found")
        return lambda: None
    environment = {"PATH": os.environ["PATH"], **task.environment}
    try:
        process = subprocess.Popen(
            task.command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        reason = f"CannotStartContainerError: {error}"
        threading.Thread(target=lambda: task.exited(127, reason), daemon=True).start()
        return lambda: None
    threading.Thread(target=_follow, args=(process, task), name="emulated-node", daemon=True).start()
    return lambda: _stop(process, task.grace)


def _follow(process: subprocess.Popen[bytes], task: Task) -> None:
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            task.line(line.decode("utf-8", "replace").rstrip("\n"))
    code = process.wait()
    task.exited(128 - code if code < 0 else code)


def _stop(process: subprocess.Popen[bytes], grace: float) -> None:
    _signal(process, signal.SIGTERM)
    timer = threading.Timer(grace, _signal, (process, signal.SIGKILL))
    timer.daemon = True
    timer.start()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        if process.returncode is None:
            os.killpg(process.pid, number)
