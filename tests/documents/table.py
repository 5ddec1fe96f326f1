"""The rows, and where they run."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NamedTuple, TypeAlias

import pytest

from asyncsched.schedulers import get_scheduler_factories
from tests.documents.places import PLACES
from tests.documents.ways import Way

__all__ = ["ROWS", "Row", "everywhere", "has_landed", "parameters", "row"]

Program: TypeAlias = Callable[[Way], Coroutine[Any, Any, None]]


class Row(NamedTuple):
    """What a page promises.

    Attributes:
        page: The page.
        says: The promise, in a sentence.
        program: What somebody who believes it has written.
        backend: The scheduler that it is about; empty for none in particular.
        served: Whether it needs the service.
    """

    page: str
    says: str
    program: Program
    backend: str = ""
    served: bool = False


ROWS: list[Row] = []


def row(page: str, says: str, *, backend: str = "", served: bool = False) -> Callable[[Program], Program]:
    """Add a program to the table."""

    def add(program: Program) -> Program:
        ROWS.append(Row(page, says, program, backend, served))
        return program

    return add


def everywhere(says: str) -> Callable[[Program], Program]:
    """Add a program to the table that runs at every place."""

    def add(program: Program) -> Program:
        ROWS.extend(Row("scheduler", says, program, backend, served=True) for backend in PLACES)
        return program

    return add


def has_landed(backend: str) -> bool:
    """Tell whether a backend is there."""
    return not backend or backend == "fake" or backend in get_scheduler_factories()


def parameters() -> Iterator[Any]:
    """Yield the rows that can run with what has to be up for them, marked with their services."""
    for each in ROWS:
        if not has_landed(each.backend) or (each.served and each.backend not in PLACES):
            continue
        up, service = (PLACES[each.backend].up, PLACES[each.backend].service) if each.served else ("", "")
        marks = [pytest.mark.service(service)] if service else []
        yield pytest.param(each, up, id=f"{each.page}-{each.program.__name__}-{each.backend}".rstrip("-"), marks=marks)
