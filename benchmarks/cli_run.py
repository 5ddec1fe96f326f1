"""How long a whole `run` of a small local job takes, beside the peer's."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks._harness import Claim, at_most, in_turns
from benchmarks._peer import installed
from benchmarks.cli_start import program

ROUNDS = 7
LINE = ("run", "-s", "local_cwd", "utils.echo", "--msg", "hi")


def claims() -> Iterator[Claim]:
    """Run `utils.echo` on local_cwd with both."""
    with tempfile.TemporaryDirectory() as home:
        programs = {"asyncsched": program(), "the peer": str(installed() / "bin/torchx")}
        taken = in_turns({name: _seconds(each, Path(home)) for name, each in programs.items()}, ROUNDS)
    yield at_most(
        "`run -s local_cwd utils.echo --msg hi`: its time, less what it waited for a core",
        taken.ratio("asyncsched", "the peer"),
        0.5,
        detail=taken.told(1e3, "ms"),
    )


def _seconds(program: str, home: Path) -> Callable[[], float]:
    env = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home)}

    def measure() -> float:
        began = time.perf_counter()
        null = subprocess.DEVNULL
        with subprocess.Popen([program, *LINE], cwd=home, env=env, stdout=null, stderr=null) as process:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            took = time.perf_counter() - began
            # In nanoseconds, how long its main thread ran and how long it waited for a core; it is there to be read
            # until the process has been waited for.
            _, waited, _ = map(int, Path(f"/proc/{process.pid}/schedstat").read_text().split())
        if process.returncode:
            raise RuntimeError(f"{program} ended with {process.returncode}")
        return took - waited / 1e9

    return measure
