"""Which tests have a step near its budget: told at the end of a run, kept, and run again with ``--timed --repeat 20``.

A run keeps what it saw below the ignored ``.pytest_cache``, in one file that several processes add to. A plain run
knows a step's time but not whose it was, so it names tests whose own body is long as well; with ``--timed`` only time
in our code counts (see `tests._steps`), and what is kept does not change.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests._steps import LongStep

KEPT = Path(".pytest_cache", "asyncsched-timed", "tests.json")
HALF = 0.5

_longest = pytest.StashKey[dict[str, LongStep | None]]()
_took = pytest.StashKey[dict[str, float]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--timed", action="store_true", help="only tests whose longest step reached half of its budget when last run"
    )
    parser.addoption("--repeat", type=int, default=1, metavar="N", help="run each test N times")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_longest] = {}
    config.stash[_took] = {}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("timed"):
        return
    kept = _read(config.rootpath / KEPT)
    chosen = [item for item in items if item.nodeid in kept]
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
    items[:] = chosen


def files() -> dict[str, float]:
    """Return how many seconds the tests that ``--timed`` runs took, by their files, where these are still there."""
    took: dict[str, float] = defaultdict(float)
    for name, kept in _read(KEPT).items():
        took[name.partition("::")[0]] += kept.get("seconds", 0.0)  # which older runs did not keep
    return {file: seconds for file, seconds in took.items() if Path(file).exists()}


def note(item: pytest.Item, run: list[LongStep] | None, seconds: float) -> None:
    """Keep the longest step of a test that was judged, over all of its repetitions, and how long the last one took."""
    if run is None:
        return
    item.config.stash[_took][item.nodeid] = seconds
    longest = item.config.stash[_longest]
    steps = [*run, *filter(None, [longest.get(item.nodeid)])]
    longest[item.nodeid] = max(steps, key=lambda step: step.ratio, default=None)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if config.stash[_longest] and not config.getoption("timed"):
        with suppress(PermissionError):  # a checkout of somebody else: nothing is kept
            _keep(config.rootpath / KEPT, config.stash[_longest], config.stash[_took])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name each test with a step near its budget."""
    longest = terminalreporter.config.stash[_longest]
    near = sorted(
        ((step.ratio, name, step) for name, step in longest.items() if step is not None and step.ratio >= HALF),
        reverse=True,
        key=lambda each: each[:2],
    )
    if near:
        terminalreporter.section("longest steps of at least half of their budget")
    for ratio, name, step in near:
        terminalreporter.line(f"{ratio:.2f} {name}: {step}")


def _keep(path: Path, longest: dict[str, LongStep | None], took: dict[str, float]) -> None:
    with _locked(path):
        kept = _read(path)
        for name, step in longest.items():
            kept.pop(name, None)
            if step is not None and step.ratio >= HALF:
                kept[name] = {"ratio": round(step.ratio, 2), "seconds": round(took[name], 2), "step": str(step)}
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(kept, indent=1, sort_keys=True))
        draft.replace(path)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except FileNotFoundError:
        return {}
