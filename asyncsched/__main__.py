"""The program ``asyncsched``, also as ``python -m asyncsched``."""

from __future__ import annotations

import gc
from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command line and exit with its exit code."""
    # A short program creates modules, not garbage: collect rarely, from before the first of them is imported.
    gc.set_threshold(50_000)
    from asyncsched.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
