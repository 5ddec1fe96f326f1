"""What it costs until the command line has shown its help."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks._harness import Claim, at_most, in_turns

ROUNDS = 11

BARE = """
import click

@click.group()
def app(): pass

for number in range({count}):
    app.add_command(click.Command(f"verb{{number}}", help="Does nothing."))
app(["--help"])
"""


def claims() -> Iterator[Claim]:
    """Compare with a click program that has as many commands, all of them empty."""
    from asyncsched.cli.main import VERBS

    bare = "a bare click program with as many empty commands"
    taken = in_turns(
        {
            "`asyncsched --help`": costs(program(), "--help"),
            bare: costs(sys.executable, "-c", BARE.format(count=len(VERBS))),
        },
        ROUNDS,
    )
    yield at_most(
        "CPU of `asyncsched --help`", taken.ratio("`asyncsched --help`", bare), 1.5, detail=taken.told(1e3, "ms")
    )


def program() -> str:
    """Return the installed program."""
    return str(Path(sys.executable).parent / "asyncsched")


def costs(*command: str, env: dict[str, str] | None = None) -> Callable[[], float]:
    """Return a function that runs a command and returns the CPU seconds which that took."""

    def measure() -> float:
        before = _used()
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
        return _used() - before

    return measure


def _used() -> float:
    """Return the CPU time of all children that have ended, which a busy machine changes least."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
