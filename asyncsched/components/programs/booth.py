"""Evaluate the Booth function and write the result as JSON, for trying tuners."""

import argparse
import json
import sys
from pathlib import Path


def booth(x1: float, x2: float) -> float:
    """Return the function's value; its minimum is 0 at (1, 3)."""
    return (x1 + 2 * x2 - 7) ** 2 + (2 * x1 + x2 - 5) ** 2


def main() -> None:
    """Evaluate it for the given arguments, write ``{tracker_base}/{trial_idx}.json`` and print it."""
    parser = argparse.ArgumentParser(prog="booth")
    parser.add_argument("--x1", type=float, required=True)
    parser.add_argument("--x2", type=float, required=True)
    parser.add_argument("--trial_idx", type=int, default=0)
    parser.add_argument("--tracker_base", type=Path, required=True)
    args = parser.parse_args()
    result = json.dumps({"trial_idx": args.trial_idx, "booth_eval": booth(args.x1, args.x2)})
    args.tracker_base.mkdir(parents=True, exist_ok=True)
    (args.tracker_base / f"{args.trial_idx}.json").write_text(result + "\n")
    sys.stdout.write(result + "\n")


if __name__ == "__main__":
    main()
