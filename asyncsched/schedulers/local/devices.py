"""Which GPUs this machine has, without a library of theirs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

__all__ = ["count_devices"]

DRIVER = Path("/proc/driver/nvidia/gpus")
PATIENCE = 10.0
"""Seconds: the driver may have to be woken for its first answer."""


def count_devices() -> int:
    """Return how many GPUs the driver tells of; call it in a thread."""
    try:
        found = len(list(DRIVER.iterdir()))
    except OSError:
        found = 0
    return found or _count_listed()  # some containers, and Linux under Windows, have the program only


def _count_listed() -> int:
    program = shutil.which("nvidia-smi")
    if program is None:
        return 0
    try:
        listed = subprocess.run(
            [program, "-L"], stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=PATIENCE
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    # Parts of a divided one stand below it, indented.
    return sum(line.startswith(b"GPU") for line in listed.stdout.splitlines())
