"""What it costs to import the backend of Kubernetes, and the SDK behind its first call."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from benchmarks._harness import Claim, Count, at_most, in_turns
from benchmarks.cli_start import costs

ROUNDS = 11
OURS = "the scheduler, made"
BARE = "`import asyncio`"
SDK = "`import kubernetes_asyncio`"

MADE = "from asyncsched.schedulers.kubernetes import KubernetesScheduler; KubernetesScheduler('me')"


def claims() -> Iterator[Claim]:
    """Take the CPU time of whole interpreters, in turns: nothing of the SDK comes before the first call."""
    codes = {OURS: MADE, BARE: "import asyncio", SDK: "import kubernetes_asyncio"}
    taken = in_turns({name: costs(sys.executable, "-c", code) for name, code in codes.items()}, ROUNDS)
    detail = taken.told(1e3, "ms")
    yield at_most(f"CPU of {OURS}", taken.ratio(OURS, BARE), 3.5, detail=detail)
    yield at_most(f"CPU of {OURS}", taken.ratio(OURS, SDK), 0.5, detail=detail)
    yield at_most(f"{OURS}", Count(number=_modules(), of="modules of kubernetes_asyncio and aiohttp"), 0)


def _modules() -> int:
    import subprocess

    test = "name.split(chr(46))[0] in ('kubernetes_asyncio', 'aiohttp')"
    code = f"{MADE}; import sys; print(sum({test} for name in sys.modules))"
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
