"""Tests too heavy for the whole run: ``@pytest.mark.heavy("slurm")`` leaves one to ``tests/run --all=slurm``."""

from __future__ import annotations

import pytest

ROOMS = {
    "local": "kills, rotations and restarts at every step, over many seeds",
    "docker": "cut connections and restarts of the daemon, over many seeds",
    "aws": "faults of the services, over many seeds",
    "kubernetes": "the suite on a cluster with two users, chaos and rotation",
    "slurm": "all four configurations",
    "torchx": "TorchX's own tests in two environments",
    "web": "Chromium over every page",
    "groups": "groups of apps",
}
"""The rooms that may have heavy tests, with what they judge there."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--heavy", choices=ROOMS, help="only the heavy tests of this room, which are else left out")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"heavy(room): left to `tests/run --all=ROOM`; a room is one of {[*ROOMS]}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose the heavy tests of the room that is asked for, or all that are not heavy."""
    wanted: str | None = config.getoption("heavy")
    chosen = [item for item in items if room_of(item) == wanted]
    left_out = [item for item in items if room_of(item) != wanted]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = chosen


def room_of(item: pytest.Item) -> str | None:
    """Return the room whose heavy test this is, if it is one."""
    marker = item.get_closest_marker("heavy")
    if marker is None:
        return None
    if len(marker.args) != 1 or marker.args[0] not in ROOMS:
        raise pytest.UsageError(
            f"{item.nodeid}: heavy needs one room, got {marker.args}; the rooms: {', '.join(ROOMS)}"
        )
    return str(marker.args[0])
