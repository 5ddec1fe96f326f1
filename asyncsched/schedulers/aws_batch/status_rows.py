"""Read AWS's answers, in which a part that does not apply may be absent, null or empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

from asyncsched.schedulers._common.untrusted import read_number
from asyncsched.schedulers.aws_batch.request_container import ROLE_NAME_ENV

__all__ = [
    "NodeGroup",
    "Row",
    "container_of",
    "environment_of",
    "finished_attempts",
    "last_run",
    "node_groups",
    "node_ids",
    "overlap",
    "part",
    "parts",
    "time_of",
]

Row: TypeAlias = Mapping[str, Any]

MAX_NODES, MAX_ARRAY = 1000, 10_000
"""Most nodes of a job, and most children of an array."""


def part(row: Row, name: str) -> Row:
    """Return a structure in an answer; empty if there is none."""
    return cast("Row", row.get(name) or {})


def parts(row: Row, name: str) -> Sequence[Row]:
    """Return a list of structures in an answer; empty if there is none."""
    return cast("Sequence[Row]", row.get(name) or ())


def container_of(row: Row) -> Row:
    """Return the container of any kind of job, node or attempt; of several, an essential one."""
    if container := part(row, "container"):
        return container
    for task in _tasks(row):
        containers = parts(task, "containers")
        for container in [each for each in containers if each.get("essential", True)] or containers[:1]:
            of_task = {name: value for name, value in task.items() if name != "containers"}
            others = [each for row in _tasks(row) for each in parts(row, "containers") if each is not container]
            return {**of_task, **container, "other containers": others}
    return {}


def _tasks(row: Row) -> Sequence[Row]:
    return parts(row, "taskProperties") or parts(part(row, "ecsProperties"), "taskProperties")


def node_ids(row: Row) -> list[str]:
    """Return the ids of a job's nodes or array children; none for a single job."""
    if "nodeProperties" in row:
        return [f"{row['jobId']}#{index}" for index in range(_node_count(row))]
    size = min(part(row, "arrayProperties").get("size", 0), MAX_ARRAY)
    return [f"{row['jobId']}:{index}" for index in range(size)]


def _node_count(row: Row) -> int:
    count: int = part(row, "nodeProperties").get("numNodes", 0)
    return min(count, MAX_NODES)


class NodeGroup:
    """The nodes of one role.

    Attributes:
        name: The role's name.
        nodes: The nodes of its replicas, in order.
        container: Their container.
    """

    def __init__(self, name: str, nodes: Sequence[int], container: Row) -> None:
        self.name, self.nodes, self.container = name, nodes, container


def node_groups(row: Row) -> list[NodeGroup]:
    """Return the node groups of a job's roles."""
    properties = part(row, "nodeProperties")
    if not properties:
        container = container_of(row)
        size = min(part(row, "arrayProperties").get("size", 1), MAX_ARRAY)
        return [NodeGroup(_role_name(container) or row["jobName"], range(size), container)]
    ranges = _ranges(properties)
    owners = _owners(ranges)
    groups: list[NodeGroup] = []
    for index, group in enumerate(parts(properties, "nodeRangeProperties")):
        container = container_of(group)
        nodes = [node for node in ranges[index] if owners[node] == index] if overlap(properties) else ranges[index]
        groups.append(NodeGroup(_role_name(container) or f"group-{index}", nodes, container))
    return groups


def overlap(properties: Row) -> bool:
    """Return whether a node is in several of a job's ranges; AWS Batch then uses the inner one."""
    ranges = _ranges(properties)
    return len(_owners(ranges)) < sum(map(len, ranges))


def _ranges(properties: Row) -> list[range]:
    total = min(properties.get("numNodes", 0), MAX_NODES)
    return [_nodes(group.get("targetNodes", ""), total) for group in parts(properties, "nodeRangeProperties")]


def _owners(ranges: Sequence[range]) -> dict[int, int]:
    """Return the index of each node's range; of several, the smallest range."""
    by_size = sorted(range(len(ranges)), key=lambda index: -len(ranges[index]))
    return {node: index for index in by_size for node in ranges[index]}


def _nodes(text: str, total: int) -> range:
    """Return the existing nodes of a range such as ``0``, ``1:``, ``:3`` or ``2:5``."""
    first, colon, last = text.partition(":")
    start = _index(first, 0)
    end = _index(last, total - 1) if colon else start
    return range(min(start, total), min(end + 1, total))


def _index(text: str, default: int) -> int:
    try:
        return read_number(text)
    except ValueError:
        return default


def _role_name(container: Row) -> str:
    return environment_of(container).get(ROLE_NAME_ENV, "")


def environment_of(container: Row) -> dict[str, str]:
    """Return the variables of a container."""
    return {pair.get("name", ""): pair.get("value", "") for pair in parts(container, "environment")}


def finished_attempts(row: Row) -> Sequence[Row]:
    """Return a job's ended attempts; some servers also list a running one."""
    return [attempt for attempt in parts(row, "attempts") if attempt.get("stoppedAt")]


def last_run(row: Row) -> Row:
    """Return the newest container of a job, from its row or its attempts."""
    container = container_of(row)
    if "exitCode" in container:
        return container
    attempts = parts(row, "attempts")
    return (container_of(attempts[-1]) if attempts else {}) or container


def time_of(milliseconds: int | None) -> datetime | None:
    """Return AWS's time in milliseconds as an aware datetime; 0 means that it has not happened."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds else None
