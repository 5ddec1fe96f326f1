"""All apps of some namespaces, newest first: by Tables, which are a tenth of what the objects would be."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from asyncsched.errors import NotFoundError, PermissionDeniedError, SchedulerError
from asyncsched.schedulers.kubernetes import lookup_paths as paths
from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.client import KubeClient
from asyncsched.schedulers.kubernetes.lookup_server import Server
from asyncsched.schedulers.kubernetes.status_jobs import JobRecord, Kind, job_record
from asyncsched.schedulers.kubernetes.status_pods import section
from asyncsched.schedulers.kubernetes.status_rows import list_rows, rows_of_tables
from asyncsched.schedulers.responses import ListAppResponse

__all__ = ["ALL", "Namespaces", "list_apps"]

_log = logging.getLogger("asyncsched.schedulers.kubernetes")

ALL = "*"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
PAGE = 500
_BEGINNING = datetime.fromtimestamp(0, UTC)


class Namespaces:
    """Where lists look: in what was asked for, else in default, the context's and those that were submitted to.

    Args:
        asked: Names of namespaces, or ``*`` for all.
    """

    def __init__(self, asked: Sequence[str] | str | None) -> None:
        self._asked = [asked] if isinstance(asked, str) else list(asked) if asked is not None else None
        self._used: dict[str, None] = {}
        self._warned: set[str] = set()

    def use(self, namespace: str) -> None:
        """Note that something was submitted there."""
        self._used[namespace] = None

    async def names(self, client: KubeClient) -> list[str]:
        """Return the namespaces; an empty name is all of them."""
        if self._asked is not None:
            return [""] if ALL in self._asked else list(dict.fromkeys(self._asked))
        return list(dict.fromkeys(("default", (await client.target()).namespace, *self._used)))

    def left_out(self, errors: Mapping[str, SchedulerError]) -> None:
        """Tell once of each namespace that could not be read."""
        for namespace, error in errors.items():
            if namespace not in self._warned:
                self._warned.add(namespace)
                _log.warning("the list leaves out the namespace %s: %s", namespace or ALL, error)


async def list_apps(client: KubeClient, server: Server, namespaces: Namespaces) -> AsyncGenerator[ListAppResponse]:
    """Yield a row for each app, newest first.

    Raises:
        PermissionDeniedError: None of the namespaces may be read.
    """
    kinds = await server.kinds()
    wanted = await namespaces.names(client)
    rows: list[ListAppResponse] = []
    refused: dict[str, SchedulerError] = {}
    for namespace in wanted:
        found, errors = await _read(client, namespace, kinds)
        rows += found
        if len(errors) == len(kinds):
            refused[namespace] = errors[0]
    if len(refused) == len(wanted):
        raise next(iter(refused.values()))
    namespaces.left_out(refused)
    rows.sort(key=lambda row: row.created_at or _BEGINNING, reverse=True)
    for row in rows:
        yield row


async def _read(
    client: KubeClient, namespace: str, kinds: Iterable[Kind]
) -> tuple[list[ListAppResponse], list[SchedulerError]]:
    """Read the rows of a namespace; a role may be for one kind of job only."""
    rows: list[ListAppResponse] = []
    errors: list[SchedulerError] = []
    for kind in kinds:
        try:
            rows += await (_of_volcano(client, namespace) if kind == "volcano" else _of_jobs(client, namespace))
        except (PermissionDeniedError, NotFoundError) as error:
            errors.append(error)
    return rows, errors


async def _of_volcano(client: KubeClient, namespace: str) -> Sequence[ListAppResponse]:
    """Read Volcano's jobs as Tables, which tell their phases."""
    query = {"labelSelector": names.SELECTOR, "limit": str(PAGE), "includeObject": "Metadata"}
    path, tables = paths.jobs(namespace, "volcano"), list[tuple[Kind, Mapping[str, Any]]]()
    while True:
        table = (await client.request("GET", path, query=query, accept=TABLE, operation="list")).json
        tables.append(("volcano", table))
        rest = section(table, "metadata").get("continue")
        if not rest:
            return await asyncio.to_thread(rows_of_tables, tables)
        query = {**query, "continue": str(rest)}


async def _of_jobs(client: KubeClient, namespace: str) -> Sequence[ListAppResponse]:
    """Read Jobs as they are: their Table says that one runs whose pods wait."""
    query = {"labelSelector": names.SELECTOR}
    page = await client.items(paths.jobs(namespace, "job"), _job, query=query, operation="list")
    return list_rows(page.items)


def _job(raw: Mapping[str, Any]) -> JobRecord | None:
    return job_record(raw, "job")
