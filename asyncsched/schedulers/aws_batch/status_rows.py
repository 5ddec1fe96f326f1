"""Reading AWS's answers, where a part that does not apply is absent, null or empty, as it happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

__all__ = ["Row", "container_of", "part", "parts"]

Row: TypeAlias = Mapping[str, Any]


def part(row: Row, name: str) -> Row:
    """Return a structure inside an answer; empty where there is none."""
    return cast("Row", row.get(name) or {})


def parts(row: Row, name: str) -> Sequence[Row]:
    """Return a list of structures inside an answer; empty where there is none."""
    return cast("Sequence[Row]", row.get(name) or ())


def container_of(row: Row) -> Row:
    """Return the container of a job, a node or an attempt, wherever it is shown: of several, an essential one."""
    if container := part(row, "container"):
        return container
    for task in _tasks(row):
        containers = parts(task, "containers")
        for container in [each for each in containers if each.get("essential", True)] or containers[:1]:
            return {**container, "volumes": parts(task, "volumes")}
    return {}


def _tasks(row: Row) -> Sequence[Row]:
    return parts(row, "taskProperties") or parts(part(row, "ecsProperties"), "taskProperties")
