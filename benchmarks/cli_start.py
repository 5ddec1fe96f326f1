"""How long it takes until the command line shows its help."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks._harness import Claim, at_most, in_turns

ROUNDS = 21

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

    took = in_turns(
        {
            "bare": seconds(sys.executable, "-c", BARE.format(count=len(VERBS))),
            "asyncsched": seconds(program(), "--help"),
        },
        ROUNDS,
    )
    yield at_most(
        "`asyncsched --help` takes at most 1.5 x a bare click program with as many empty commands",
        took["asyncsched"] / took["bare"],
        1.5,
        detail=", ".join(f"{name}: {taken * 1000:.1f} ms" for name, taken in took.items()),
    )


def program() -> str:
    """Return the installed program."""
    return str(Path(sys.executable).parent / "asyncsched")


def seconds(*command: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> Callable[[], float]:
    """Return a function that runs a command and returns how long that took."""

    def measure() -> float:
        begin = time.perf_counter()
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
        return time.perf_counter() - begin

    return measure
