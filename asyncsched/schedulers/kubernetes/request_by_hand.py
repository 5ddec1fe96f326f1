"""Complete requests written by hand with the labels by which asyncsched finds an app."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, cast

from asyncsched.errors import UsageError
from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.request import KubernetesJob
from asyncsched.schedulers.kubernetes.request_pod import task_labels

__all__ = ["adopt"]

Json = dict[str, Any]


def adopt(job: KubernetesJob, *, session: str, version: str) -> tuple[str, KubernetesJob]:
    """Return the app id of a request, and a copy of the request with the labels that identify its objects.

    A request from a dry-run has them already. If no container of a pod is named ``main``, the first one gets that name
    and so decides the pod's state.

    Args:
        job: The request; it is not changed.
        session: The session that submits it.
        version: This package's version.

    Raises:
        UsageError: The request does not name its job.
    """
    made = copy.deepcopy(job)
    metadata = _section(made.resource, "metadata")
    name = metadata.get("name")
    namespace = metadata.setdefault("namespace", "default")
    if not isinstance(name, str) or not names.is_subdomain(name):
        raise UsageError(
            f"resource['metadata']['name'] must be the name of the job, got {name!r}",
            why="a name has a-z, 0-9, - and dots",
            fix="set it, or use the request of a dry-run",
        )
    labels, annotations = names.said(names.SESSION, session)
    ours = {names.APP: name, names.KIND: made.kind, **labels}
    _add(metadata, "annotations", {names.APP_NAME: name, names.VERSION: version})
    metadata["annotations"].update(annotations)
    index = 0
    for body in (made.resource, *made.others):
        own = _section(body, "metadata")
        own.setdefault("namespace", namespace)
        own["labels"] = {**(own.get("labels") or {}), **ours}
        for task, template in _templates(body):
            of_task = task_labels(names.task_names(name, [(task, 1)])[0], index)
            if body.get("kind") == "Job" and made.kind == "job":
                _add(own, "labels", of_task)
            _adopt_template(template, ours, of_task)
            index += 1
    return names.app_id(str(namespace), name), made


def _templates(body: Json) -> Iterator[tuple[str, Json]]:
    """Yield the pod templates of a job, with the names of their roles."""
    spec = _section(body, "spec")
    tasks = cast("list[Json]", spec.get("tasks") or [])
    for place, task in enumerate(tasks):
        yield str(task.get("name") or f"task-{place}"), _section(task, "template")
    if "template" in spec:
        labels: Mapping[str, str] = _section(body, "metadata").get("labels") or {}
        yield labels.get(names.ROLE) or "main", _section(spec, "template")


def _adopt_template(template: Json, ours: Mapping[str, str], of_task: Mapping[str, str]) -> None:
    metadata = _section(template, "metadata")
    _add(metadata, "labels", of_task)
    metadata["labels"].update(ours)
    containers = cast("list[Json]", _section(template, "spec").get("containers") or [])
    if containers and all(each.get("name") != names.CONTAINER for each in containers):
        containers[0]["name"] = names.CONTAINER


def _add(owner: Json, field: str, values: Mapping[str, str]) -> None:
    """Add values whose keys are missing."""
    owner[field] = {**values, **(owner.get(field) or {})}


def _section(owner: Json, field: str) -> Json:
    found: Json = owner.setdefault(field, {})
    return found
