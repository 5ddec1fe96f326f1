"""Find the apps of a group from any process: each app carries the name of its group."""

from __future__ import annotations

from collections.abc import Iterable

from asyncsched.runner.backends import AnyScheduler
from asyncsched.runner.groups.labels import GROUP
from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse
from asyncsched.specs.names import derive_id

__all__ = ["rows_of_group"]


async def rows_of_group(backend: AnyScheduler, group: str, rows: Iterable[ListAppResponse]) -> list[ListAppResponse]:
    """Return the rows of a scheduler's list that belong to a group.

    App ids of a group with a key begin with the key, so only those are described; if there are none, all are.
    """
    listed = list(rows)
    start = f"{derive_id(group).rpartition('-')[0]}."
    likely = [row for row in listed if start in row.app_id] or listed
    told = await backend.describe_many([row.app_id for row in likely])
    return [row for row in likely if _group_of(told.get(row.app_id)) == group]


def _group_of(response: DescribeAppResponse | None) -> str | None:
    """Return the name of an app's group from its metadata or the environment of its replicas."""
    if response is None:
        return None
    if GROUP in response.metadata:
        return response.metadata[GROUP]
    return next((role.env[GROUP] for role in response.roles if GROUP in role.env), None)
