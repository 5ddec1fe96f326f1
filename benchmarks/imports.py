"""What it costs to import asyncsched."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from benchmarks._harness import Claim, at_most, in_turns
from benchmarks.cli_start import costs

ROUNDS = 101  # one start can take half as long again as the next

WHOLE_SURFACE = """
import asyncio, importlib, importlib.util
for room in ["", ".specs", ".schedulers", ".workspace", ".testing", ".sync"]:
    if importlib.util.find_spec("asyncsched" + room):
        module = importlib.import_module("asyncsched" + room)
        [getattr(module, name) for name in module.__all__]
"""


def claims() -> Iterator[Claim]:
    """Take the CPU time of whole interpreters, in turns, so that what else the machine does falls on all of them."""
    door, surface = "`import asyncsched`", "the whole public surface"
    nothing, bare = "an interpreter that imports nothing", "`import asyncio`"
    codes = {door: "import asyncsched", nothing: "pass", surface: WHOLE_SURFACE, bare: "import asyncio, importlib.util"}
    taken = in_turns({name: _start(code) for name, code in codes.items()}, ROUNDS)
    detail = taken.told(1e3, "ms")
    yield at_most(f"CPU of {door}", taken.ratio(door, nothing), 1.25, detail=detail)
    yield at_most(f"CPU of {surface}", taken.ratio(surface, bare), 1.61, detail=detail)


def _start(code: str) -> Callable[[], float]:
    measure = costs(sys.executable, "-c", code)
    measure()  # which compiles what is not compiled yet
    return measure
