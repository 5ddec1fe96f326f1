"""The tables of features in the docs are made from the backends, and stand on the pages."""

from __future__ import annotations

import importlib.util
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from asyncsched.schedulers import Stream, get_scheduler, get_scheduler_factories
from asyncsched.schedulers.built_in import BUILT_IN
from asyncsched.schedulers.ignored import FIELDS
from asyncsched.schedulers.registry import known_names

DOCS = Path(__file__).parents[1] / "docs"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("_features", DOCS / "_features.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


made: Any = load()
NAMES = [name for name in known_names() if name in get_scheduler_factories()]


def cells(lines: list[str]) -> dict[str, list[str]]:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: row[1:] for row in rows}


def test_every_backend_of_this_release_has_a_column() -> None:
    assert [f"`{name}`" for name in NAMES] == cells(made.matrix())[""]
    assert [f"`{name}`" for name in NAMES] == cells(made.options())["option"]


@pytest.mark.parametrize("name", NAMES)
def test_a_column_says_what_the_backend_says(name: str) -> None:
    scheduler = get_scheduler(name, "test")
    told = {what: row[NAMES.index(name)] for what, row in cells(made.matrix()).items()}

    assert ("reported" if scheduler.pushes_states else "polled") == told["states are"]
    assert ("yes" if Stream.STDOUT in scheduler.log_streams else "no") == told["separate stdout and stderr"]
    patched = "a new image" if scheduler.has_images else "a copy for each app"
    takes_workspace = type(scheduler).workspace_builder is not None
    assert (patched if takes_workspace else "no") == told["workspaces (`workspace_builder`)"]
    assert BUILT_IN[name].takes_workspace == takes_workspace
    for field in FIELDS:
        why = scheduler.ignores.get(field)

        some = scheduler.capabilities if field == "resource.capabilities" else None
        taken = "used" if some is None else f"only {', '.join(f'`{each}`' for each in sorted(some))}"

        assert (taken if why is None else f"ignored: {why}") == told[f"`{field}`"]
    options = {what for what, row in cells(made.options()).items() if row[NAMES.index(name)] == "✔️"}

    assert {f"`{field.name}`" for field in fields(scheduler.options)} == options


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_honoured_is_on_the_backends_page(name: str) -> None:
    rows = cells(made.not_honoured(name))
    pages = [page for page in (DOCS / "backends").glob("*.md") if f"```{{not-honoured}} {name}\n" in page.read_text()]

    assert 1 == len(pages)
    assert {f"`{field}`" for field in get_scheduler(name, "test").ignores} <= {*rows}


def test_the_tables_are_on_their_page() -> None:
    page = (DOCS / "backends/matrix.md").read_text()

    assert "```{feature-matrix}" in page
    assert "```{option-matrix}" in page
