"""How long a whole `run` of a small local job takes, and what it costs, beside the peer's."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from benchmarks._alone import adopt_orphans
from benchmarks._harness import Claim, at_most, in_turns
from benchmarks._noise import before_others
from benchmarks._peer import installed
from benchmarks.cli_start import program

ROUNDS = 7
TRIES = 3
LINE = ("run", "-s", "local_cwd", "utils.echo", "--msg", "hi")
RUN = "`run -s local_cwd utils.echo --msg hi`"


class Cost(NamedTuple):
    """What one `run` has cost, or the least of several.

    Attributes:
        time: Seconds until the program had ended, less those for which its main thread waited for a core.
        cpu: CPU seconds of the program and of all that it has started, until the last of them had ended.
    """

    time: float
    cpu: float


def claims() -> Iterator[Claim]:
    """Run `utils.echo` on local_cwd with both.

    Both come before other programs where we may ask for that. Where we may not, a wait for a core is left out as far as
    it can be told, which is that of the main thread. Of ours, which works in several, the waits of others remain: hence
    the least of a few tries. It is also the peer's best: the peer looks once a second whether the job has ended, and
    may see that at its first look.
    """
    adopt_orphans()
    with tempfile.TemporaryDirectory() as home, before_others():
        programs = {"asyncsched": program(), "the peer": str(installed() / "bin/torchx")}
        for each in programs.values():
            _run(each, Path(home))  # which compiles what is not compiled yet
        taken = in_turns({name: _least(each, Path(home)) for name, each in programs.items()}, ROUNDS)
    took, cpu = (taken.ratio("asyncsched", "the peer", by) for by in (_TIME, _CPU))
    yield at_most(f"{RUN}: its time, less what it waited for a core", took, 0.5, detail=taken.told(1e3, "ms", _TIME))
    yield at_most(f"{RUN}: CPU of all its processes", cpu, 0.9, detail=taken.told(1e3, "ms", _CPU))


_TIME: Callable[[Cost], float] = attrgetter("time")
_CPU: Callable[[Cost], float] = attrgetter("cpu")


def _least(program: str, home: Path) -> Callable[[], Cost]:
    def measure() -> Cost:
        tries = [_run(program, home) for _ in range(TRIES)]
        return Cost(min(each.time for each in tries), min(each.cpu for each in tries))

    return measure


def _run(program: str, home: Path) -> Cost:
    env = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home)}
    before, began = _used(), time.perf_counter()
    null = subprocess.DEVNULL
    with subprocess.Popen([program, *LINE], cwd=home, env=env, stdout=null, stderr=null) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        took = time.perf_counter() - began
        # In nanoseconds, how long its main thread ran and how long it waited for a core; it is there to be read
        # until the process has been waited for.
        _, waited, _ = map(int, Path(f"/proc/{process.pid}/schedstat").read_text().split())
    if process.returncode:
        raise RuntimeError(f"{program} ended with {process.returncode}")
    with contextlib.suppress(ChildProcessError):  # the supervisor, which is ours when its starter has ended
        while True:
            os.waitpid(-1, 0)
    return Cost(took - waited / 1e9, _used() - before)


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
