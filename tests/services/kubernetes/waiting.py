"""Waiting for what a cluster does by itself."""

from __future__ import annotations

import time
from collections.abc import Callable

DEADLINE = 180.0
"""Seconds after which something that should have come is taken to have failed: far more than anything needs."""


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until this is true.

    Raises:
        RuntimeError: It is not, in spite of all patience.
    """
    deadline = time.monotonic() + DEADLINE
    pause = 0.01
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {DEADLINE:g} s for {what}")
        time.sleep(pause)
        pause = min(0.1, pause * 1.5)
