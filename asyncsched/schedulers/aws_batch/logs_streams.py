"""Where the lines of each replica stand in CloudWatch: pure, from what DescribeJobs shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from asyncsched.schedulers.aws_batch.status_rows import Row, container_of, node_groups, node_ids, part, parts

__all__ = ["LOG_GROUP", "LogStreamRef", "LogStreamRefs"]

Replica = tuple[str, int]

LOG_GROUP = "/aws/batch/job"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStreamRef:
    """One CloudWatch stream: what one container of one attempt of a replica writes.

    Attributes:
        attempt: 0 for the first run.
        stream: The log stream; it comes into being with its first line.
        container: The container's name, where a task has several.
        stopped_ms: When the attempt ended, in AWS's milliseconds; None while it may run.
    """

    attempt: int
    stream: str
    container: str = ""
    stopped_ms: int | None = None


class LogStreamRefs:
    """Where the lines of an app's replicas stand, as DescribeJobs shows its job and nodes.

    Iterating gives pairs of (role, number) and a place, in the order of the attempts.
    """

    def __init__(self, row: Row, nodes: Mapping[str, Row]) -> None:
        self._containers: dict[Replica, Row] = {}
        self._places: list[tuple[Replica, LogStreamRef]] = []
        children = node_ids(row)
        for group in node_groups(row):
            for replica, node in enumerate(group.nodes):
                own = nodes.get(children[node]) if children else row
                self._containers[group.name, replica] = container_of(own or {}) or group.container
                self._places += (((group.name, replica), place) for place in _of_node(own or {}))

    def __iter__(self) -> Iterator[tuple[Replica, LogStreamRef]]:
        return iter(self._places)

    def group(self, role: str, replica: int) -> str:
        """Return the log group that a replica logs to.

        Raises:
            NotImplementedError: It logs to something else than CloudWatch.
        """
        logging = part(self._containers.get((role, replica), {}), "logConfiguration")
        driver = logging.get("logDriver", "awslogs")
        if driver != "awslogs":
            raise NotImplementedError(f"{role}/{replica} logs with the driver {driver}: only awslogs can be read")
        return str(part(logging, "options").get("awslogs-group", LOG_GROUP))


def _of_node(row: Row) -> Iterator[LogStreamRef]:
    seen: set[str] = set()
    attempts = parts(row, "attempts")
    for number, attempt in enumerate([*attempts, row]):
        stopped = attempt.get("stoppedAt") if number < len(attempts) else None
        for container, stream in _streams(attempt):
            if stream not in seen:  # The newest attempt stands in the job's own row too.
                seen.add(stream)
                yield LogStreamRef(attempt=number, stream=stream, container=container, stopped_ms=stopped or None)


def _streams(row: Row) -> Iterator[tuple[str, str]]:
    """Yield container and stream, wherever this kind of job shows them."""
    if stream := part(row, "container").get("logStreamName"):
        yield "", stream
    tasks = parts(row, "taskProperties") or parts(part(row, "ecsProperties"), "taskProperties")
    containers = [container for task in tasks for container in parts(task, "containers")]
    for container in containers:
        if stream := container.get("logStreamName"):
            yield container.get("name", "") if len(containers) > 1 else "", stream
