"""What it costs to import asyncsched."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator

from benchmarks._harness import Claim, at_most, in_turns

ROUNDS = 21

WHOLE_SURFACE = """
import asyncio, importlib, importlib.util
for room in ["", ".specs", ".schedulers", ".workspace", ".testing", ".sync"]:
    if importlib.util.find_spec("asyncsched" + room):
        module = importlib.import_module("asyncsched" + room)
        [getattr(module, name) for name in module.__all__]
"""


def claims() -> Iterator[Claim]:
    """Time whole interpreters, in turns, so that what else the machine does falls on all of them."""
    measures = {
        "nothing": _start("pass"),
        "door": _start("import asyncsched"),
        "asyncio": _start("import asyncio, importlib.util"),
        "surface": _start(WHOLE_SURFACE),
    }
    # The least disturbed run of each: whatever else the machine does only adds to it.
    took = in_turns(measures, ROUNDS, figure=min)
    detail = ", ".join(f"{name}: {seconds * 1000:.1f} ms" for name, seconds in took.items())
    yield at_most(
        "`import asyncsched` starts in at most 1.25 x an interpreter that imports nothing",
        took["door"] / took["nothing"],
        1.25,
        detail=detail,
    )
    yield at_most(
        "the whole public surface costs at most 30 ms more than `import asyncio`",
        (took["surface"] - took["asyncio"]) * 1000,
        30,
        unit=" ms",
        detail=detail,
    )


def _used() -> float:
    """Return the CPU time of all children that have ended, which a busy machine changes least."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _start(code: str) -> Callable[[], float]:
    # What is measured is an installed package, which is compiled.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def seconds() -> float:
        begin = _used()
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)
        return _used() - begin

    seconds()
    return seconds
