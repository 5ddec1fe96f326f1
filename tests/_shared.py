"""Several processes that share the tests: with ``--shared=DIR`` each takes files that no other has taken.

A process collects a file when it takes it, so that each file is imported by one process only. The longest files come
first, so that no process begins a long one when the others are about to end. What needs a Docker daemon comes before
everything else, and half of the processes take it, each with a daemon of its own: these tests wait for containers more
than they compute. What needs the Kubernetes cluster is taken by one process, which takes nothing that needs Docker.
"""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, pairwise
from pathlib import Path

import pytest

EXPECTED = "expected.json"
"""How many seconds each file took when it ran last, by its name; may be absent."""

TOOK = "took.jsonl"
"""How many seconds each file took, for the next run."""

CHARACTERS_PER_SECOND = 1000.0
"""What a file that has never run is expected to take: the longer its text, the longer."""

NEEDS = {"kubernetes": ('service("cluster")',), "docker": ("dockerd", "docker_host")}
"""What stands in the text of a file that needs a cluster, and of one that needs a Docker daemon of the tests' own."""

DOCKER_DAEMONS = 2
"""How many processes bring one up."""

_found = pytest.StashKey[list[pytest.File]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shared", type=Path, help="a directory in which the processes that share the tests take them")


def _directory(session: pytest.Session) -> Path | None:
    directory: Path | None = session.config.getoption("shared")
    return None if session.config.getoption("collectonly") else directory


def pytest_collection(session: pytest.Session) -> bool | None:
    """Find the files without importing them."""
    if _directory(session) is None:
        return None
    verbose, session.config.option.verbose = session.config.option.verbose, -1  # "collected 0 items" says nothing
    try:
        session.perform_collect(genitems=False)
    finally:
        session.config.option.verbose = verbose
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Keep the folders that were found from the plugins that choose among tests."""
    if _directory(session) is not None and _found not in session.stash:
        session.stash[_found] = list(_files_in(session, items))
        items.clear()


def _files_in(session: pytest.Session, nodes: Sequence[pytest.Item | pytest.Collector]) -> Iterator[pytest.File]:
    for node in nodes:
        if isinstance(node, pytest.File):
            yield node
        elif isinstance(node, pytest.Collector):
            report, _ = session._collect_one_node(node)
            yield from _files_in(session, report.result if report.passed else [])


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run what this process takes; the next file is taken when it is the next item's turn to be known."""
    directory = _directory(session)
    if directory is None or session.testsfailed:
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
    for file in _longest_first(session.stash[_found], directory):
        if not _take(file, directory):
            continue
        started = time.monotonic()
        items = _items_of(session, file)
        session.config.hook.pytest_collection_modifyitems(session=session, config=session.config, items=items)
        session.items += items
        session.testscollected += len(items)
        yield from items
        if items:
            _note(directory, file.nodeid, time.monotonic() - started)


def _items_of(session: pytest.Session, file: pytest.File) -> list[pytest.Item]:
    """Import a file, with no collection of garbage on the way.

    Python 3.11 before 3.11.5 cannot parse one thing while it converts another, as pytest does with each file: and a
    task that is found lost is told with its traceback, for which lines are parsed.
    """
    gc.collect()
    gc.disable()
    try:
        return list(session.genitems(file))
    finally:
        gc.enable()


def _longest_first(files: list[pytest.File], directory: Path) -> list[pytest.File]:
    known: dict[str, float] = {}
    with suppress(FileNotFoundError):
        known = json.loads((directory / EXPECTED).read_text())

    def weight(file: pytest.File) -> tuple[int, float]:
        guessed = file.path.stat().st_size / CHARACTERS_PER_SECOND
        return ["", "docker", "kubernetes"].index(_needs(file)), known.get(file.nodeid, guessed)

    return sorted(files, key=weight, reverse=True)


def _needs(file: pytest.File) -> str:
    """Name the service that has to be brought up for a file; none is an empty name."""
    text = file.path.read_text()
    return next((service for service, words in NEEDS.items() if any(word in text for word in words)), "")


def _take(file: pytest.File, directory: Path) -> bool:
    service = _needs(file)
    if service and not _may_bring_up(service, directory):
        return False
    return _is_ours(directory / file.nodeid.replace("/", "-"))


def _may_bring_up(service: str, directory: Path) -> bool:
    cluster = directory / "kubernetes"
    if service == "kubernetes":
        return _is_ours(cluster)
    if cluster.is_symlink() and _is_ours(cluster):
        return False
    return any(_is_ours(directory / f"docker-{n}") for n in range(DOCKER_DAEMONS))


def _is_ours(mark: Path) -> bool:
    """Take what one process can take once; tell whether it is this process that has it."""
    with suppress(FileExistsError):
        mark.symlink_to(str(os.getpid()))
    return mark.readlink() == Path(str(os.getpid()))


def _note(directory: Path, name: str, seconds: float) -> None:
    with (directory / TOOK).open("a") as took:  # one short write, which others do not divide
        took.write(json.dumps([name, round(seconds, 2)]) + "\n")
