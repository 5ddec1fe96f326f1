"""Every backend has the same words: who knows one finds the way in another."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "asyncsched"
BACKENDS = [path.parent for path in sorted((PACKAGE / "schedulers").glob("*/scheduler.py"))]
WORDS = {
    "request": {"make_request", "to_wire"},
    "status": {"describe_app", "list_row"},
    "errors": {"translate"},
}
SHORT = 40
"""A module with fewer lines joins the room that uses it most, unless it is one of these rooms by itself."""
ALONE = {"__init__", "errors", "options"}

TO_FIND = {"APP_ID", "REMOVE_AFTER", "VERSION"}
"""Labels by which the daemon is asked for containers and networks."""

EVERYWHERE = {"client", "contract", "errors", "groups", "page"}
"""What tests are named for beside a backend's own rooms: docker's client and errors are those of `_dockerd`."""

BESIDE = {"aws_batch": {"emulator", "stock_moto"}, "docker": {"services"}}
"""Tests of what the tests themselves run on."""

every = pytest.mark.parametrize("backend", BACKENDS, ids=lambda each: each.name)


def defined(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name


@every
@pytest.mark.parametrize("room", WORDS)
def test_a_room_has_the_functions_that_it_has_in_every_backend(backend: Path, room: str) -> None:
    modules = [*backend.glob(f"{room}.py"), *backend.glob(f"{room}_*.py")]
    if not modules and room == "errors":  # docker's are those of _dockerd; local has nobody to ask
        modules = [PACKAGE / "_dockerd/errors.py"]

    assert WORDS[room] <= {name for module in modules for name in defined(module)}


@every
def test_a_backend_is_imported_without_what_it_does(backend: Path) -> None:
    tree = ast.parse((backend / "__init__.py").read_text())
    imported = [node.module for node in tree.body if isinstance(node, ast.ImportFrom)]

    assert {"__future__", "typing", "asyncsched"} == {*imported}
    assert "create_scheduler" in {*defined(backend / "scheduler.py")}


@every
def test_no_module_is_too_short_to_be_one(backend: Path) -> None:
    modules = {path.stem: path.read_text().count("\n") for path in backend.glob("*.py") if path.stem not in ALONE}

    assert {} == {name: lines for name, lines in modules.items() if lines < SHORT}


def test_labels_of_docker_are_written_and_parsed_in_one_room() -> None:
    labels = {
        node.targets[0].id
        for node in ast.parse((PACKAGE / "schedulers/docker/names.py").read_text()).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        if isinstance(node.value, ast.Constant) and str(node.value.value).startswith("asyncsched.")
    }
    others = [path for path in (PACKAGE / "schedulers/docker").glob("*.py") if path.stem != "names"]

    assert len(labels) > 10
    for path in others:
        used = {
            node.attr
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "names"
        }
        assert set() == used & (labels - TO_FIND), path.name


@every
def test_that_a_running_app_is_not_removed_is_told_in_one_place(backend: Path) -> None:
    ending = "".join(path.read_text() for path in sorted(backend.glob("ending*.py")))

    assert "raise not_ended(" in ending
    assert 'has not ended"' not in ending


@pytest.mark.parametrize("name", ["aws_batch", "docker"])
def test_tests_follow_the_rooms(name: str) -> None:
    rooms = {path.stem.partition("_")[0] for path in (PACKAGE / "schedulers" / name).glob("*.py")}
    tests = {path.stem.removeprefix("test_").removeprefix("aws_") for path in TESTS.glob(f"{name}/test_*.py")}

    assert BESIDE[name] == {test for test in tests if test.partition("_")[0] not in {*rooms, *EVERYWHERE}}
