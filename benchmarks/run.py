"""Run benchmarks and print each claim, its figures, and whether it holds.

::

    python -m benchmarks.run                    the names
    python -m benchmarks.run imports            one of them, or several
    python -m benchmarks.run --noise imports    beside two processes that are always busy
    python -m benchmarks.run --all

Each benchmark runs in a process of its own, and the next begins when all that the one before has started is gone.
The exit code is 1 if a claim does not hold, or if a benchmark leaves a process behind.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks import _alone
from benchmarks._harness import names
from benchmarks._noise import LOOPS, noise


def main() -> int:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__.partition("\n")[0])
    parser.add_argument("name", nargs="*", help=", ".join(names()))
    parser.add_argument("--all", action="store_true", help="run every benchmark")
    parser.add_argument("--noise", action="store_true", help="beside two processes that are always busy")
    arguments = parser.parse_args()
    chosen: list[str] = names() if arguments.all else arguments.name
    if unknown := set(chosen) - {*names()}:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(names())}")
    if not chosen:
        print(*names(), sep="\n")
        return 0
    try:
        return run(chosen, beside_noise=arguments.noise)
    except KeyboardInterrupt:
        return 130


def run(chosen: list[str], *, beside_noise: bool) -> int:
    """Run these one after the other, and return 1 if one of them fails."""
    with noise(LOOPS if beside_noise else 0) as others:
        codes = [_alone.run([sys.executable, "-m", "benchmarks._alone", name], others=others) for name in chosen]
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())
