"""What a test process has found, for the process that runs it: ``--results=FILE`` writes it at the end.

A time limit that ends the run writes it as well, with the test that has not ended.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

from tests._services import missing_services


@dataclass(kw_only=True, slots=True)
class Results:
    """Counts of tests, by what came of them; an error before or after a test is a failure.

    Attributes:
        failures: The names of what failed.
        missing: The services that were not there, with why, and how many tests each left out.
    """

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)
    missing: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def add_up(parts: Iterable[Results]) -> Results:
    """Return the sum over several processes."""
    whole = Results()
    missing: Counter[str] = Counter()
    for part in parts:
        whole.passed += part.passed
        whole.failed += part.failed
        whole.skipped += part.skipped
        whole.failures += part.failures
        missing.update(part.missing)
    whole.missing = dict(sorted(missing.items()))
    return whole


def read(path: Path) -> Results | None:
    """Read what a process has written; None if it did not get that far."""
    try:
        return Results(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--results", type=Path, help="a file for the counts, for the program that runs pytest")


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(config: pytest.Config) -> None:
    """Write the counts."""
    write(config)


def write(config: pytest.Config, *, unfinished: Sequence[str] = ()) -> None:
    """Write the counts of what has ended, and the names of what counts as a failure because it has not."""
    path: Path | None = config.getoption("results", None)
    if path is None:
        return
    terminalreporter = config.pluginmanager.get_plugin("terminalreporter")
    assert terminalreporter is not None
    stats = terminalreporter.stats
    # A test can fail, and again when it is taken down, or only then: it is one failure.
    bad = dict.fromkeys(report.nodeid for kind in ("failed", "error") for report in stats.get(kind, []))
    good = [report for kind in ("passed", "xfailed") for report in stats.get(kind, []) if report.nodeid not in bad]
    results = Results(
        passed=len(good),
        failed=len(bad) + len(unfinished),
        skipped=len(stats.get("skipped", [])),
        failures=[*bad, *unfinished],
        missing=missing_services(terminalreporter),
    )
    path.write_text(json.dumps(asdict(results)))
