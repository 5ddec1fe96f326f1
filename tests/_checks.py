"""What judges the project without running it: lint, types, import rules, docs."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

CHECKS = {
    "ruff check": ["ruff", "check", "--quiet", "."],
    "ruff format": ["ruff", "format", "--check", "--quiet", "."],
    "mypy": ["mypy"],
    "misuses are refused: mypy": ["mypy", *map(str, sorted(Path("tests/typing").glob("*.py")))],
    "import rules": ["lint-imports"],
    "workflows": [".ci/lint-workflows"],
}
MORE = {
    "pyright": ["pyright", "--warnings"],
    "misuses are refused: pyright": ["pyright", "--warnings", "--project", "tests/typing"],
    "docs": ["sphinx-build", "-q", "-W", "--keep-going", "-b", "html", "docs", "docs/_build/html"],
}
"""What takes longer: left out by `tests/run --fast`."""
SKIPPED = {"workflows": 3}
"""The exit code of what cannot be had here, and says why."""


def main(arguments: list[str]) -> int:
    """Run all checks, in this order, and name those that failed."""
    checks = CHECKS if "--fast" in arguments else CHECKS | MORE
    failed = [name for name, command in checks.items() if not _passes(name, command)]
    if failed:
        print(f"\nfailed: {'; '.join(failed)}")
    return 1 if failed else 0


def _passes(name: str, command: list[str]) -> bool:
    print(f"== {name}", flush=True)
    started = time.monotonic()
    done = subprocess.run(command, check=False)
    print(f"({time.monotonic() - started:.0f} s)", flush=True)
    return done.returncode in (0, SKIPPED.get(name))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
