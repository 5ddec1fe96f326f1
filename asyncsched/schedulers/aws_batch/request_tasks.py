"""A container as the task of ECS that managed instances want it to be: pure, in both directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from asyncsched.schedulers.aws_batch.status_rows import Row, part, parts

__all__ = ["as_task", "container_of", "task_containers"]

Json = dict[str, object]

#: A task's containers have names; the log streams of a job that has none call its container so.
CONTAINER_NAME = "default"
#: What belongs to the whole task, and how it is called there.
_OF_TASK = {
    "jobRoleArn": "taskRoleArn",
    "executionRoleArn": "executionRoleArn",
    "volumes": "volumes",
    "enableExecuteCommand": "enableExecuteCommand",
    "runtimePlatform": "runtimePlatform",
}


def as_task(container: Mapping[str, object]) -> Json:
    """Return container properties as ``ecsProperties`` of one task with this one container."""
    task: Json = {_OF_TASK[key]: value for key, value in container.items() if key in _OF_TASK}
    own = {key: value for key, value in container.items() if key not in _OF_TASK}
    return {"taskProperties": [{"containers": [{"name": CONTAINER_NAME, "essential": True, **own}], **task}]}


def task_containers(properties: object) -> list[list[Json]]:
    """Return the containers of each task of ``ecsProperties``; to change them changes the properties."""
    tasks = cast("list[dict[str, list[Json]]]", cast("Json", properties)["taskProperties"])
    return [task["containers"] for task in tasks]


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
