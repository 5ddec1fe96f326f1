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
    killers: list[threading.Timer] = []
    threading.Thread(target=_follow, args=(process, task, killers), name="emulated-node", daemon=True).start()
    return lambda: _stop(process, task.grace, killers)


def _follow(process: subprocess.Popen[bytes], task: Task, killers: list[threading.Timer]) -> None:
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            task.line(line.decode("utf-8", "replace").rstrip("\n"))
    code = process.wait()
    for killer in killers:
        killer.cancel()
    task.exited(128 - code if code < 0 else code)


def _stop(process: subprocess.Popen[bytes], grace: float, killers: list[threading.Timer]) -> None:
    killer = threading.Timer(grace, _signal, (process, signal.SIGKILL))
    killer.daemon = True
    killer.start()
    killers.append(killer)
    _signal(process, signal.SIGTERM)  # after that it may end, which ends the timer, too


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        if process.returncode is None:
            os.killpg(process.pid, number)
