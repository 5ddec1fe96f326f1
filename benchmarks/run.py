"""Run benchmarks and print each claim, its figure, and whether it holds.

::

    python -m benchmarks.run            the names
    python -m benchmarks.run imports    one of them, or several
    python -m benchmarks.run --all

The exit code is 1 if a claim does not hold.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

from benchmarks._harness import Claim, load, names


def main() -> int:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__.partition("\n")[0])
    parser.add_argument("name", nargs="*", help=", ".join(names()))
    parser.add_argument("--all", action="store_true", help="run every benchmark")
    arguments = parser.parse_args()
    chosen: list[str] = names() if arguments.all else arguments.name
    if unknown := set(chosen) - {*names()}:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(names())}")
    if not chosen:
        print(*names(), sep="\n")
        return 0
    broken = sum(show(name, load(name)()) for name in chosen)
    return 1 if broken else 0


def show(name: str, claims: Iterable[Claim]) -> int:
    """Print each claim as soon as it has been measured, and return how many do not hold."""
    print(name)
    broken = 0
    for claim in claims:
        broken += not claim.holds
        verdict = "holds" if claim.holds else "DOES NOT HOLD"
        print(f"  {verdict}: {claim.text}", flush=True)
        figure, bound = f"{claim.figure:.4g}{claim.unit}", f"{claim.bound:.4g}{claim.unit}"
        print(f"    {figure} (bound: {bound}) {claim.detail}".rstrip())
    return broken


if __name__ == "__main__":
    sys.exit(main())
