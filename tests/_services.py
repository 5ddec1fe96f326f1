"""What happens when a service that tests need is not there: told at the end, and a failure in CI."""

from __future__ import annotations

import os
from collections import Counter
from typing import NoReturn

import pytest

_PREFIX = "missing service "


def unavailable(service: str, why: str, *, excused: bool = False) -> NoReturn:
    """Leave the test out because `service` cannot be had here; in CI, fail it, unless it is excused there, too.

    A session fixture that brings a service up calls this when it cannot.
    """
    reason = f"{_PREFIX}{service}: {why}"
    if os.environ.get("CI") == "true" and not excused:
        pytest.fail(f"{reason} (in CI this is a failure)", pytrace=False)
    pytest.skip(reason)


def missing_services(reporter: pytest.TerminalReporter) -> dict[str, int]:
    """Return each service that was not there, with why, and how many tests that left out."""
    missing: Counter[str] = Counter()
    for report in reporter.stats.get("skipped", []):
        _, _, reason = report.longrepr
        if _PREFIX in reason:
            missing[reason.partition(_PREFIX)[2]] += 1
    return dict(sorted(missing.items()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which services were missing, and how many tests that left out, unless `tests/run` says it for all parts."""
    missing = {} if config.getoption("results") else missing_services(terminalreporter)
    if missing:
        terminalreporter.section("services that were not there")
    for service, count in missing.items():
        terminalreporter.line(f"{service} ({count} tests left out)")
