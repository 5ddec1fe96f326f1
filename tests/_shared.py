"""Several processes that share the tests: ``--shared=DIR`` runs the files that no other process with it has taken."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, groupby, pairwise
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shared", type=Path, help="a directory in which the processes that share the tests take them")


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run what this process takes; the next file is taken when it is the next item's turn to be known."""
    directory: Path | None = session.config.getoption("shared")
    if directory is None or session.testsfailed or session.config.getoption("collectonly"):
        return None
    for item, following in pairwise(chain(_taken(session, directory), [None])):
        assert item is not None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
    return True


def _taken(session: pytest.Session, directory: Path) -> Iterator[pytest.Item]:
    for number, (_, items) in enumerate(groupby(session.items, key=lambda item: item.path)):
        try:
            (directory / str(number)).mkdir()
        except FileExistsError:
            continue
        yield from items
