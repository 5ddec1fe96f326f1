"""A job that somebody has put together: its containers get the labels by which an app is found. No I/O, no SDK."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from asyncsched.schedulers._common.roles import role_of_command
from asyncsched.schedulers.docker import names
from asyncsched.schedulers.docker.request import DockerContainer, DockerJob, role_label

__all__ = ["adopt"]

ROLE = "main"
"""What a role is called that nobody has named."""


def adopt(job: DockerJob, *, session: str, version: str) -> DockerJob:
    """Return a job with labels on all of its containers; those that a dry-run has set stay.

    Args:
        job: The job; it is not changed.
        session: The session's name, for a label.
        version: This package's version, for a label.
    """
    roles = [container.role or ROLE for container in job.containers]
    sizes, seen = Counter(roles), Counter[str]()
    made: list[DockerContainer] = []
    for role, container in zip(roles, job.containers, strict=True):
        k = seen[role]
        seen[role] += 1
        if container.labels.get(names.APP_ID) == job.app_id:
            made.append(container)
            continue
        labels = {
            names.VERSION: version,
            names.APP_ID: job.app_id,
            names.APP_NAME: job.app_id,
            names.SESSION: session,
            names.ROLE: role,
            names.ROLE_INDEX: str([*sizes].index(role)),
            names.REPLICA: str(k),
            names.SPEC: role_label(
                role_of_command(role, container.image, container.command, container.env, sizes[role])
            ),
        }
        name = container.name or names.container_name(job.app_id, role, k)
        made.append(replace(container, name=name, role=role, replica=k, labels={**container.labels, **labels}))
    return replace(job, containers=made)
