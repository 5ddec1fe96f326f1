"""A fixed piece of work, which says how much this machine does at this moment."""

from __future__ import annotations

import time

STEP = "the reference work"
"""How a claim names `reference_work` as what it is held against."""


def reference_work() -> float:
    """Do it once, and return the CPU seconds that it took in this thread.

    It does what a loop's steps are made of: texts, lists and a dictionary of some size. On two quiet cores, where
    Python makes twelve million lines a second of prepared batches, it takes about 20 ms.
    """
    began = time.thread_time()
    seen: dict[str, int] = {}
    lines: list[str] = []
    for number in range(40_000):
        line = f"step {number} of a line that is long enough\n"
        lines.append(line)
        seen[line] = len(line.split())
    assert len(seen) == len(lines)
    return time.thread_time() - began
