"""A clock that stands while this thread waits for a core: what other programs take of the machine is left out."""

from __future__ import annotations

import time
from pathlib import Path

_STATISTICS = Path("/proc/thread-self/schedstat")


def undisturbed() -> float:
    """Return seconds in which this thread ran, or waited for something other than a core; only differences count."""
    _, waited, _ = map(int, _STATISTICS.read_text().split())
    return time.perf_counter() - waited / 1e9
