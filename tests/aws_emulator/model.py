"""Jobs, nodes and attempts as plain data."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.aws_emulator.timeline import Event

ACCOUNT = "123456789012"
REGION = "us-east-1"
WAITING = ("SUBMITTED", "PENDING", "RUNNABLE")
TERMINAL = ("SUCCEEDED", "FAILED")
STATUSES = (*WAITING, "STARTING", "RUNNING", *TERMINAL)

Json = dict[str, Any]


def arn(kind: str, name: str) -> str:
    return f"arn:aws:batch:{REGION}:{ACCOUNT}:{kind}/{name}"


@dataclass
class Pace:
    """How long things take, in seconds; a test that needs the real service's minutes says so."""

    submitted: float = 0.02
    runnable: float = 0.03
    starting: float = 0.05
    child: float = 0.02
    #: From the main node's end to the signal that its children get.
    stop_children: float = 0.05
    #: Whether that time is cut short when the last child has ended, as where nodes really run, nobody knows how long.
    waits_for_children: bool = False
    #: How long a second of a job's time limit takes: the service takes none below 60.
    second_of_timeout: float = 1.0
    #: From SIGTERM to SIGKILL (30 s on ECS).
    grace: float = 2.0
    #: From a line's time to its appearance in CloudWatch.
    ingest: float = 0.05


@dataclass
class Attempt:
    """One run of one node's container."""

    number: int
    stream: str
    task: str
    started: int
    stop: Callable[[], None] = field(default=lambda: None, repr=False)
    stopped: int | None = None
    exit_code: int | None = None
    reason: str | None = None
    status_reason: str | None = None


@dataclass
class Node:
    """A place for a container: the only one of a job, or one of a multi-node job's."""

    index: int
    container: Json
    status: str = "SUBMITTED"
    current: Attempt | None = None
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def last(self) -> Attempt | None:
        return self.current or (self.attempts[-1] if self.attempts else None)


@dataclass
class Job:
    """A job, its own nodes, and how far it is."""

    id: str
    name: str
    queue: str
    definition: Json
    nodes: dict[int, Node]
    created: int
    order: int
    main: int = 0
    retry: Json = field(default_factory=dict)
    timeout: Json | None = None
    tags: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    depends_on: list[Json] = field(default_factory=list)
    share: str | None = None
    priority: int | None = None
    status: str = "SUBMITTED"
    reason: str | None = None
    started: int | None = None
    stopped: int | None = None
    cancelled: bool = False
    terminated: bool = False
    array_index: int | None = None
    children: list[Job] = field(default_factory=list)
    #: How the main node's end decided, while its children are still being stopped.
    verdict: tuple[str, str] | None = None
    #: When its children are stopped that have not ended by themselves; None while the main node runs.
    last_look: Event | None = field(default=None, repr=False)

    @property
    def arn(self) -> str:
        return arn("job", self.id)

    @property
    def multinode(self) -> bool:
        return self.definition["type"] == "multinode"

    @property
    def over(self) -> bool:
        return self.status in TERMINAL


def new_id() -> str:
    return str(uuid.uuid4())


def merge_container(base: Mapping[str, Any], override: Mapping[str, Any]) -> Json:
    """A container's properties with a submit's overrides laid over them."""
    merged = {**base, **{key: value for key, value in override.items() if key not in _BY_KEY}}
    for member, key in _BY_KEY.items():
        rows = {row[key]: row for row in [*base.get(member, ()), *override.get(member, ())]}
        if rows:
            merged[member] = list(rows.values())
    return merged


_BY_KEY = {"environment": "name", "resourceRequirements": "type"}


def node_range(text: str, total: int) -> Iterator[int]:
    """The nodes that ``n``, ``a:b``, ``:b`` or ``a:`` name."""
    first, colon, last = text.partition(":")
    start = int(first or 0)
    end = int(last) if last else total - 1 if colon else start
    return iter(range(start, end + 1))
