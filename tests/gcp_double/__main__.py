"""``python -m tests.gcp_double``: the double as a server of its own, with played tasks and knobs."""

from __future__ import annotations

import argparse
import random
import signal
import time

from tests.gcp_double.control import Control
from tests.gcp_double.server import Double


def main() -> None:
    parser = argparse.ArgumentParser(description="Google Cloud Batch and Cloud Logging on this machine, for tests.")
    parser.add_argument("--lag", type=float, default=0.0, help="seconds, on average, until an entry can be read")
    args = parser.parse_args()
    chance = random.Random(0)
    double = Double(lag=lambda: min(chance.expovariate(1 / args.lag), 15.0) if args.lag else 0.0)
    double.knobs = Control(double).answer
    ended: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: ended.append(number))
    with double:
        print(f"ready {double.url}", flush=True)
        while not ended:
            time.sleep(0.1)  # a signal just before a wait without an end would be missed


if __name__ == "__main__":
    main()
