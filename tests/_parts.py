"""Running a part of the tests, so that several processes share them: ``--part 1/2`` is every other file."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", default="1/1", help="which part of how many to run, by files: 1/2")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    part, parts = map(int, config.getoption("part").split("/"))
    files = {path: number for number, path in enumerate(dict.fromkeys(item.path for item in items))}
    chosen = [item for item in items if files[item.path] % parts == part - 1]
    if len(chosen) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if files[item.path] % parts != part - 1])
        items[:] = chosen
