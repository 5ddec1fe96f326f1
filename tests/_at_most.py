"""``--minutes N`` begins no test once so many minutes have passed, and tells how many that left out."""

from __future__ import annotations

import time

import pytest

_deadline = pytest.StashKey[float]()
_remained = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--minutes", type=float, help="begin no test after so many minutes, and tell how many remained")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_remained] = []
    minutes: float | None = config.getoption("minutes")
    if minutes is not None:
        config.stash[_deadline] = time.monotonic() + minutes * 60


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Pass over what is left when time is out."""
    if time.monotonic() < item.config.stash.get(_deadline, float("inf")):
        return None
    item.config.stash[_remained].append(item.nodeid)
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how many tests did not run."""
    remained = config.stash[_remained]
    if remained:
        minutes: float = config.getoption("minutes")
        terminalreporter.section("time is out")
        terminalreporter.line(f"after {minutes:g} minutes {len(remained)} tests remained, from {remained[0]} on")
