"""Convert an app to a Volcano job, with one task per role, or per replica if variables differ between replicas."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from asyncsched.errors import ConfigError
from asyncsched.schedulers.kubernetes.options import KubernetesOpts
from asyncsched.schedulers.kubernetes.request_values import varies_in_env
from asyncsched.specs.app import AppDef, RetryPolicy, Role

__all__ = ["ACTIONS", "is_per_replica", "job_retries", "make_job", "rank0_host", "task_rows"]

Json = dict[str, Any]

ACTIONS = {
    RetryPolicy.APPLICATION: "RestartJob",
    RetryPolicy.ROLE: "RestartTask",
    RetryPolicy.REPLICA: "RestartPod",
    RetryPolicy.HOT_SPARE: "RestartPod",
}
"""Volcano's action when a pod of a role fails."""

_FAILURES = ["PodFailed", "PodEvicted"]


def is_per_replica(role: Role) -> bool:
    """Return whether each replica of a role needs a separate task.

    Volcano adds the index variable after a container's other variables: arguments can refer to it, they cannot.
    """
    return role.num_replicas > 1 and varies_in_env(role)


def task_rows(role: Role, task: str) -> list[tuple[str, int, int | None]]:
    """Return the tasks of a role: name, number of pods, and the replica's id if it is a task for one replica."""
    if is_per_replica(role):
        return [(f"{task}-{replica}", 1, replica) for replica in range(role.num_replicas)]
    return [(task, role.num_replicas, None)]


def rank0_host(job: str, app: AppDef, first_task: str) -> str:
    """Return the address of replica 0 of the first role, as set by the svc plugin."""
    if sum(role.num_replicas for role in app.roles) == 1:
        return "localhost"
    task = task_rows(app.roles[0], first_task)[0][0]
    return f"{job}-{task}-0.{job}"


def job_retries(app: AppDef) -> int:
    """Return how often Volcano may restart; it counts per job, so this is the smallest limit of all roles."""
    return min((role.max_retries for role in app.roles if role.max_retries > 0), default=0)


def make_job(
    app: AppDef, metadata: Json, templates: Sequence[Sequence[tuple[str, int, Json]]], options: KubernetesOpts
) -> Json:
    """Return the job.

    Args:
        app: The app.
        metadata: The job's metadata.
        templates: The tasks of each role: name, number of pods and pod template.
        options: The run options.
    """
    _check_task_names(templates)
    tasks: list[Json] = []
    for role, rows in zip(app.roles, templates, strict=True):
        tasks += [_task(app, role, row, options) for row in rows]
    retries = job_retries(app)
    spec: Json = {
        "schedulerName": "volcano",
        "queue": options.queue,
        "minAvailable": options.min_available or sum(_least(role) for role in app.roles),
        # Volcano allows one restart fewer than this, and replaces 0 by 3.
        "maxRetry": retries + 1,
        "tasks": tasks,
        "plugins": {"svc": _svc_arguments(app), "env": []},
        "policies": [*_job_policies(options, retries)],
        "priorityClassName": options.priority_class,
        "ttlSecondsAfterFinished": options.ttl,
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {key: value for key, value in spec.items() if value not in (None, [])},
    }


def _check_task_names(templates: Sequence[Sequence[tuple[str, int, Json]]]) -> None:
    counts = Counter(name for rows in templates for name, _, _ in rows)
    if twice := sorted(name for name, count in counts.items() if count > 1):
        raise ConfigError(
            f"two tasks of the job would be named {twice[0]}",
            why="a role with ${replica_id} in its variables has one task per replica, named <role>-<replica>",
            fix="rename one of the roles",
        )


def _least(role: Role) -> int:
    return role.num_replicas if role.min_replicas is None else role.min_replicas


def _task(app: AppDef, role: Role, row: tuple[str, int, Json], options: KubernetesOpts) -> Json:
    name, replicas, template = row
    task: Json = {
        "name": name,
        "replicas": replicas,
        "minAvailable": replicas if is_per_replica(role) else _least(role),
        "maxRetry": role.max_retries + 1,
        "template": template,
    }
    is_alone = sum(each.num_replicas for each in app.roles) == 1
    if policies := [*_task_policies(role, options, job_retries(app), is_alone=is_alone)]:
        task["policies"] = policies
    return task


def _task_policies(role: Role, options: KubernetesOpts, retries: int, *, is_alone: bool) -> Iterator[Json]:
    if role.max_retries > 0:
        # RestartPod also deletes the pod of the last failure, so RestartJob is better where it has the same effect.
        action = "RestartJob" if is_alone else ACTIONS[role.retry_policy]
        yield {"events": _FAILURES, "action": action}
    elif retries and options.on_failure == "stop":
        yield {"events": _FAILURES, "action": "TerminateJob"}


def _job_policies(options: KubernetesOpts, retries: int) -> Iterator[Json]:
    if options.on_failure == "stop" and not retries:
        # With maxRetry 1 this ends the job as Failed; AbortJob and TerminateJob would end it in other phases.
        yield {"events": _FAILURES, "action": "RestartJob"}
    if options.pending_timeout is not None:
        yield {"event": "PodPending", "action": "TerminateJob", "timeout": f"{math.ceil(options.pending_timeout)}s"}


def _svc_arguments(app: AppDef) -> list[str]:
    arguments = ["--publish-not-ready-addresses"]
    if any(role.port_map for role in app.roles):
        # The plugin's NetworkPolicy would close these ports to all but the job's pods.
        arguments.append("--disable-network-policy=true")
    return arguments
