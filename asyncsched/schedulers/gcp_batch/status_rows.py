"""Google's JSON, read part by part: whatever is missing or of another kind is empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias, cast

from asyncsched.schedulers.gcp_batch.names import GCPJobRef, ref_of_resource

__all__ = [
    "GROUP",
    "Row",
    "counts_of",
    "environment_of",
    "job_ref",
    "last_event",
    "number",
    "part",
    "parts",
    "program_of",
    "status_events",
    "task_count",
    "text",
    "time_of",
]

Row: TypeAlias = Mapping[str, Any]

GROUP = "group0"
"""What Batch calls the one group of tasks that a job has."""

MAX_TASKS = 100_000

NOTHING: Row = {}


def part(row: Row, name: str) -> Row:
    """Return an object in a row."""
    value = row.get(name)
    return cast("Row", value) if isinstance(value, dict) else {}


def parts(row: Row, name: str) -> Sequence[Row]:
    """Return the objects of a list in a row."""
    value = row.get(name)
    return [cast("Row", each) for each in cast("list[object]", value) if isinstance(each, dict)] if value else []


def text(row: Row, name: str) -> str:
    """Return a text in a row."""
    value = row.get(name)
    return value if isinstance(value, str) else ""


def number(value: object, default: int = 0) -> int:
    """Return a whole number; Google writes those of 64 bits as texts."""
    try:
        return int(cast("Any", value))
    except (TypeError, ValueError, OverflowError):
        return default


def time_of(value: object) -> datetime | None:
    """Return a time as an aware datetime in UTC; its nanoseconds are cut off to what Python keeps."""
    if not isinstance(value, str) or not value:
        return None
    head, point, rest = value.removesuffix("Z").partition(".")
    try:
        return datetime.fromisoformat(f"{head}{point}{rest[:6].ljust(6, '0') if point else ''}+00:00")
    except ValueError:
        return None


def job_ref(row: Row) -> GCPJobRef | None:
    """Return which job a row tells of."""
    return ref_of_resource(text(row, "name"))


def _group(row: Row) -> Row:
    return next(iter(parts(row, "taskGroups")), NOTHING)


def task_count(row: Row) -> int:
    """Return how many tasks a job has."""
    group = _group(row)
    environments = parts(group, "taskEnvironments")
    return min(max(1, len(environments) or number(group.get("taskCount"), 1)), MAX_TASKS)


def counts_of(row: Row) -> dict[str, int]:
    """Return how many of a job's tasks are in which state; empty before there are any."""
    counts = part(part(part(part(row, "status"), "taskGroups"), GROUP), "counts")
    return {name: many for name, value in counts.items() if (many := number(value)) > 0}


def status_events(row: Row) -> Sequence[Row]:
    """Return what has happened to a job or a task, in order."""
    return parts(part(row, "status"), "statusEvents")


def last_event(row: Row) -> Row:
    """Return what has happened last to a job or a task; empty where nothing has."""
    return next(iter(reversed(status_events(row))), NOTHING)


def program_of(row: Row) -> Row:
    """Return the runnable that is a job's program: the last one that is a container, or the last one."""
    runnables = parts(part(_group(row), "taskSpec"), "runnables")
    containers = [each for each in runnables if part(each, "container")]
    return next(iter(reversed(containers or runnables)), NOTHING)


def environment_of(row: Row) -> Row:
    """Return the variables that all runnables of a job have."""
    return part(part(part(_group(row), "taskSpec"), "environment"), "variables")
