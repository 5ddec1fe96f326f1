"""What is public is written down, documented, and told the same way everywhere."""

from __future__ import annotations

import ast
import dataclasses
import difflib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

import asyncsched
import asyncsched.errors
from tests import surface

_DESCRIBED = (FunctionType, property, classmethod, staticmethod)
ROOMS = [pytest.param(room, id=room.__name__) for room in surface.rooms()]


def test_the_surface_is_what_was_promised() -> None:
    promised = surface.PROMISED.read_text().splitlines()
    difference = difflib.unified_diff(promised, surface.describe().splitlines(), "promised", "now", lineterm="", n=1)
    changes = "\n".join(difference)

    assert not changes, f"{changes}\nif this is meant: python -m tests.surface --write"


def test_no_two_public_classes_have_one_name() -> None:
    package = Path(asyncsched.__file__).parent
    homes: dict[str, list[str]] = {}
    for path in package.rglob("*.py"):
        for node in ast.parse(path.read_bytes()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(str(path.relative_to(package)))

    assert len(homes) > 300
    assert {} == {name: paths for name, paths in homes.items() if len(paths) > 1}


def test_every_error_is_at_the_front_door() -> None:
    assert {*asyncsched.errors.__all__} <= {*asyncsched.__all__}


@pytest.mark.parametrize("room", ROOMS)
def test_all_tells_what_is_there(room: ModuleType) -> None:
    # Its order is ruff's business (RUF022).
    assert sorted(set(_public_names(room))) == sorted(room.__all__)


def test_each_name_of_the_front_door_is_told_to_type_checkers_from_where_it_lives() -> None:
    told = {
        alias.asname: node.module
        for node in ast.walk(_tree(asyncsched))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("asyncsched")
        for alias in node.names
    }

    assert told == asyncsched._HOME


def test_the_front_door_has_its_names_and_no_others() -> None:
    assert sorted(asyncsched._HOME) == [*asyncsched._HOME] == asyncsched.__all__
    assert {*asyncsched.__all__} <= {*dir(asyncsched)}
    with pytest.raises(AttributeError, match="module 'asyncsched' has no attribute 'nothing'"):
        asyncsched.nothing  # noqa: B018  # to look it up is the test


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_has_a_docstring(room: ModuleType) -> None:
    silent = [name for name, value in _documentable(room) if not _doc(value)]

    assert [] == silent


def _public_names(room: ModuleType) -> Iterator[str]:
    """Yield what a reader of the source takes for public: definitions, and a package's re-exports."""
    is_package = hasattr(room, "__path__")
    for node in _top_level(room):
        match node:
            case ast.ImportFrom(module=str(module)) if module.startswith("asyncsched"):
                # A package passes on all that it imports from us; another module what it says it does.
                names = [alias.asname or alias.name for alias in node.names if is_package or alias.name in room.__all__]
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names = [node.name]
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                names = [name]
            case _:
                names = []
        yield from (name for name in names if not name.startswith("_") and name != "TYPE_CHECKING")


def _top_level(room: ModuleType) -> Iterator[ast.stmt]:
    for node in _tree(room).body:
        # `if TYPE_CHECKING:` is where a lazy package tells what it gives.
        yield from node.body if isinstance(node, ast.If) else [node]


def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(Path(str(module.__file__)).read_text())


def _documentable(room: ModuleType) -> Iterator[tuple[str, object]]:
    for name in room.__all__:
        value = getattr(room, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            yield name, value
        if inspect.isclass(value) and value.__module__.startswith("asyncsched"):
            for member, static in surface.members(value):
                is_described = inspect.isfunction(static) or isinstance(static, property | classmethod | staticmethod)
                if is_described and not member.startswith("__"):
                    yield f"{name}.{member}", getattr(value, member)


def _doc(value: object) -> str:
    doc = inspect.getdoc(value) or ""
    # A dataclass without a docstring is given its signature for one.
    is_generated = isinstance(value, type) and dataclasses.is_dataclass(value) and doc.startswith(f"{value.__name__}(")
    return "" if is_generated else doc
