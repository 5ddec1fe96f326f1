"""The map in docs/design.md is the tree: every module has a room on it, and nothing on it is missing."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "asyncsched"
PAGE = (ROOT / "docs/design.md").read_text()
MAP = PAGE.partition("## The map\n")[2].partition("\n## ")[0]
BACKENDS = ("local", "docker", "kubernetes", "aws_batch", "gcp_batch", "slurm")
PURE = ("names", "options", "request", "status")
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
SHARED = ("formats", "lines", "host", "files", "identity_tags")


def table(after: str) -> list[list[str]]:
    """Return the names in the first column of the table that follows a sentence of the map, row by row."""
    rows = MAP.partition(after)[2].split("|---|---|\n")[1].split("\n\n")[0]
    return [re.findall(r"`([\w./]+)`", row.split("|")[1]) for row in rows.splitlines()]


def names(after: str) -> set[str]:
    listed = [name for row in table(after) for name in row]

    assert len(listed) == len({*listed})
    return {*listed}


def children(folder: Path) -> set[str]:
    found = {path.stem for path in folder.iterdir() if path.suffix == ".py"}
    return (found | {path.parent.name for path in folder.glob("*/__init__.py")}) - {"__init__"}


def backends() -> list[Path]:
    return [PACKAGE / "schedulers" / name for name in BACKENDS if (PACKAGE / "schedulers" / name).is_dir()]


def test_every_room_of_the_package_is_on_the_map() -> None:
    drawn = {*re.findall(r"\b\w+\b", MAP.partition("```text")[2].partition("```")[0])}
    rooms = names("compares this map with the source tree")

    assert children(PACKAGE) == rooms | {"schedulers", "logs"}
    assert rooms | {"schedulers", "logs"} <= drawn


@pytest.mark.parametrize(
    ("after", "folder"),
    [
        ("The modules of `schedulers`", "schedulers"),
        ("is in `schedulers/_common`", "schedulers/_common"),
        ("The modules of `logs`", "logs"),
    ],
)
def test_every_module_is_on_the_map(after: str, folder: str) -> None:
    own = {path.stem for path in (PACKAGE / folder).glob("*.py")} - {"__init__"}

    assert own == names(after)


def test_every_module_of_a_backend_is_in_a_room() -> None:
    rooms, further = names("### The rooms of a backend"), names("There are further rooms only")
    modules = {f"{backend.name}/{name}" for backend in backends() for name in children(backend)}
    placed = {each for each in modules if _room(each.partition("/")[2], rooms)}

    assert modules - placed == further
    assert rooms == {_room(each.partition("/")[2], rooms) for each in placed}


def _room(module: str, rooms: Iterable[str]) -> str:
    return next((room for room in rooms if module == room or module.startswith(f"{room}_")), "")


def test_every_module_has_a_floor() -> None:
    assert [] == [*without_floor(PACKAGE, CONTRACTS)]


def test_a_module_without_a_floor_is_found(tmp_path: Path) -> None:
    for module in ("__init__", "low", "high", "new", "room/__init__", "room/one", "room/two", "added/__init__"):
        (tmp_path / f"asyncsched/{module}.py").parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"asyncsched/{module}.py").touch()
    floors = {"type": "layers", "exhaustive": True}
    contracts: list[dict[str, Any]] = [
        floors | {"containers": ["asyncsched"], "layers": ["(high)", "room", "low"]},
        {"type": "layers", "containers": ["asyncsched.room"], "layers": ["one", "two"]},
    ]
    found = ["asyncsched.added", "asyncsched.new", "asyncsched.room.one", "asyncsched.room.two"]

    assert found == sorted(without_floor(tmp_path / "asyncsched", contracts))


def without_floor(package: Path, contracts: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the modules that no exhaustive contract of layers names."""
    for init in package.rglob("__init__.py"):
        container = ".".join(init.parent.relative_to(package.parent).parts)
        layers = [
            layer
            for each in contracts
            if _is_exhaustive(each) and container in each["containers"]
            for layer in each["layers"]
        ]
        ignored = {name for each in contracts for name in each.get("exhaustive_ignores", ())}
        floors = {*re.findall(r"[\w.]+", " ".join(layers))} | ignored
        yield from (f"{container}.{name}" for name in children(init.parent) - floors)


def _is_exhaustive(contract: dict[str, Any]) -> bool:
    return contract["type"] == "layers" and bool(contract.get("exhaustive"))


def test_every_backend_is_held_to_the_order_of_the_rooms() -> None:
    (order,) = [each for each in CONTRACTS if each["name"].startswith("The rooms of a backend")]

    assert {f"asyncsched.schedulers.{backend.name}" for backend in backends()} == {*order["containers"]}


def test_every_pure_module_of_a_backend_is_held_to_be_pure() -> None:
    (pure,) = [each for each in CONTRACTS if each["name"] == "What is pure in a backend needs no loop"]
    said = {name.removeprefix("asyncsched.schedulers.") for name in pure["source_modules"]}
    modules = {f"{backend.name}.{name}" for backend in backends() for name in children(backend) if _room(name, PURE)}

    assert modules == {name for name in modules if name in said or f"*.{name.partition('.')[2]}" in said}


def test_what_both_sides_of_the_supervisor_import_is_said() -> None:
    inside = re.compile(r"schedulers\.local\.supervisor(?:\.(\w+)| import (\w+))")
    used = {
        name
        for path in (PACKAGE / "schedulers/local").glob("*.py")
        for found in inside.findall(path.read_text())
        if (name := found[0] or found[1]) and (PACKAGE / f"schedulers/local/supervisor/{name}.py").exists()
    }
    said = MAP.partition("The supervisor and the backend both import")[2].partition("of `local/supervisor`")[0]

    assert {*SHARED} == {*re.findall(r"`(\w+)`", said)}
    assert {*SHARED} <= used


def test_imports_go_round_only_where_the_map_says_so() -> None:
    said = {frozenset(f"asyncsched.{name}" for name in row) for row in table("### Import cycles")}

    assert said == {*circles(imports())}


def imports() -> dict[str, set[str]]:
    """Return what each module imports of the package: anywhere in it, types included."""
    modules = {_name(path): path for path in PACKAGE.rglob("*.py")}
    return {name: {*_imported(name, path, modules)} - {name} for name, path in modules.items()}


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _imported(name: str, path: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = name.split(".")[: None if path.name == "__init__.py" else -1]
                base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [base])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                if found := inner if inner in modules else base if base in modules else "":
                    yield found


def circles(graph: Mapping[str, set[str]]) -> Iterator[frozenset[str]]:
    """Yield the sets of modules each of which can be reached from all others of the set."""
    reached = {name: _reached(name, graph) for name in graph}
    for name in graph:
        circle = frozenset(other for other in reached[name] if name in reached[other])
        if len(circle) > 1:
            yield circle


def _reached(name: str, graph: Mapping[str, set[str]]) -> set[str]:
    found, left = {name}, [name]
    while left:
        new = graph[left.pop()] - found
        found |= new
        left += new
    return found


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a", "e"}, "e": {"d"}, "f": {"f", "a"}}

    assert {frozenset("abc"), frozenset("de")} == {*circles(graph)}
