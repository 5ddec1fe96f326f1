"""Wait until what is to be measured has nothing left to do: a window must not begin with a backlog."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path

LOOK = 0.25
"""Seconds between two looks."""

_TICKS = os.sysconf("SC_CLK_TCK")


async def until_idle(*pids: int, share: float = 0.1, patience: float = 120.0) -> None:
    """Wait until this process, and each of these, uses less than that share of a core."""
    deadline = time.monotonic() + patience
    before, began = _used(pids), time.monotonic()
    while True:
        await asyncio.sleep(LOOK)
        after, now = _used(pids), time.monotonic()
        if all(each - other < share * (now - began) for each, other in zip(after, before, strict=True)):
            return
        if now > deadline:
            raise RuntimeError(f"this process or one of {pids} is still busy after {patience:g} s")
        before, began = after, now


def _used(pids: Sequence[int]) -> list[float]:
    return [time.process_time(), *(_used_by(pid) for pid in pids)]


def _used_by(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
